package gemini

import (
	"bytes"
	"encoding/json"
	"flag"
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

// TestTranscripts decodes recorded runs of the real CLI. Each row says how the
// process ended, what the gateway saw and what must come of it; the messages
// are in the golden files.
func TestTranscripts(t *testing.T) {
	ok := runtimes.GatewayView{LastStatus: 200, LastStop: "STOP"}
	none := runtimes.GatewayView{}
	status := func(code int) runtimes.GatewayView { return runtimes.GatewayView{LastStatus: code} }
	tests := []struct {
		file   string
		exit   int
		signal string
		stderr string
		view   runtimes.GatewayView
		cause  event.Cause
	}{
		{file: "ok", view: ok},
		{file: "sid", view: ok},
		{file: "resume", view: ok},
		{file: "noyolo", view: ok},

		// The exit code is the HTTP status modulo 256: the gateway knows better.
		{file: "fail-400", exit: 144, view: status(400), cause: event.CauseExitCode},
		{file: "fail-401", exit: 145, view: status(401), cause: event.CauseAuth},
		{file: "fail-403", exit: 147, view: status(403), cause: event.CauseAuth},
		{file: "fail-404", exit: 148, view: status(404), cause: event.CauseExitCode},
		{file: "retries-429", exit: 173, view: status(429), cause: event.CauseRateLimited},
		// The same without a gateway.
		{file: "fail-401", exit: 145, view: none, cause: event.CauseAuth},
		{file: "fail-404", exit: 148, view: none, cause: event.CauseExitCode},
		{file: "retries-429", exit: 173, view: none, cause: event.CauseRateLimited},
		{file: "fail-reset", exit: 1, view: none, cause: event.CauseInfrastructure},

		// An empty stream is status "error" with exit code 0.
		{file: "fail-empty", view: status(200), cause: event.CauseInfrastructure},
		{file: "fail-malformed", exit: 1, view: status(200), cause: event.CauseInfrastructure},
		{file: "fail-truncated", exit: 1, view: status(200), cause: event.CauseInfrastructure},
		// Its own watch over loops ends it with exit code 0 and "success".
		{file: "loop", view: ok, cause: event.CauseNoResult},
		{file: "maxturns", exit: 53, view: ok, cause: event.CauseMaxTurns},

		// Stopped from outside while it tried again and again, or hung.
		{file: "fail-429", exit: 143, signal: "TERM", view: status(429), cause: event.CauseExitCode},
		{file: "fail-500", exit: 137, signal: "KILL", view: status(500), cause: event.CauseExitCode},
		{file: "fail-503", exit: 137, signal: "KILL", view: status(503), cause: event.CauseExitCode},
		{file: "fail-hang", exit: 137, signal: "KILL", view: none, cause: event.CauseExitCode},
		// TERM while a tool runs: exit code 0 and no last word, or ignored.
		{file: "term-in-tool", view: ok, cause: event.CauseNoResult},
		{file: "term-ignored", view: ok},
		{file: "term-ignored-2", view: ok},

		// What it finds before it asks the model goes to stderr alone.
		{file: "nokey", exit: 41, stderr: "When using Gemini API, you must specify the GEMINI_API_KEY environment variable.\n", view: none, cause: event.CauseAuth},
		{file: "resume-missing", exit: 42, stderr: "Error resuming session: no such session\n", view: none, cause: event.CauseExitCode},
	}
	for _, tt := range tests {
		name := tt.file
		if tt.view == none && strings.HasPrefix(tt.file, "fail-4") || tt.view == none && tt.file == "retries-429" {
			name += "-no-gateway"
		}
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", tt.file+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			task := runtimetest.Task()
			if tt.view == none {
				task.Box.Gateway = ""
			}
			messages, result := decode(task, data, runtimes.End{
				Exit: sandbox.Exit{Code: tt.exit, Signal: tt.signal}, Stderr: []byte(tt.stderr), Gateway: tt.view,
			})
			var got strings.Builder
			for _, m := range messages {
				writeJSON(t, &got, m)
			}
			writeJSON(t, &got, result)
			if result.Cause != tt.cause {
				t.Errorf("cause %q, want %q (%s)", result.Cause, tt.cause, result.Message)
			}
			if tt.cause != "" && (result.Message == "" || result.Hint == "") {
				t.Errorf("a failure needs words and a hint: %+v", result)
			}
			compareGolden(t, name, got.String())
		})
	}
}

