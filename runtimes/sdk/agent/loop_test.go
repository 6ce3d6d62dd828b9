package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

const sessionA = "3f2b6c1e-8a4d-4f7b-9c2e-5d1a0b7e6f43"

// run is one run of the loop against a server, without waiting in between.
type run struct {
	records []sdk.Record
	result  sdk.Record
	code    int
}

// addresses are the variables of every engine.
func addresses(url string) []string {
	return []string{sdk.EnvBaseURL + "=" + url, sdk.EnvAPIKey + "=placeholder",
		sdk.EnvOpenAIBaseURL + "=" + url + "/v1", sdk.EnvOpenAIKey + "=placeholder",
		sdk.EnvGeminiBaseURL + "=" + url, sdk.EnvGeminiKey + "=placeholder"}
}

func drive(t *testing.T, s *modelServer, req sdk.Request) run {
	t.Helper()
	req.Version = sdk.ProtocolVersion
	if req.Engine == "" {
		req.Engine = sdk.Anthropic
	}
	if req.Prompt == "" {
		req.Prompt = "do it"
	}
	if req.Workdir == "" {
		req.Workdir = t.TempDir()
	}
	if req.Home == "" {
		req.Home = t.TempDir()
	}
	if req.SessionID == "" && req.Resume == "" {
		req.SessionID = sessionA
	}
	stdin, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	code := work(ctx, bytes.NewReader(stdin), &stdout, append(addresses(s.URL), "PATH="+os.Getenv("PATH")))
	return readRun(t, stdout.String(), code)
}

func readRun(t *testing.T, stdout string, code int) run {
	t.Helper()
	r := run{code: code}
	for line := range strings.Lines(stdout) {
		var rec sdk.Record
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatalf("not a record: %q: %v", line, err)
		}
		r.records = append(r.records, rec)
	}
	if n := len(r.records); n > 0 {
		r.result = r.records[n-1]
	}
	return r
}

func (r run) kinds() string {
	var kinds []string
	for _, rec := range r.records {
		kinds = append(kinds, string(rec.Type))
	}
	return strings.Join(kinds, " ")
}

func TestToolsChangeTheWorkspaceAndTheirResultsReachTheModel(t *testing.T) {
	dir := t.TempDir()
	s := serve(t,
		calls("write", `{"path":"a/b.txt","content":"one\ntwo\n"}`, "bash", `{"command":"cat a/b.txt; echo $ANTHROPIC_API_KEY-end"}`),
		calls("edit", `{"path":"a/b.txt","old_string":"two","new_string":"zwei"}`),
		says("done"))
	r := drive(t, s, sdk.Request{Workdir: dir})
	if r.code != 0 || r.result.Cause != "" || r.result.Text != "done" || r.result.Turns != 3 || r.result.SessionID != sessionA {
		t.Fatalf("result %+v, code %d", r.result, r.code)
	}
	data, err := os.ReadFile(filepath.Join(dir, "a/b.txt"))
	if err != nil || string(data) != "one\nzwei\n" {
		t.Errorf("file: %q, %v", data, err)
	}
	if want := "init tool_call tool_call tool_result tool_result tool_call tool_result text result"; r.kinds() != want {
		t.Errorf("records:\n got %s\nwant %s", r.kinds(), want)
	}
	if !strings.Contains(s.requests[1], `one\ntwo\n-end`) {
		t.Errorf("the second request lacks the output, or tools saw the credential:\n%s", s.requests[1])
	}
	if got := s.headers[0].Get("x-api-key"); got != "placeholder" {
		t.Errorf("x-api-key = %q", got)
	}
}

func TestTheSameTaskSendsTheSameRequests(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"AGENTS.md", "CLAUDE.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("Use tabs."), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	once := func() []string {
		s := serve(t, calls("glob", `{"pattern":"*.md"}`, "list", `{}`, "grep", `{"pattern":"tabs"}`), says("ok"))
		drive(t, s, sdk.Request{Workdir: dir, AppendSystemPrompt: "APPENDED", OutputSchema: nil})
		return s.requests
	}
	first, second := once(), once()
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("requests differ:\n%s", diff)
	}
	if strings.Count(first[0], "Use tabs.") != 1 || !strings.Contains(first[0], "APPENDED") {
		t.Errorf("instructions are not there once:\n%s", first[0])
	}
	for i, body := range first {
		if n := strings.Count(body, `"cache_control"`); n != 2 {
			t.Errorf("request %d has %d cache marks, want 2 (system, last turn)", i, n)
		}
	}
}

