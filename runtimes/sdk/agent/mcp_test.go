package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

// envMCP makes this test's program an MCP server, of the kind it names.
const envMCP = "HERD_TEST_MCP"

func TestMain(m *testing.M) {
	if kind := os.Getenv(envMCP); kind != "" {
		serveMCP(kind)
		return
	}
	os.Exit(m.Run())
}

func serveMCP(kind string) {
	switch kind {
	case "dead":
		fmt.Fprintln(os.Stderr, "no database at localhost:5432")
		os.Exit(3)
	case "mute":
		time.Sleep(time.Minute)
	case "garbage":
		fmt.Println("Welcome to my server!")
		time.Sleep(time.Minute)
	case "endless":
		for {
			fmt.Print(strings.Repeat("[", 1<<20))
		}
	default:
		_ = toolServer().Run(context.Background(), &mcp.StdioTransport{}) // it ends with its stdin
	}
}

func toolServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "t", Version: "1"}, &mcp.ServerOptions{Instructions: "Add before you multiply."})
	type text struct {
		Text string `json:"text"`
	}
	say := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}
	add := func(name string, run func(ctx context.Context, in text) (*mcp.CallToolResult, error)) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: name + " it"}, func(ctx context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
			r, err := run(ctx, in)
			return r, nil, err
		})
	}
	add("echo", func(_ context.Context, in text) (*mcp.CallToolResult, error) { return say("echo: " + in.Text), nil })
	add("big", func(context.Context, text) (*mcp.CallToolResult, error) {
		return say("begin" + strings.Repeat("x", 1<<20) + "end"), nil
	})
	add("env", func(context.Context, text) (*mcp.CallToolResult, error) {
		dir, _ := os.Getwd()
		return say(fmt.Sprintf("%s key=%s level=%s", dir, os.Getenv(sdk.EnvAPIKey), os.Getenv("LEVEL"))), nil
	})
	add("fail", func(context.Context, text) (*mcp.CallToolResult, error) { return nil, errors.New("no such issue") })
	add("die", func(context.Context, text) (*mcp.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "out of luck")
		os.Exit(4)
		return nil, nil
	})
	add("hang", func(ctx context.Context, _ text) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	add("picture", func(context.Context, text) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{MIMEType: "image/png", Data: []byte("png")}}}, nil
	})
	return s
}

// program is the configuration of a server of that kind, as a process.
func program(kind string) string {
	return fmt.Sprintf(`{"command":%q,"env":{"%s":%q,"LEVEL":"debug"}}`, os.Args[0], envMCP, kind)
}

func TestToolsOfMCPServers(t *testing.T) {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return toolServer() }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer web.Close()
	old := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return toolServer() }, nil))
	defer old.Close()
	for kind, config := range map[string]string{
		"program": program("tools"),
		"http":    fmt.Sprintf(`{"type":"http","url":%q,"headers":{"Authorization":"Bearer t0ken"}}`, web.URL),
		"sse":     fmt.Sprintf(`{"type":"sse","url":%q}`, old.URL),
	} {
		t.Run(kind, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			s := serve(t,
				calls("mcp__t__echo", `{"text":"hello"}`, "mcp__t__big", `{"text":""}`, "mcp__t__env", `{"text":""}`),
				calls("mcp__t__fail", `{"text":""}`, "mcp__t__picture", `{"text":""}`, "mcp__t__hang", `{}`, "mcp__t__echo", `{"text":7}`, "mcp__t__echo", `[]`),
				says("done"))
			r := drive(t, s, sdk.Request{Workdir: dir, MCPServers: json.RawMessage(`{"t":` + config + `}`), DeniedTools: []string{"mcp__t__ha*"}})
			if r.result.Cause != "" || r.result.Text != "done" {
				t.Fatalf("%+v", r.result)
			}
			if !strings.Contains(s.requests[0], `"name":"mcp__t__echo"`) || strings.Contains(s.requests[0], "mcp__t__hang") {
				t.Errorf("the tools are not those that are allowed:\n%s", s.requests[0])
			}
			if !strings.Contains(s.requests[0], "Add before you multiply.") {
				t.Error("the server's instructions do not reach the model")
			}
			var results []string
			for _, rec := range r.records {
				if rec.Type == event.MessageToolResult {
					results = append(results, fmt.Sprint(rec.IsError, " ", rec.Text))
				}
			}
			wants := []string{"false echo: hello", "bytes left out here", "level=debug", "true no such issue", "false [an image, image/png, 3 bytes: not shown]",
				"true there is no tool", "true ", "true the input does not fit"}
			if kind != "program" {
				wants[2] = "level=\n"
			}
			if len(results) != len(wants) {
				t.Fatalf("%d results, want %d: %q", len(results), len(wants), results)
			}
			for i, want := range wants {
				if !strings.Contains(results[i]+"\n", want) || len(results[i]) > maxOutputBytes+200 {
					t.Errorf("result %d: %.300q, want %q", i, results[i], want)
				}
			}
			if kind == "program" && !strings.Contains(results[2], dir+" key= ") {
				t.Errorf("a server runs in the workspace and sees no credential: %s", results[2])
			}
		})
	}
}