func decode(task runtimes.Task, data []byte, end runtimes.End) ([]event.Message, runtimes.Result) {
	d := New().Decode(task)
	var messages []event.Message
	for line := range bytes.Lines(data) {
		messages = append(messages, d.Line(bytes.TrimSuffix(line, []byte("\n")))...)
	}
	return messages, d.Finish(end)
}

func writeJSON(t *testing.T, w *strings.Builder, v any) {
	t.Helper()
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	golden := filepath.Join("testdata", name+".golden")
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

func line(t *testing.T, fields map[string]any) string {
	t.Helper()
	b, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func piece(t *testing.T, text string) string {
	t.Helper()
	return line(t, map[string]any{"type": "message", "role": "assistant", "content": text, "delta": true})
}

const okResult = `{"type":"result","status":"success","stats":{"total_tokens":1}}`

// The model's answer comes in pieces that end anywhere: shown are its lines, and
// the result is the text behind the last tool call.
func TestPiecesOfAnAnswer(t *testing.T) {
	use := `{"type":"tool_use","tool_name":"read_file","tool_id":"1","parameters":{"path":"a"}}` + "\n"
	result := `{"type":"tool_result","tool_id":"1","status":"success","output":"x"}` + "\n"
	output := `{"type":"init","session_id":"s","model":"m"}` + "\n" + piece(t, "I look ") + piece(t, "first.\n\nThen") + use + result +
		piece(t, "one\ntw") + piece(t, "o\nthree") + okResult
	messages, got := decode(runtimetest.Task(), []byte(output), runtimes.End{Gateway: runtimes.GatewayView{LastStatus: 200}})
	var texts []string
	for _, m := range messages {
		if m.Kind == event.MessageText {
			texts = append(texts, m.Text)
		}
	}
	if diff := cmp.Diff([]string{"I look first.", "Then", "one", "two", "three"}, texts); diff != "" {
		t.Error(diff)
	}
	if got.Text != "one\ntwo\nthree" || got.Turns != 2 || got.Cause != "" {
		t.Errorf("%+v", got)
	}
}

// THREATS 18: an answer without an end is bounded.
func TestAnAnswerIsBounded(t *testing.T) {
	d := New().Decode(runtimetest.Task()).(*decoder)
	long := []byte(piece(t, strings.Repeat("x", 1<<20)))
	for range 40 {
		d.Line(long)
	}
	if got := d.answer.Len(); got > runtimes.MaxLine+1<<20 {
		t.Errorf("%d bytes are kept", got)
	}
	if len(d.pending) > maxPending {
		t.Errorf("%d bytes wait for the end of their line", len(d.pending))
	}
}

// THREATS 3, 20.
// What it refuses before it asks the model has an exit code of its own each.
func TestExitCodesOfItsOwn(t *testing.T) {
	for code, want := range map[int]struct {
		cause event.Cause
		hint  string
	}{
		41: {event.CauseAuth, "doctor"},
		42: {event.CauseExitCode, "command of its own"},
		52: {event.CauseExitCode, "mcp-servers"},
		55: {event.CauseExitCode, "trusted"},
		1:  {event.CauseExitCode, "logs"},
	} {
		_, r := decode(runtimetest.Task(), nil, runtimes.End{Exit: sandbox.Exit{Code: code}, Stderr: []byte("it says why\n")})
		if r.Cause != want.cause || !strings.Contains(r.Hint, want.hint) || !strings.Contains(r.Message, "it says why") {
			t.Errorf("exit code %d: %+v", code, r)
		}
	}
}

// THREATS 3, 20.
func TestRuntime(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "ok.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	runtimetest.Run(t, New(), runtimetest.Fixtures{Success: data, Idle: []byte(`{"type":"init","session_id":"s","model":"m"}` + "\n" + okResult), Result: okResult, Permission: "plan"})
}

func BenchmarkDecode(b *testing.B) {
	output := strings.Repeat("func main() {\n\tfmt.Println(\"hello, world\")\n}\n", 200)
	tool, err := json.Marshal(map[string]any{"type": "tool_result", "timestamp": "2026-11-21T01:09:26.602Z", "tool_id": "run_shell_command_1", "status": "success", "output": output})
	if err != nil {
		b.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"type": "message", "timestamp": "2026-11-21T01:09:26.602Z", "role": "assistant", "content": output[:600], "delta": true})
	if err != nil {
		b.Fatal(err)
	}
	recorded, err := os.ReadFile(filepath.Join("testdata", "ok.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	for name, data := range map[string][]byte{"tool-results": append(tool, '\n'), "text": append(text, '\n'), "recorded": recorded} {
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
