package agent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/fakemodel"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

// others are the engines whose server is fakemodel here.
var others = []string{sdk.OpenAI, sdk.Gemini}

// against runs the loop with a script of fakemodel and returns the bodies it
// was sent.
func against(t *testing.T, script string, req sdk.Request) (run, []string) {
	t.Helper()
	var log bytes.Buffer
	s := httptest.NewServer(fakemodel.Handler(fakemodel.Options{Log: &log}))
	r := drive(t, &modelServer{Server: &httptest.Server{URL: s.URL + "/s/" + script + "/r"}}, req)
	s.Close() // waits for what is written to the log
	var bodies []string
	for line := range bytes.Lines(log.Bytes()) {
		var e struct{ Body json.RawMessage }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, string(e.Body))
	}
	return r, bodies
}

func b64(v string) string { return base64.RawURLEncoding.EncodeToString([]byte(v)) }

func TestEveryVendorsModelWorks(t *testing.T) {
	for _, engine := range others {
		t.Run(engine, func(t *testing.T) {
			home, dir := t.TempDir(), t.TempDir()
			req := sdk.Request{Engine: engine, Home: home, Workdir: dir, Prompt: "first prompt", AppendSystemPrompt: "APPENDED"}
			r, bodies := against(t, "do=bash,cmd="+b64("echo hi > f.txt; echo out-$OPENAI_API_KEY$GEMINI_API_KEY | sed s/placeholder/x/"), req)
			if r.code != 0 || r.result.Cause != "" || r.result.Text != "All done: f.txt written." || r.result.Turns != 2 {
				t.Fatalf("result %+v", r.result)
			}
			if want := "init tool_call tool_result text result"; r.kinds() != want {
				t.Errorf("records %s, want %s", r.kinds(), want)
			}
			if data, err := os.ReadFile(filepath.Join(dir, "f.txt")); err != nil || string(data) != "hi\n" {
				t.Errorf("file %q: %v", data, err)
			}
			if len(bodies) != 2 || !strings.Contains(bodies[0], "APPENDED") || !strings.Contains(bodies[1], `out-x\n`) {
				t.Errorf("bodies: %s", bodies)
			}
			if engine == sdk.OpenAI && !strings.Contains(bodies[0], `"include_usage":true`) {
				t.Errorf("no usage is asked for: %s", bodies[0])
			}

			req.Resume, req.Prompt = sessionA, "second prompt"
			r, bodies = against(t, "text", req)
			if r.result.SessionID != sessionA || r.result.Cause != "" {
				t.Fatalf("resumed: %+v", r.result)
			}
			for _, want := range []string{"first prompt", `out-x\n`, "All done", "second prompt"} {
				if !strings.Contains(bodies[0], want) {
					t.Errorf("the resumed request lacks %q: %s", want, bodies[0])
				}
			}
		})
	}
}

func TestEveryVendorsStructuredOutput(t *testing.T) {
	for _, engine := range others {
		for name, tt := range map[string]struct {
			script string
			want   string
			cause  event.Cause
		}{
			"given":    {"do=bash,tool=" + sdk.StructuredTool + ",input=" + b64(`{"n":3}`), `{"n":3}`, ""},
			"bad":      {"do=loop,tool=" + sdk.StructuredTool + ",input=" + b64(`{"n":"x"}`), "", event.CauseNoResult},
			"in words": {"text", "", event.CauseNoResult},
		} {
			t.Run(engine+" "+name, func(t *testing.T) {
				r, bodies := against(t, tt.script, sdk.Request{Engine: engine, OutputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)})
				if r.result.Cause != tt.cause || string(r.result.Structured) != tt.want {
					t.Errorf("%+v", r.result)
				}
				if forced := strings.Contains(bodies[len(bodies)-1], `"tool_choice"`) || strings.Contains(bodies[len(bodies)-1], `"allowedFunctionNames":["structured_output"]`); forced != (name == "in words") {
					t.Errorf("forced: %v in %s", forced, bodies[len(bodies)-1])
				}
			})
		}
	}
}

func TestEveryVendorsFailures(t *testing.T) {
	for _, engine := range others {
		for script, want := range map[string]event.Cause{
			"fail=400":          event.CauseExitCode,
			"fail=401":          event.CauseAuth,
			"fail=403":          event.CauseAuth,
			"fail=404":          event.CauseExitCode,
			"fail=429,ra=3600":  event.CauseRateLimited,
			"fail=500,sr=false": event.CauseInfrastructure,
			// Tried again, and then well.
			"text,fail=500,n=1":       "",
			"text,fail=truncated,n=1": "",
			"text,fail=malformed,n=1": "",
			"text,fail=empty,n=1":     "",
			"text,fail=reset,n=1":     "",
			"text,fail=sseerror,n=1":  "",
			"text,fail=html,n=1":      "",
		} {
			t.Run(engine+" "+script, func(t *testing.T) {
				t.Parallel()
				r, _ := against(t, script, sdk.Request{Engine: engine})
				if r.result.Type != event.MessageResult || r.result.Cause != want {
					t.Errorf("%+v, want cause %q", r.result, want)
				}
				if retried := strings.Contains(r.kinds(), "retry"); retried != (want == "") {
					t.Errorf("records: %s", r.kinds())
				}
			})
		}
	}
}

