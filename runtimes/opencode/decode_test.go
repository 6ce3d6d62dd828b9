package opencode

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

const session = "ses_e0456e118ffeJBLAyiERUv1vJD"

// TestTranscripts decodes recorded runs of the real CLI. Each row says how the
// process ended, what the gateway saw and what must come of it; the messages
// are in the golden files.
func TestTranscripts(t *testing.T) {
	ok, none := runtimetest.Good(), runtimes.GatewayView{}
	status := func(code int) runtimes.GatewayView { return runtimes.GatewayView{LastStatus: code} }
	stopped := sandbox.Exit{Code: 143, Signal: "TERM", Stopped: true}
	tests := []struct {
		file   string
		end    sandbox.Exit
		stderr string
		view   runtimes.GatewayView
		cause  event.Cause
	}{
		{file: "ok", view: ok},
		{file: "resume", view: ok},
		{file: "fork", view: ok},
		{file: "deny", view: ok},
		// What would have to be asked is refused, and that is the end, with
		// exit code 0.
		{file: "ask", view: ok, cause: event.CauseNoResult},

		{file: "fail-400", end: sandbox.Exit{Code: 1}, view: status(400), cause: event.CauseExitCode},
		{file: "fail-401", end: sandbox.Exit{Code: 1}, view: status(401), cause: event.CauseAuth},
		{file: "fail-malformed", end: sandbox.Exit{Code: 1}, view: status(200), cause: event.CauseInfrastructure},
		{file: "badmodel", end: sandbox.Exit{Code: 1}, view: none, cause: event.CauseExitCode},
		{file: "resume-missing", end: sandbox.Exit{Code: 1}, view: none, stderr: "\x1b[91m\x1b[1mError: \x1b[0mSession not found\n", cause: event.CauseExitCode},

		// It tries again in silence for as long as it is let.
		{file: "fail-429", end: stopped, view: status(429), cause: event.CauseRateLimited},
		// It asks for ever.
		{file: "fail-empty", end: stopped, view: ok, cause: event.CauseNoResult},
		{file: "sig-TERM", end: sandbox.Exit{Code: 143, Signal: "TERM"}, view: ok, cause: event.CauseExitCode},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			task := runtimetest.Task()
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

// TestRecords are kinds of records and ends that the transcripts do not have.
func TestRecords(t *testing.T) {
	line := func(typ, part string) string {
		return `{"type":"` + typ + `","sessionID":"` + session + `","part":{"messageID":"m",` + part + `}}`
	}
	start, stop := line("step_start", `"type":"step-start"`), line("step_finish", `"reason":"stop"`)
	text := line("text", `"text":"done"`)
	failure := func(name, data string) string {
		return `{"type":"error","sessionID":"` + session + `","error":{"name":"` + name + `","data":{` + data + `}}}`
	}
	tests := []struct {
		name  string
		lines []string
		view  runtimes.GatewayView
		cause event.Cause
		text  string
	}{
		{"two texts of one message", []string{start, text, line("text", `"text":"and dusted"`), stop}, runtimetest.Good(), "", "done\nand dusted"},
		{"an answer of nothing", []string{start, stop}, runtimetest.Good(), event.CauseNoResult, ""},
		{"a step under way", []string{start, text, stop, start}, runtimetest.Good(), event.CauseNoResult, "done"},
		{"cut", []string{start, text, line("step_finish", `"reason":"length"`)}, runtimetest.Good(), event.CauseNoResult, "done"},
		{"filtered", []string{start, text, line("step_finish", `"reason":"content-filter"`)}, runtimetest.Good(), event.CauseRefused, "done"},
		{"after an error it went on", []string{start, failure("X", ``), start, text, stop}, runtimetest.Good(), "", "done"},
		{"the last word is an error", []string{start, text, stop, failure("X", ``)}, runtimetest.Good(), event.CauseExitCode, "done"},
		{"no gateway in the way", []string{failure("APIError", `"message":"no","statusCode":429`)}, runtimes.GatewayView{}, event.CauseRateLimited, ""},
		{"no key", []string{failure("ProviderAuthError", `"message":"no"`)}, runtimes.GatewayView{}, event.CauseAuth, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := New().Decode(runtimetest.Task())
			for _, l := range tt.lines {
				d.Line([]byte(l))
			}
			if r := d.Finish(runtimes.End{Gateway: tt.view}); r.Cause != tt.cause || r.Text != tt.text || r.SessionID != session {
				t.Errorf("%+v", r)
			}
		})
	}
	d := New().Decode(runtimetest.Task())
	want := []event.Message{{Kind: event.MessageInit, SessionID: session, Model: DefaultModel}, {Kind: event.MessageThinking, Text: "hm"}}
	if diff := cmp.Diff(want, d.Line([]byte(line("reasoning", `"text":"hm"`)))); diff != "" {
		t.Error(diff)
	}
	if got := New().Decode(runtimetest.Task()).Line([]byte(`{"type":"text","sessionID":"--continue","part":{"text":"x"}}`)); len(got) != 1 || got[0].Kind != event.MessageText {
		t.Errorf("a session id that is none is taken: %+v", got)
	}
}

// THREATS 18: an answer in ever more pieces of one message takes neither memory
// without end nor time that grows with what came before.
func TestAnAnswerWithoutEndIsBounded(t *testing.T) {
	d := New().Decode(runtimetest.Task())
	piece := fmt.Sprintf(`{"type":"text","sessionID":"%s","part":{"type":"text","messageID":"m","text":"%s"}}`, session, strings.Repeat("x", 100_000))
	for range 400 {
		if got := d.Line([]byte(piece)); len(got) == 0 || got[len(got)-1].Kind != event.MessageText {
			t.Fatalf("%.200v", got)
		}
	}
	if r := d.Finish(runtimes.End{Gateway: runtimetest.Good()}); len(r.Text) > runtimes.MaxLine+1 || len(r.Text) < 1<<20 {
		t.Errorf("the answer has %d bytes", len(r.Text))
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
	tool := fmt.Sprintf(`{"type":"tool_use","timestamp":1,"sessionID":"%s","part":{"type":"tool","tool":"bash","callID":"c","state":{"status":"completed","input":{"command":"cat main.go"},"output":%s,"metadata":{"output":%s,"exit":0}}}}`+"\n", session, output, output)
	for name, data := range map[string][]byte{"tool-results": []byte(tool), "recorded": recorded} {
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
