package codex

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/runtimetest"
	"github.com/herd-runner/herd-runner/sandbox"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	nameSchema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
	okTurn     = `{"type":"turn.completed","usage":{"input_tokens":1}}`
)

// TestTranscripts decodes recorded runs of the real CLI. Each row says how the
// process ended, what the gateway saw and what must come of it; the messages
// are in the golden files.
func TestTranscripts(t *testing.T) {
	ok, none := runtimetest.Good(), runtimes.GatewayView{}
	status := func(code int) runtimes.GatewayView { return runtimes.GatewayView{LastStatus: code} }
	tests := []struct {
		file   string
		end    sandbox.Exit
		stderr string
		view   runtimes.GatewayView
		schema string
		cause  event.Cause
	}{
		{file: "ok", view: ok},
		{file: "resume", view: ok},
		{file: "fork", view: ok},
		{file: "patch", view: ok},
		{file: "mcp", view: ok},
		{file: "agent", view: ok},
		{file: "badcmd", view: ok},
		{file: "schema", view: ok, schema: nameSchema},

		{file: "fail-400", end: sandbox.Exit{Code: 1}, view: status(400), cause: event.CauseExitCode},
		{file: "fail-401", end: sandbox.Exit{Code: 1}, view: status(401), cause: event.CauseAuth},
		{file: "fail-403", end: sandbox.Exit{Code: 1}, view: status(403), cause: event.CauseAuth},
		{file: "fail-404", end: sandbox.Exit{Code: 1}, view: status(404), cause: event.CauseExitCode},
		{file: "fail-429", end: sandbox.Exit{Code: 1}, view: status(429), cause: event.CauseRateLimited},
		{file: "fail-500", end: sandbox.Exit{Code: 1}, view: status(500), cause: event.CauseInfrastructure},
		{file: "fail-503", end: sandbox.Exit{Code: 1}, view: status(503), cause: event.CauseInfrastructure},
		{file: "fail-529", end: sandbox.Exit{Code: 1}, view: status(529), cause: event.CauseRateLimited},
		{file: "fail-empty", end: sandbox.Exit{Code: 1}, view: status(200), cause: event.CauseInfrastructure},
		{file: "fail-malformed", end: sandbox.Exit{Code: 1}, view: status(200), cause: event.CauseInfrastructure},
		{file: "fail-sseerror", end: sandbox.Exit{Code: 1}, view: status(200), cause: event.CauseInfrastructure},
		{file: "fail-truncated", end: sandbox.Exit{Code: 1}, view: status(200), cause: event.CauseInfrastructure},
		{file: "fail-reset", end: sandbox.Exit{Code: 1}, view: none, cause: event.CauseInfrastructure},
		{file: "nokey", end: sandbox.Exit{Code: 1}, view: none, cause: event.CauseAuth},
		{file: "resume-missing", end: sandbox.Exit{Code: 1}, view: none, cause: event.CauseExitCode,
			stderr: "Error: thread/resume: thread/resume failed: no rollout found for thread id 01a20118-6483-77f1-b4d9-000000000000 (code -32600)\n"},

		// It waits for ever, and so is ended from outside.
		{file: "refused", end: sandbox.Exit{Code: 143, Signal: "TERM", Stopped: true}, view: none, cause: event.CauseNoResult},
		{file: "fail-hang", end: sandbox.Exit{Code: 143, Signal: "TERM", Stopped: true}, view: none, cause: event.CauseNoResult},
		{file: "sig-TERM", end: sandbox.Exit{Code: 143, Signal: "TERM"}, view: ok, cause: event.CauseExitCode},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			task := runtimetest.Task()
			if tt.schema != "" {
				task.Config.OutputSchema = json.RawMessage(tt.schema)
			}
			data, err := os.ReadFile(filepath.Join("testdata", tt.file+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			enc := json.NewEncoder(&got)
			enc.SetEscapeHTML(false)
			d := New().Decode(task)
			for line := range bytes.Lines(data) {
				for _, m := range d.Line(bytes.TrimSuffix(line, []byte("\n"))) {
					if err := enc.Encode(m); err != nil {
						t.Fatal(err)
					}
				}
			}
			result := d.Finish(runtimes.End{Exit: tt.end, Stderr: []byte(tt.stderr), Gateway: tt.view})
			if err := enc.Encode(result); err != nil {
				t.Fatal(err)
			}
			if result.Cause != tt.cause {
				t.Errorf("cause %q, want %q (%s)", result.Cause, tt.cause, result.Message)
			}
			if tt.cause != "" && (result.Message == "" || result.Hint == "") {
				t.Errorf("a failure needs words and a hint: %+v", result)
			}
			wantGolden(t, filepath.Join("testdata", tt.file+".golden"), got.String())
		})
	}
}