// streams serves each of the given event streams once.
func streams(t *testing.T, script ...string) *modelServer {
	t.Helper()
	n := 0
	s := &modelServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		s.requests = append(s.requests, body.String())
		if n >= len(script) {
			t.Errorf("request %d is not in the script: %s", n+1, &body)
			http.Error(w, "not in the script", http.StatusBadRequest)
			return
		}
		w.Header().Set("content-type", "text/event-stream")
		for line := range strings.Lines(script[n]) {
			fmt.Fprintf(w, "data: %s\n\n", strings.TrimSpace(line))
		}
		n++
	}))
	t.Cleanup(s.Close)
	return s
}

func TestOpenAIStreams(t *testing.T) {
	const done = `{"choices":[{"index":0,"delta":{"content":"done"},"finish_reason":"stop"}]}` + "\n[DONE]"
	calls := `{"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"hm"}}]}
{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"list","arguments":""}}]}}]}
{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"pa"}}]}}]}
{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"th\":\".\"}"}}]}}]}
{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"b","type":"function","function":{"name":"bash","arguments":"{not json"}}]}}]}
{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}
{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}
[DONE]`
	s := streams(t, calls, done)
	r := drive(t, s, sdk.Request{Engine: sdk.OpenAI})
	if want := "init thinking tool_call tool_call tool_result tool_result text result"; r.kinds() != want || r.result.Text != "done" {
		t.Fatalf("%s: %+v", r.kinds(), r.result)
	}
	if diff := cmp.Diff([]string{`{"path":"."}`, `"{not json"`}, []string{string(r.records[2].Input), string(r.records[3].Input)}); diff != "" {
		t.Error(diff)
	}
	if !r.records[5].IsError || !strings.Contains(r.records[5].Text, "does not fit") {
		t.Errorf("bad arguments: %+v", r.records[5])
	}
	if !strings.Contains(s.requests[1], `"arguments":"{not json"`) || strings.Contains(s.requests[1], "hm\"") {
		t.Errorf("the second request: %s", s.requests[1])
	}
	for name, tt := range map[string]struct {
		stream string
		cause  event.Cause
		want   string
	}{
		"filter":  {`{"choices":[{"index":0,"delta":{},"finish_reason":"content_filter"}]}`, event.CauseRefused, ""},
		"refusal": {`{"choices":[{"index":0,"delta":{"refusal":"I will not"},"finish_reason":"stop"}]}`, event.CauseRefused, "I will not"},
		"quota":   {`{"error":{"message":"pay first","type":"insufficient_quota","code":"insufficient_quota"}}`, event.CauseBudget, "pay first"},
	} {
		r := drive(t, streams(t, tt.stream), sdk.Request{Engine: sdk.OpenAI})
		if r.result.Cause != tt.cause || !strings.Contains(r.result.Message, tt.want) {
			t.Errorf("%s: %+v", name, r.result)
		}
	}
	spare := `{"choices":[{"index":0,"delta":{"content":"no error"},"finish_reason":null}],"error":null}
{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"error":null}`
	if r := drive(t, streams(t, spare), sdk.Request{Engine: sdk.OpenAI}); r.result.Text != "no error" {
		t.Errorf("an endpoint that says it has no error: %+v", r.result)
	}
	cut := `{"choices":[{"index":0,"delta":{"content":"part one, "},"finish_reason":"length"}]}`
	if r := drive(t, streams(t, cut, done), sdk.Request{Engine: sdk.OpenAI}); r.result.Text != "part one, done" {
		t.Errorf("cut: %+v", r.result)
	}
}