func TestEndings(t *testing.T) {
	loop := calls("list", `{}`)
	cut := says("part one, ")
	cut.stop = "max_tokens"
	refusal := says("I will not")
	refusal.stop = "refusal"
	tests := []struct {
		name   string
		script []reply
		req    sdk.Request
		cause  event.Cause
		text   string // in the answer or the message
	}{
		{"max turns", []reply{loop, loop}, sdk.Request{MaxTurns: 2}, event.CauseMaxTurns, "2 turns"},
		{"done in the last turn", []reply{loop, says("in time")}, sdk.Request{MaxTurns: 2}, "", "in time"},
		{"refusal", []reply{refusal}, sdk.Request{}, event.CauseRefused, "I will not"},
		{"cut answer goes on", []reply{cut, says("part two")}, sdk.Request{}, "", "part one, part two"},
		{"cut for ever", []reply{cut, cut, cut, cut}, sdk.Request{}, event.CauseNoResult, "output limit"},
		{"bad key", []reply{fails(401, "invalid x-api-key")}, sdk.Request{}, event.CauseAuth, "invalid x-api-key"},
		{"forbidden", []reply{fails(403, "no")}, sdk.Request{}, event.CauseAuth, "403"},
		{"bad request", []reply{fails(400, "bad thing")}, sdk.Request{}, event.CauseExitCode, "bad thing"},
		{"told not to retry", []reply{fails(529, "busy", "x-should-retry", "false")}, sdk.Request{}, event.CauseRateLimited, "busy"},
		{"asked to wait too long", []reply{fails(429, "later", "retry-after", "3600")}, sdk.Request{}, event.CauseRateLimited, "later"},
		{"retry helps", []reply{fails(500, "oops", "retry-after", "0.01"), says("fine")}, sdk.Request{}, "", "fine"},
		{"stream breaks off", []reply{{raw: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\n"}, says("again")}, sdk.Request{}, "", "again"},
		{"empty stream", []reply{{raw: "\n"}, says("again")}, sdk.Request{}, "", "again"},
		{"fallback model", []reply{fails(404, "no such model"), says("from the other")}, sdk.Request{Model: "m1", FallbackModel: "m2"}, "", "from the other"},
		{"unknown tool is told", []reply{calls("launch", `{}`), says("ok")}, sdk.Request{}, "", "ok"},
		{"bad input is told", []reply{calls("read", `{"path":7}`), says("ok")}, sdk.Request{}, "", "ok"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tt.script...)
			r := drive(t, s, tt.req)
			if r.result.Type != event.MessageResult || r.result.Cause != tt.cause {
				t.Fatalf("result %+v, want cause %q", r.result, tt.cause)
			}
			if got := r.result.Text + r.result.Message; !strings.Contains(got, tt.text) {
				t.Errorf("result says %q, want %q in it", got, tt.text)
			}
			if (r.code == 0) != (tt.cause == "") {
				t.Errorf("exit code %d with cause %q", r.code, tt.cause)
			}
			if len(s.requests) != len(tt.script) {
				t.Errorf("%d requests, want %d", len(s.requests), len(tt.script))
			}
		})
	}
}

func TestStructuredOutput(t *testing.T) {
	object := `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`
	tests := []struct {
		name, schema string
		script       []reply
		cause        event.Cause
		want         string
	}{
		{"given", object, []reply{calls(sdk.StructuredTool, `{"n":3}`)}, "", `{"n":3}`},
		{"after a word and a nudge", object, []reply{says("3"), calls(sdk.StructuredTool, `{"n":3}`)}, "", `{"n":3}`},
		{"repaired", object, []reply{calls(sdk.StructuredTool, `{"n":"x"}`), calls(sdk.StructuredTool, `{"n":4}`)}, "", `{"n":4}`},
		{"not repaired", object, []reply{calls(sdk.StructuredTool, `{"n":"x"}`), calls(sdk.StructuredTool, `{}`)}, event.CauseNoResult, ""},
		{"never given", object, []reply{says("3"), says("three")}, event.CauseNoResult, ""},
		{"no object", `{"type":"array","items":{"$ref":"#/$defs/n"},"$defs":{"n":{"type":"integer"}}}`, []reply{calls(sdk.StructuredTool, `{"value":[1,2]}`)}, "", `[1,2]`},
		{"with other calls", object, []reply{calls("list", `{}`, sdk.StructuredTool, `{"n":5}`)}, "", `{"n":5}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tt.script...)
			r := drive(t, s, sdk.Request{OutputSchema: json.RawMessage(tt.schema)})
			if r.result.Cause != tt.cause || string(r.result.Structured) != tt.want {
				t.Errorf("got %+v", r.result)
			}
		})
	}
}

func TestTheNudgeForcesTheTool(t *testing.T) {
	s := serve(t, says("3"), calls(sdk.StructuredTool, `{"n":3}`))
	drive(t, s, sdk.Request{OutputSchema: json.RawMessage(`{"type":"object"}`)})
	if !strings.Contains(s.requests[1], `"tool_choice":{"name":"structured_output","type":"tool"}`) {
		t.Errorf("no tool_choice in %s", s.requests[1])
	}
}

func TestResumeAndFork(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	thinking := says("first answer")
	thinking.blocks = append([]string{`{"type":"thinking","thinking":"hm","signature":"sig"}`}, thinking.blocks...)
	drive(t, serve(t, calls("list", `{}`), thinking), sdk.Request{Home: home, Workdir: dir, Prompt: "first prompt"})

	s := serve(t, says("second answer"))
	r := drive(t, s, sdk.Request{Home: home, Workdir: dir, Resume: sessionA, Prompt: "second prompt"})
	if r.result.SessionID != sessionA || r.result.Cause != "" {
		t.Fatalf("resumed: %+v", r.result)
	}
	for _, want := range []string{"first prompt", "toolu_0", `"signature":"sig"`, "first answer", "second prompt"} {
		if !strings.Contains(s.requests[0], want) {
			t.Errorf("the resumed request lacks %q:\n%s", want, s.requests[0])
		}
	}

	const fork = "99999999-2222-4333-8444-555555555555"
	s = serve(t, says("third answer"))
	r = drive(t, s, sdk.Request{Home: home, Workdir: dir, Resume: sessionA, Fork: true, SessionID: fork, Prompt: "third prompt"})
	if r.result.SessionID != fork || !strings.Contains(s.requests[0], "second answer") {
		t.Errorf("forked: %+v", r.result)
	}
	old, err := os.ReadFile(filepath.Join(home, sdk.SessionDir, sessionA+".jsonl"))
	if err != nil || bytes.Contains(old, []byte("third prompt")) {
		t.Errorf("the fork changed the old session (%v)", err)
	}

	r = drive(t, serve(t), sdk.Request{Home: home, Workdir: dir, Resume: "00000000-2222-4333-8444-555555555555"})
	if r.result.Cause != event.CauseExitCode || !strings.Contains(r.result.Message, "no session") {
		t.Errorf("missing session: %+v", r.result)
	}
}

func TestASessionKilledInAToolCallGoesOn(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	drive(t, serve(t, calls("list", `{}`), says("x")), sdk.Request{Home: home, Workdir: dir})
	path := filepath.Join(home, sdk.SessionDir, sessionA+".jsonl")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	torn := lines[0] + lines[1] + lines[2][:20]
	if err := os.WriteFile(path, []byte(torn), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, says("gone on"))
	r := drive(t, s, sdk.Request{Home: home, Workdir: dir, Resume: sessionA, Prompt: "go on"})
	if r.result.Text != "gone on" || !strings.Contains(s.requests[0], "interrupted") {
		t.Errorf("%+v\n%s", r.result, s.requests[0])
	}
	if data, _ = os.ReadFile(path); strings.Count(string(data), "\n") != 4 {
		t.Errorf("the torn line is still there:\n%s", data)
	}
}

func TestAHomeThatCanNotBeWrittenIsAWarning(t *testing.T) {
	home := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(home, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := drive(t, serve(t, says("ok")), sdk.Request{Home: home})
	if r.result.Text != "ok" || !strings.HasPrefix(r.kinds(), "warning") {
		t.Errorf("%s: %+v", r.kinds(), r.result)
	}
}

func TestCancellingKillsTheToolAndLeavesNoResult(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, calls("bash", `{"command":"echo $$ > started; sleep 600 & wait"}`))
	req, _ := json.Marshal(sdk.Request{Version: sdk.ProtocolVersion, Engine: sdk.Anthropic, Prompt: "x", Workdir: dir, Home: t.TempDir()})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var stdout bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- work(ctx, bytes.NewReader(req), &stdout, []string{"PATH=" + os.Getenv("PATH"), sdk.EnvBaseURL + "=" + s.URL, sdk.EnvAPIKey + "=k"})
	}()
	waitForFile(t, filepath.Join(dir, "started"))
	cancel()
	select {
	case code := <-done:
		if code != exitCancelled {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the loop did not end")
	}
	if r := readRun(t, stdout.String(), 0); strings.Contains(r.kinds(), "result") {
		t.Errorf("records: %s", r.kinds())
	}
}

func TestBadRequests(t *testing.T) {
	for _, stdin := range []string{"", "x", "{}", `{"version":99,"prompt":"x"}`, `{"version":3,"engine":"anthropic","prompt":" "}`, `{"version":2,"engine":"anthropic","prompt":"x","output_schema":{"type":"wibble"}}`} {
		var stdout bytes.Buffer
		if code := work(context.Background(), strings.NewReader(stdin), &stdout, nil); code != exitUsage {
			t.Errorf("%q: exit code %d", stdin, code)
		}
	}
	var stdout bytes.Buffer
	code := work(context.Background(), strings.NewReader(`{"version":3,"engine":"anthropic","prompt":"x"}`), &stdout, nil)
	if r := readRun(t, stdout.String(), code); code != exitFailed || r.result.Cause != event.CauseAuth {
		t.Errorf("no credential: %+v, code %d", r.result, code)
	}
}