func TestAnMCPServerThatDiesInTheMiddle(t *testing.T) {
	s := serve(t, calls("mcp__t__die", `{"text":""}`), calls("mcp__t__echo", `{"text":""}`, "bash", `{"command":"echo goes on"}`), says("without it"))
	r := drive(t, s, sdk.Request{MCPServers: json.RawMessage(`{"t":` + program("tools") + `}`)})
	if r.result.Cause != "" || r.result.Text != "without it" {
		t.Fatalf("%+v", r.result)
	}
	for _, body := range s.requests[1:] {
		if !strings.Contains(body, "the MCP server t has ended (exit status 4); it said: out of luck; its tools can not be used any more") {
			t.Errorf("the model is not told:\n%s", body)
		}
	}
}

// A server that is not there ends the step before the model is asked, in words
// for the person, and leaves nothing running.
func TestMCPServersThatDoNotStart(t *testing.T) {
	deaf := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // till then the server does not see the client go
		<-r.Context().Done()
	}))
	t.Cleanup(deaf.Close)
	closed := httptest.NewServer(nil)
	closed.Close()
	wall := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "who are you", http.StatusUnauthorized)
	}))
	t.Cleanup(wall.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Proxy-Status", "herd-runner; error=http_request_denied")
		http.Error(w, "herd-runner: mcp.example:443 is not in the list of this step", http.StatusForbidden)
	}))
	t.Cleanup(proxy.Close)
	tests := []struct {
		name, config string
		proxy        string
		want         []string
	}{
		{"no such program", `{"command":"no-such-mcp-server"}`, "", []string{"mcp-servers: t: its program can not be started", "no-such-mcp-server", "put the program into the image"}},
		{"dead", program("dead"), "", []string{"its program ended before it answered (exit status 3); it said: no database at localhost:5432", "by hand"}},
		{"mute", program("mute"), "", []string{"did not answer within 2s", "speaks MCP"}},
		{"garbage", program("garbage"), "", []string{"mcp-servers: t: "}},
		{"endless", program("endless"), "", []string{"mcp-servers: t: "}},
		{"nobody listens", `{"url":"` + closed.URL + `/mcp?key=s3cret"}`, "", []string{closed.URL + "/mcp: ", "refused", "check the address"}},
		{"deaf", `{"url":"` + deaf.URL + `"}`, "", []string{"did not answer within 2s"}},
		{"unauthorized", `{"url":"` + wall.URL + `"}`, "", []string{"Unauthorized", "its headers"}},
		{"refused by the proxy", `{"url":"https://mcp.example/mcp"}`, proxy.URL, []string{"mcp.example:443 is not in the list of this step"}},
		{"refused by the proxy, plain", `{"url":"http://mcp.example/mcp"}`, proxy.URL, []string{"is not in the list of this step"}},
		{"deaf, of the older transport", `{"type":"sse","url":"` + deaf.URL + `"}`, "", []string{"did not answer within 2s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env := newEnvironment([]string{"PATH=" + os.Getenv("PATH"), "HTTPS_PROXY=" + tt.proxy, "HTTP_PROXY=" + tt.proxy}, sdk.Anthropic)
			_, err := startMCP(t.Context(), json.RawMessage(`{"t":`+tt.config+`}`), workspace{dir: t.TempDir(), env: env.tools, net: newNetwork(env)}, 2*time.Second)
			var f *failure
			if !errors.As(err, &f) {
				t.Fatalf("%v", err)
			}
			said := f.message + " " + f.hint
			for _, want := range tt.want {
				if !strings.Contains(said, want) {
					t.Errorf("%q, want %q in it", said, want)
				}
			}
			if strings.Contains(said, "s3cret") || len(said) > 2*maxSaid {
				t.Errorf("too much is said: %s", said)
			}
		})
	}
	s := serve(t) // a request would be one too many
	r := drive(t, s, sdk.Request{MCPServers: json.RawMessage(`{"ok":` + program("tools") + `,"t":` + program("dead") + `}`)})
	if r.result.Cause != event.CauseExitCode || !strings.Contains(r.result.Message, "mcp-servers: t: ") {
		t.Errorf("%+v", r.result)
	}
}

func TestNoNetwork(t *testing.T) {
	n := newNetwork(newEnvironment(nil, sdk.Anthropic))
	n.sealed = func() bool { return true }
	if err := n.explain(errors.New("dial tcp: lookup x"), "https://mcp.example/"); !strings.Contains(err.Error(), "no network (docker.network: none)") {
		t.Error(err)
	}
	if err := n.explain(errors.New("refused"), "http://127.0.0.1:1/"); err.Error() != "refused" {
		t.Error(err)
	}
}

func TestToolNames(t *testing.T) {
	long := strings.Repeat("a", 80)
	for _, names := range [][2]string{{"get issue/№", "mcp__s__get_issue__"}, {"plain-1", "mcp__s__plain-1"}, {long, ""}} {
		got := toolName("s", names[0])
		if names[1] != "" && got != names[1] || len(got) > maxToolName {
			t.Errorf("%s: %s", names[0], got)
		}
	}
	if toolName("s", long+"1") == toolName("s", long+"2") {
		t.Error("two long names are the same")
	}
}