func wantGolden(t *testing.T, golden, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got (rewrite with -update):\n%s", diff)
	}
}

// TestRecords are kinds of records and turns that the transcripts do not have.
func TestRecords(t *testing.T) {
	item := func(stage, fields string) string {
		return `{"type":"item.` + stage + `","item":{"id":"item_1",` + fields + `}}`
	}
	call := func(tool, input string) event.Message {
		return event.Message{Kind: event.MessageToolCall, Tool: tool, CallID: "item_1", Input: json.RawMessage(input)}
	}
	result := func(text string, bad bool) event.Message {
		return event.Message{Kind: event.MessageToolResult, CallID: "item_1", Text: text, IsError: bad}
	}
	tests := []struct {
		name  string
		lines []string
		want  []event.Message
	}{
		{"reasoning", []string{item("completed", `"type":"reasoning","text":"hm"`)}, []event.Message{{Kind: event.MessageThinking, Text: "hm"}}},
		{"a search has no beginning", []string{item("completed", `"type":"web_search","query":"go"`)}, []event.Message{call("web_search", `{"query":"go"}`), result("", false)}},
		{"a plan", []string{
			item("started", `"type":"todo_list","items":[{"text":"a","completed":false}]`),
			item("updated", `"type":"todo_list","items":[{"text":"a","completed":true}]`),
			item("completed", `"type":"todo_list","items":[{"text":"a","completed":true}]`),
		}, []event.Message{call("todo_list", `{"items":[{"text":"a","completed":false}]}`), result("", false)}},
		{"a dead MCP server", []string{item("completed", `"type":"mcp_tool_call","server":"s","tool":"t","arguments":{"a":1},"result":null,"error":{"message":"gone"},"status":"failed"`)},
			[]event.Message{call("mcp__s__t", `{"a":1}`), result("gone", true)}},
		{"MCP image", []string{item("completed", `"type":"mcp_tool_call","server":"s","tool":"t","arguments":null,"result":{"content":[{"type":"image","data":"x"}]},"status":"completed"`)},
			[]event.Message{call("mcp__s__t", `null`), result("[image]", false)}},
		{"declined", []string{item("completed", `"type":"command_execution","command":"x","aggregated_output":"","exit_code":null,"status":"declined"`)},
			[]event.Message{call("shell", `{"command":"x"}`), result("declined", true)}},
		{"a new kind", []string{item("completed", `"type":"telepathy","to":"you"`)},
			[]event.Message{call("telepathy", `{"id":"item_1","type":"telepathy","to":"you"}`), result("", false)}},
		{"a thread that is no UUID", []string{`{"type":"thread.started","thread_id":"--last"}`}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := New().Decode(runtimetest.Task())
			var got []event.Message
			for _, line := range tt.lines {
				got = append(got, d.Line([]byte(line))...)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTheLastTurnCounts: a record of an earlier turn does not speak for the last.
func TestTheLastTurnCounts(t *testing.T) {
	said := `{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"done"}}`
	failed := `{"type":"turn.failed","error":{"message":"no"}}`
	for _, tt := range []struct {
		lines []string
		cause event.Cause
	}{
		{[]string{said, failed, `{"type":"turn.started"}`, okTurn}, ""},
		{[]string{said, okTurn, `{"type":"turn.started"}`, failed}, event.CauseExitCode},
		{[]string{said, okTurn, `{"type":"turn.started"}`}, event.CauseNoResult},
	} {
		d := New().Decode(runtimetest.Task())
		for _, line := range tt.lines {
			d.Line([]byte(line))
		}
		if r := d.Finish(runtimes.End{Gateway: runtimetest.Good()}); r.Cause != tt.cause {
			t.Errorf("%s: %+v", tt.lines, r)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	output, err := json.Marshal(strings.Repeat("func main() {\n\tfmt.Println(\"hello, world\")\n}\n", 200))
	if err != nil {
		b.Fatal(err)
	}
	recorded, err := os.ReadFile(filepath.Join("testdata", "ok.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	command := fmt.Sprintf(`{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"cat main.go","aggregated_output":%s,"exit_code":0,"status":"completed"}}`+"\n", output)
	for name, data := range map[string][]byte{"tool-results": []byte(command), "recorded": recorded} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			d := New().Decode(runtimetest.Task())
			for b.Loop() {
				for line := range bytes.Lines(data) {
					d.Line(line)
				}
			}
		})
	}
}