func TestGeminiStreams(t *testing.T) {
	const done = `{"candidates":[{"content":{"parts":[{"text":"do"}]}}]}
{"candidates":[{"content":{"parts":[{"text":"ne"}]},"finishReason":"STOP"}]}`
	calls := `{"candidates":[{"content":{"role":"model","parts":[{"text":"hm","thought":true}]}}]}
{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"list","args":{"path":"."}},"thoughtSignature":"c2VhbA=="},{"functionCall":{"id":"g1","name":"bash","args":{"command":"exit 3"}}}]}}]}
{"candidates":[{"content":{"role":"model","parts":[]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1}}`
	s := streams(t, calls, done)
	r := drive(t, s, sdk.Request{Engine: sdk.Gemini})
	if want := "init thinking tool_call tool_call tool_result tool_result text result"; r.kinds() != want || r.result.Text != "done" {
		t.Fatalf("%s: %+v", r.kinds(), r.result)
	}
	var second struct{ Contents []json.RawMessage }
	if err := json.Unmarshal([]byte(s.requests[1]), &second); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"parts":[{"text":"do it"}],"role":"user"}`,
		`{"parts":[{"functionCall":{"args":{"path":"."},"name":"list"},"thoughtSignature":"c2VhbA=="},{"functionCall":{"args":{"command":"exit 3"},"id":"g1","name":"bash"}}],"role":"model"}`,
		`{"parts":[{"functionResponse":{"name":"list","response":{"output":"[the directory is empty]"}}},{"functionResponse":{"id":"g1","name":"bash","response":{"error":"[exit code 3]"}}}],"role":"user"}`,
	}
	var sent []string
	for _, c := range second.Contents {
		sent = append(sent, string(c))
	}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("the second request: %s", diff)
	}
	for name, tt := range map[string]struct {
		stream string
		cause  event.Cause
		want   string
	}{
		"safety":  {`{"candidates":[{"content":{"parts":[{"text":"no"}]},"finishReason":"SAFETY"}]}`, event.CauseRefused, "no"},
		"blocked": {`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}`, event.CauseRefused, "PROHIBITED_CONTENT"},
		"bad key": {`{"error":{"code":400,"message":"API key not valid.","details":[{"reason":"API_KEY_INVALID"}]}}`, event.CauseAuth, "not valid"},
		"later":   {`{"error":{"code":429,"message":"quota","details":[{"retryDelay":"3600s"}]}}`, event.CauseRateLimited, "quota"},
	} {
		r := drive(t, streams(t, tt.stream), sdk.Request{Engine: sdk.Gemini})
		if r.result.Cause != tt.cause || !strings.Contains(r.result.Message, tt.want) {
			t.Errorf("%s: %+v", name, r.result)
		}
	}
	for _, reason := range []string{"MAX_TOKENS", "CONTINUATION"} {
		cut := `{"candidates":[{"content":{"parts":[{"text":"part one, "}]},"finishReason":"` + reason + `","continuationToken":"dG9rZW4="}]}`
		if r := drive(t, streams(t, cut, done), sdk.Request{Engine: sdk.Gemini}); r.result.Text != "part one, done" {
			t.Errorf("%s: %+v", reason, r.result)
		}
	}
	for _, odd := range []string{`{"candidates":5}`, `{"candidates":[5]}`, `{"candidates":[{"content":[]}]}`, `{"promptFeedback":"no"}`} {
		if r := drive(t, streams(t, odd, done), sdk.Request{Engine: sdk.Gemini}); r.result.Text != "done" || !strings.Contains(r.kinds(), "retry") {
			t.Errorf("%s: %s %+v", odd, r.kinds(), r.result)
		}
	}
	if r := drive(t, streams(t), sdk.Request{Engine: sdk.Gemini, Model: "a?key=b"}); r.result.Cause != event.CauseExitCode || !strings.Contains(r.result.Message, "invalid model") || strings.Contains(r.kinds(), "retry") {
		t.Errorf("a model that is none: %s %+v", r.kinds(), r.result)
	}
}

func TestGeminiIsSentObjectsOnly(t *testing.T) {
	home := t.TempDir()
	const calls = `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{not json"}}]},"finish_reason":"tool_calls"}]}`
	const done = `{"choices":[{"index":0,"delta":{"content":"done"},"finish_reason":"stop"}]}`
	drive(t, streams(t, calls, done), sdk.Request{Engine: sdk.OpenAI, Home: home})
	r, bodies := against(t, "text", sdk.Request{Engine: sdk.Gemini, Home: home, Resume: sessionA})
	if r.result.Cause != "" || !strings.Contains(bodies[0], `"args":{"input":"{not json"}`) {
		t.Errorf("%+v\n%s", r.result, bodies)
	}
}

func TestASessionOfAnotherVendorGoesOnWithoutItsSeals(t *testing.T) {
	home := t.TempDir()
	thinking := says("first answer")
	thinking.blocks = append([]string{`{"type":"thinking","thinking":"hm","signature":"SEAL"}`}, thinking.blocks...)
	drive(t, serve(t, thinking), sdk.Request{Home: home, Prompt: "first prompt"})
	r, bodies := against(t, "text", sdk.Request{Engine: sdk.Gemini, Home: home, Resume: sessionA})
	if r.result.Cause != "" || !strings.Contains(bodies[0], "first answer") || strings.Contains(bodies[0], "SEAL") {
		t.Errorf("%+v\n%s", r.result, bodies)
	}
}
