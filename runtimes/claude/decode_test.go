package claude

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const nameSchema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`

// boxed is a task in a box with a gateway.
func boxed() runtimes.Task {
	return runtimes.Task{
		Prompt:     "do it",
		SessionID:  "3f2b6c1e-8a4d-4f7b-9c2e-5d1a0b7e6f43",
		Credential: runtimes.Credential{Kind: "api-key", Token: "placeholder-token"},
		Box: sandbox.Info{Backend: "docker", Workdir: "/workspace", Home: "/herd/home", Temp: "/herd/tmp",
			Runner: "/herd/bin/herd-runner", Gateway: "127.0.0.1:4100"},
	}
}

func exited(code int, signal string) runtimes.End {
	return runtimes.End{Exit: sandbox.Exit{Code: code, Signal: signal}}
}

// TestTranscripts decodes recorded runs of the real CLI. Each row says how the
// process ended, what the gateway saw and what must come of it; the messages
// are in the golden files.
// THREATS 18.
func TestTranscripts(t *testing.T) {
	ok := runtimes.GatewayView{LastStatus: 200, LastStop: "end_turn"}
	none := runtimes.GatewayView{}
	status := func(code int) runtimes.GatewayView { return runtimes.GatewayView{LastStatus: code} }
	refusal := func(reason string) runtimes.GatewayView {
		return runtimes.GatewayView{LastStatus: 403, LastReason: reason, Error: "the gateway says why"}
	}
	tests := []struct {
		file   string
		exit   int
		signal string
		view   runtimes.GatewayView
		schema string
		cause  event.Cause
	}{
		{file: "ok-bash", view: ok},
		{file: "v197", view: ok},
		{file: "resume-1", view: ok},
		{file: "fork-2", view: ok},
		{file: "subagent", view: ok},
		{file: "subagent-sync", view: ok},
		{file: "thinking", view: ok},
		{file: "fallback", view: ok},
		{file: "partial", view: ok},
		{file: "bgtask", view: ok},
		{file: "bgtask-disabled", view: ok},
		{file: "mcp-ok", view: ok},
		{file: "mcp-fail", view: ok},
		{file: "perm-default-deny", view: ok},
		{file: "perm-dontask", view: ok},
		{file: "perm-plan", view: ok},
		{file: "settings", view: ok},
		{file: "ratelimit-oauth", view: ok},
		{file: "recover-529x2", view: ok},
		{file: "structured-ok", view: ok, schema: `{"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer"}},"required":["name","n"],"additionalProperties":false}`},
		{file: "v197-structured", view: ok, schema: nameSchema},

		{file: "idle", view: ok, cause: event.CauseNoResult},
		{file: "structured-noso", view: ok, schema: nameSchema, cause: event.CauseNoResult},
		{file: "structured-bad", exit: 1, view: ok, schema: nameSchema, cause: event.CauseNoResult},
		{file: "max-turns", exit: 1, view: ok, cause: event.CauseMaxTurns},
		{file: "max-turns-1", exit: 1, view: ok, cause: event.CauseMaxTurns},
		{file: "max-budget", exit: 1, view: ok, cause: event.CauseBudget},

		{file: "fail-400", exit: 1, view: status(400), cause: event.CauseExitCode},
		{file: "fail-401", exit: 1, view: status(401), cause: event.CauseAuth},
		{file: "fail-402", exit: 1, view: status(402), cause: event.CauseBudget},
		{file: "fail-403", exit: 1, view: status(403), cause: event.CauseAuth},
		{file: "fail-404", exit: 1, view: status(404), cause: event.CauseExitCode},
		{file: "fail-413", exit: 1, view: status(413), cause: event.CauseExitCode},
		{file: "fail-429", exit: 1, view: runtimes.GatewayView{LastStatus: 429, RetryAt: time.Unix(2e9, 0).UTC()}, cause: event.CauseRateLimited},
		{file: "fail-500", exit: 1, view: status(500), cause: event.CauseInfrastructure},
		{file: "fail-503", exit: 1, view: status(503), cause: event.CauseInfrastructure},
		{file: "fail-529", exit: 1, view: status(529), cause: event.CauseRateLimited},
		{file: "fail-credit", exit: 1, view: runtimes.GatewayView{LastStatus: 400, Error: "Your credit balance is too low to access the Anthropic API."}, cause: event.CauseBudget},
		{file: "fail-spend", exit: 1, view: none, cause: event.CauseBudget},
		{file: "fail-dns", exit: 1, view: none, cause: event.CauseInfrastructure},
		{file: "fail-refused", exit: 1, view: none, cause: event.CauseInfrastructure},
		{file: "fail-reset", exit: 1, view: none, cause: event.CauseInfrastructure},
		{file: "fail-truncated", exit: 1, view: status(200), cause: event.CauseInfrastructure},
		{file: "fail-empty", exit: 1, view: status(200), cause: event.CauseInfrastructure},
		{file: "fail-garbagejson", exit: 1, view: status(200), cause: event.CauseInfrastructure},
		{file: "fail-malformed", exit: 1, view: status(200), cause: event.CauseInfrastructure},
		{file: "fail-sseerror", exit: 1, view: status(200), cause: event.CauseInfrastructure},
		{file: "fail-html", exit: 1, view: status(502), cause: event.CauseInfrastructure},
		{file: "fail-toolong", exit: 1, view: status(400), cause: event.CauseExitCode},
		{file: "retry2-529", exit: 1, view: status(529), cause: event.CauseRateLimited},
		{file: "retryafter-long-429", exit: 1, view: status(429), cause: event.CauseRateLimited},
		{file: "ratelimit-oauth-429", exit: 1, view: status(429), cause: event.CauseRateLimited},
		{file: "v197-429", exit: 1, view: none, cause: event.CauseRateLimited},
		{file: "hang-to4s", exit: 1, view: none, cause: event.CauseInfrastructure},
		{file: "hangstream-to4s", exit: 1, view: status(200), cause: event.CauseInfrastructure},
		{file: "nokey", exit: 1, view: none, cause: event.CauseAuth},
		{file: "resume-missing", exit: 1, view: none, cause: event.CauseExitCode},
		{file: "badflag", exit: 1, view: none, cause: event.CauseExitCode},
		{file: "emptyprompt", exit: 1, view: none, cause: event.CauseExitCode},

		{file: "sigTERM-intool", exit: 143, signal: "TERM", view: ok, cause: event.CauseExitCode},
		{file: "sigKILL-intool", exit: 137, signal: "KILL", view: ok, cause: event.CauseExitCode},
		{file: "sigHUP-intool", exit: 129, signal: "HUP", view: ok, cause: event.CauseExitCode},
		{file: "sigINT-intool", view: ok, cause: event.CauseExitCode},
		{file: "sigint-inapi", view: none, cause: event.CauseNoResult},
		{file: "sigterm-inapi", exit: 143, view: none, cause: event.CauseExitCode},

		{file: "fail-403", exit: 1, view: refusal("budget_exhausted"), cause: event.CauseBudget},
		{file: "fail-403", exit: 1, view: refusal("model"), cause: event.CausePolicyDenied},
		{file: "fail-403", exit: 1, view: refusal("auth"), cause: event.CauseAuth},
		{file: "fail-403", exit: 1, view: refusal("replay_miss"), cause: event.CauseInfrastructure},
	}
	for _, tt := range tests {
		name := tt.file
		if tt.view.LastReason != "" {
			name += "-" + tt.view.LastReason
		}
		t.Run(name, func(t *testing.T) {
			task := boxed()
			if tt.schema != "" {
				task.Config.OutputSchema = json.RawMessage(tt.schema)
			}
			data, err := os.ReadFile(filepath.Join("testdata", tt.file+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			d := New().Decode(task)
			for line := range bytes.Lines(data) {
				for _, m := range d.Line(bytes.TrimSuffix(line, []byte("\n"))) {
					writeJSON(t, &got, m)
				}
			}
			end := exited(tt.exit, tt.signal)
			end.Gateway = tt.view
			result := d.Finish(end)
			writeJSON(t, &got, result)
			if result.Cause != tt.cause {
				t.Errorf("cause %q, want %q (%s)", result.Cause, tt.cause, result.Message)
			}
			if tt.cause != "" && (result.Message == "" || result.Hint == "") {
				t.Errorf("a failure needs words and a hint: %+v", result)
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("-want +got (rewrite with -update):\n%s", diff)
			}
		})
	}
}

func writeJSON(t *testing.T, w *strings.Builder, v any) {
	t.Helper()
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
}

const (
	okResult  = `{"type":"result","subtype":"success","is_error":false,"result":"done","num_turns":1,"session_id":"s","stop_reason":"end_turn"}`
	badResult = `{"type":"result","subtype":"success","is_error":true,"result":"API Error","num_turns":1,"session_id":"s"}`
)

// TestSuccessNeedsEveryWitness takes away one witness at a time.
// THREATS 19.
func TestSuccessNeedsEveryWitness(t *testing.T) {
	good := runtimes.GatewayView{LastStatus: 200, LastStop: "end_turn"}
	structured := `{"type":"result","subtype":"success","is_error":false,"result":"{}","structured_output":%s}`
	tests := []struct {
		name   string
		lines  []string
		end    runtimes.End
		schema string
		cause  event.Cause
	}{
		{"all agree", []string{okResult}, runtimes.End{Gateway: good}, "", ""},
		{"no output at all", nil, runtimes.End{Gateway: good}, "", event.CauseNoResult},
		{"the last result counts", []string{badResult, okResult}, runtimes.End{Gateway: good}, "", ""},
		{"and it counts when it is bad", []string{okResult, badResult}, runtimes.End{Gateway: good}, "", event.CauseExitCode},
		{"exit code", []string{okResult}, runtimes.End{Gateway: good, Exit: sandbox.Exit{Code: 1}}, "", event.CauseExitCode},
		{"signal", []string{okResult}, runtimes.End{Gateway: good, Exit: sandbox.Exit{Code: 137, Signal: "KILL"}}, "", event.CauseExitCode},
		{"oom", []string{okResult}, runtimes.End{Gateway: good, Exit: sandbox.Exit{Code: 137, Signal: "KILL", OOMKilled: true}}, "", event.CauseOOM},
		{"a tool's oom alone", []string{okResult}, runtimes.End{Gateway: good, Exit: sandbox.Exit{ToolOOM: true}}, "", ""},
		{"stopped after its result", []string{okResult}, runtimes.End{Gateway: good, Exit: sandbox.Exit{Code: 143, Signal: "TERM", Stopped: true}}, "", ""},
		{"stopped before its result", nil, runtimes.End{Gateway: good, Exit: sandbox.Exit{Code: 143, Signal: "TERM", Stopped: true}}, "", event.CauseNoResult},
		{"gateway saw 401", []string{okResult}, runtimes.End{Gateway: runtimes.GatewayView{LastStatus: 401}}, "", event.CauseAuth},
		{"gateway saw 429", []string{okResult}, runtimes.End{Gateway: runtimes.GatewayView{LastStatus: 429}}, "", event.CauseRateLimited},
		{"gateway refused the budget", []string{okResult}, runtimes.End{Gateway: runtimes.GatewayView{LastStatus: 403, LastReason: "budget_exhausted"}}, "", event.CauseBudget},
		{"gateway saw a refusal", []string{okResult}, runtimes.End{Gateway: runtimes.GatewayView{LastStatus: 200, LastStop: "refusal"}}, "", event.CauseRefused},
		{"gateway saw nothing", []string{okResult}, runtimes.End{}, "", event.CauseNoResult},
		{"unknown subtype", []string{`{"type":"result","subtype":"new_kind","is_error":false,"result":"x"}`}, runtimes.End{Gateway: good}, "", event.CauseExitCode},
		{"cut at the output limit", []string{`{"type":"result","subtype":"success","is_error":false,"result":"x","stop_reason":"max_tokens"}`}, runtimes.End{Gateway: good}, "", event.CauseNoResult},
		{"structured", []string{fmt.Sprintf(structured, `{"name":"x"}`)}, runtimes.End{Gateway: good}, nameSchema, ""},
		{"structured missing", []string{okResult}, runtimes.End{Gateway: good}, nameSchema, event.CauseNoResult},
		{"structured null", []string{fmt.Sprintf(structured, `null`)}, runtimes.End{Gateway: good}, nameSchema, event.CauseNoResult},
		{"structured wrong", []string{fmt.Sprintf(structured, `{"name":7}`)}, runtimes.End{Gateway: good}, nameSchema, event.CauseNoResult},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			task := boxed()
			if tt.schema != "" {
				task.Config.OutputSchema = json.RawMessage(tt.schema)
			}
			d := New().Decode(task)
			for _, line := range tt.lines {
				d.Line([]byte(line))
			}
			got := d.Finish(tt.end)
			if got.Cause != tt.cause {
				t.Errorf("cause %q, want %q: %s", got.Cause, tt.cause, got.Message)
			}
			if (got.Structured != nil) != (tt.schema != "" && tt.cause == "") {
				t.Errorf("structured: %s", got.Structured)
			}
		})
	}
}

// THREATS 18.
func TestAResultInsideAToolsOutputIsNoResult(t *testing.T) {
	d := New().Decode(boxed())
	record, err := json.Marshal(map[string]any{"type": "user", "message": map[string]any{"content": []any{
		map[string]any{"type": "tool_result", "tool_use_id": "t", "content": okResult},
	}}, "tool_use_result": json.RawMessage(okResult)})
	if err != nil {
		t.Fatal(err)
	}
	got := d.Line(record)
	want := []event.Message{{Kind: event.MessageToolResult, CallID: "t", Text: okResult}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	end := exited(0, "")
	end.Gateway = runtimes.GatewayView{LastStatus: 200}
	if r := d.Finish(end); r.Cause != event.CauseNoResult {
		t.Errorf("%+v", r)
	}
}

func TestDeniedPermissionsAreSaidOnce(t *testing.T) {
	result := `{"type":"result","subtype":"success","is_error":false,"result":"x","permission_denials":[{"tool_name":"Write"},{"tool_name":"Bash"},{"tool_name":"Bash"}]}`
	denied := `{"type":"system","subtype":"permission_denied","tool_name":"Bash","message":"no"}`
	for lines, want := range map[string]int{result: 1, denied + "\n" + result: 1, okResult: 0} {
		d, got := New().Decode(boxed()), 0
		for line := range strings.Lines(lines) {
			for _, m := range d.Line([]byte(line)) {
				if m.Kind == event.MessageWarning {
					got++
				}
			}
		}
		if got != want {
			t.Errorf("%d warnings, want %d: %s", got, want, lines)
		}
	}
}

// THREATS 18.
func TestARecordThatWasCutIsSaid(t *testing.T) {
	d := New().Decode(boxed())
	line := append([]byte(`{"type":"result","result":"`), bytes.Repeat([]byte("x"), runtimes.MaxLine)...)[:runtimes.MaxLine]
	if got := d.Line(line); len(got) != 1 || got[0].Kind != event.MessageWarning {
		t.Errorf("%.200v", got)
	}
	end := exited(0, "")
	end.Gateway = runtimes.GatewayView{LastStatus: 200}
	if r := d.Finish(end); r.Cause != event.CauseNoResult || !strings.Contains(r.Message, "longer than") {
		t.Errorf("%+v", r)
	}
}

func BenchmarkDecode(b *testing.B) {
	output := strings.Repeat("func main() {\n\tfmt.Println(\"hello, world\")\n}\n", 200)
	user, err := json.Marshal(map[string]any{
		"type": "user",
		"message": map[string]any{"role": "user", "content": []any{
			map[string]any{"tool_use_id": "toolu_1", "type": "tool_result", "content": output, "is_error": false},
		}},
		"session_id": "s", "tool_use_result": map[string]any{"stdout": output, "stderr": ""},
	})
	if err != nil {
		b.Fatal(err)
	}
	recorded, err := os.ReadFile(filepath.Join("testdata", "ok-bash.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	for name, data := range map[string][]byte{"tool-results": append(user, '\n'), "recorded": recorded} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			d := New().Decode(boxed())
			for b.Loop() {
				for line := range bytes.Lines(data) {
					d.Line(line)
				}
			}
		})
	}
}
