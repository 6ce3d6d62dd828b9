package fakemodel

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const twoTurns = `
scenarios:
  - name: fix
    prompt: '(?i)make .* deterministic'
    turns:
      - text: I look at both.
        calls:
          - {name: "Bash|bash", input: {command: "cat a_test.go"}}
          - {name: "Read|read", input: {file_path: b.go}}
        usage: {input: 1200, output: 80, cache_read: 7, cache_write: 9}
      - calls: [{name: "Edit|edit", input: {old: "é1", new: "é2"}}]
      - text: Done.
        stop: end_turn
  - name: flaky
    prompt: overloaded first
    turns:
      - {fail: "529", fail_times: 1, retry_after: "3", text: recovered}
`

func start(t *testing.T, scenarios string, log io.Writer) *httptest.Server {
	t.Helper()
	opts := Options{Log: log}
	if scenarios != "" {
		s, err := ParseScenarios([]byte(scenarios))
		if err != nil {
			t.Fatal(err)
		}
		opts.Scenarios = s
	}
	srv := httptest.NewServer(Handler(opts))
	t.Cleanup(srv.Close)
	return srv
}

func post(t *testing.T, url, body string) (int, http.Header, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

const prompt = `{"role":"user","content":[{"type":"text","text":"<system-reminder>x</system-reminder>"},{"type":"text","text":"Make TestA deterministic."}]}`

func results(n int) string {
	var blocks []string
	for range n {
		blocks = append(blocks, `{"type":"tool_result","tool_use_id":"t","content":"ok"}`)
	}
	return `,{"role":"assistant","content":[]},{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`
}

func request(tools, messages string) string {
	return `{"model":"claude-sonnet-5","tools":[` + tools + `],"messages":[` + messages + `]}`
}

func TestScenarioTurnsFollowToolResults(t *testing.T) {
	srv := start(t, twoTurns, nil)
	cli := `{"name":"Bash"},{"name":"Read"},{"name":"Edit"}`
	sdk := `{"name":"bash"},{"name":"read"},{"name":"edit"}`
	for _, tc := range []struct{ name, tools, messages, want string }{
		{"first turn, CLI names", cli, prompt, `"name":"Bash"`},
		{"first turn, SDK names", sdk, prompt, `"name":"bash"`},
		{"usage as scripted", cli, prompt, `"usage":{"cache_creation_input_tokens":9,"cache_read_input_tokens":7,"input_tokens":1200,"output_tokens":80}`},
		{"both results in", cli, prompt + results(2), `"name":"Edit"`},
		{"last turn", cli, prompt + results(2) + results(1), `"text":"Done."`},
		{"a side request without tools", "", prompt, `{\"title\":\"fix\"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, _, body := post(t, srv.URL+"/v1/messages?beta=true", request(tc.tools, tc.messages))
			if code != 200 || !strings.Contains(body, tc.want) {
				t.Fatalf("%d %s, want %s", code, body, tc.want)
			}
			_, _, again := post(t, srv.URL+"/v1/messages", request(tc.tools, tc.messages))
			if again != body {
				t.Errorf("the same request got another answer:\n%s\n%s", body, again)
			}
		})
	}
}

func TestUnscriptedFailsLoudly(t *testing.T) {
	srv := start(t, twoTurns, nil)
	for _, tc := range []struct{ name, path, body, want string }{
		{"prompt", "/v1/messages", request("", `{"role":"user","content":"sing"}`), `fakemodel: no scenario matches the prompt \"sing\"`},
		{"tool", "/v1/messages", request(`{"name":"Sing"}`, prompt), `offers no tool \"Bash|bash\", only Sing`},
		{"too far", "/v1/messages", request(`{"name":"Sing"}`, prompt+results(9)), "no turn after 9 tool results"},
		{"API", "/v1/responses", `{}`, "Anthropic Messages only"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, h, body := post(t, srv.URL+tc.path, tc.body)
			if code != 400 || !strings.Contains(body, tc.want) || h.Get("x-should-retry") != "false" {
				t.Fatalf("%d %v %s, want %s", code, h, body, tc.want)
			}
		})
	}
}

func TestScenarioFailsThenRecovers(t *testing.T) {
	srv := start(t, twoTurns, nil)
	body := request("", `{"role":"user","content":"overloaded first"}`)
	code, h, _ := post(t, srv.URL+"/v1/messages", body)
	if code != 529 || h.Get("Retry-After") != "3" {
		t.Fatalf("first: %d %v", code, h)
	}
	if code, _, got := post(t, srv.URL+"/v1/messages", body); code != 200 || !strings.Contains(got, "recovered") {
		t.Fatalf("second: %d %s", code, got)
	}
}

func TestBadScenarios(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "no scenarios",
		"scenarios: [{prompt: x}]": "needs a prompt",
		"scenarios: [{prompt: '(', turns: [{text: a}]}]": "missing closing )",
		"scenarios: [{promt: x}]":                        "promt",
	} {
		if _, err := ParseScenarios([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func TestScriptsSpeakEveryAPI(t *testing.T) {
	srv := start(t, "", nil)
	cmd := base64.RawURLEncoding.EncodeToString([]byte("go test ./..."))
	for _, tc := range []struct{ name, path, body, want string }{
		{"messages stream", "/v1/messages", `{"stream":true,"tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"x"}]}`, "event: message_stop"},
		{"messages", "/v1/messages", `{"tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"x"}]}`, `"command":"go test ./..."`},
		{"count", "/v1/messages/count_tokens", `{}`, `"input_tokens":1234`},
		{"responses", "/v1/responses", `{"tools":[{"name":"shell","type":"function"}],"input":[]}`, `"function_call"`},
		{"responses stream", "/v1/responses", `{"stream":true,"input":[]}`, "event: response.completed"},
		{"chat", "/v1/chat/completions", `{"tools":[{"function":{"name":"bash"}}],"messages":[]}`, `"finish_reason":"tool_calls"`},
		{"chat stream", "/v1/chat/completions", `{"stream":true,"messages":[]}`, "data: [DONE]"},
		{"gemini", "/v1beta/models/g:generateContent", `{"tools":[{"functionDeclarations":[{"name":"run_shell_command"}]}]}`, `"functionCall"`},
		{"gemini stream", "/v1beta/models/g:streamGenerateContent", `{}`, "data: {"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, _, body := post(t, srv.URL+"/s/cmd="+cmd+"/r"+tc.path, tc.body)
			if code != 200 || !strings.Contains(body, tc.want) {
				t.Fatalf("%d %s, want %s", code, body, tc.want)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	srv := start(t, "", nil)
	for f, want := range map[string]int{"400": 400, "401": 401, "402": 402, "403": 403, "404": 404, "413": 413, "429": 429, "500": 500, "502": 502, "503": 503,
		"529": 529, "credit": 400, "toolong": 400, "spend": 400, "html": 502, "empty": 200, "garbagejson": 200, "malformed": 200, "sseerror": 200} {
		if code, _, _ := post(t, srv.URL+"/s/fail="+f+"/r/v1/messages", `{}`); code != want {
			t.Errorf("%s: %d, want %d", f, code, want)
		}
	}
	for _, f := range []string{"reset", "truncated"} {
		resp, err := http.Post(srv.URL+"/s/fail="+f+"/r/v1/messages", "application/json", strings.NewReader(`{}`))
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if err == nil {
			t.Errorf("%s: the answer ended cleanly", f)
		}
	}
}

func TestLogHoldsEveryRequest(t *testing.T) {
	var log bytes.Buffer
	srv := start(t, "", &log)
	post(t, srv.URL+"/s/do=text/r7/v1/messages", `{"model":"m"}`)
	srv.Close()
	var e entry
	if err := json.Unmarshal(log.Bytes(), &e); err != nil {
		t.Fatal(err)
	}
	if e.Script != "do=text" || e.Run != "r7" || string(e.Body) != `{"model":"m"}` || e.Answer == "" {
		t.Errorf("log record %+v", e)
	}
}
