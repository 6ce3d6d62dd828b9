package report

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
	"github.com/herd-runner/herd-runner/sandbox"
)

var update = flag.Bool("update", false, "write the golden files anew")

var start = time.Date(2026, 11, 21, 8, 45, 12, 0, time.UTC)

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (run with -update to accept):\n%s", name, diff)
	}
}

// script builds a run with two jobs at once, an agent, a retry, a failure that
// is let pass, a failure that is not, and a skipped job.
func script() []event.Event {
	ms := 0
	var events []event.Event
	add := func(e event.Event) {
		ms += 100
		e.Time = start.Add(time.Duration(ms) * time.Millisecond)
		events = append(events, e)
	}
	step := func(typ event.Type, job, step string, fill func(e *event.Event)) {
		e := event.Event{Type: typ, Job: job, Step: step, Attempt: 1}
		if fill != nil {
			fill(&e)
		}
		add(e)
	}
	output := func(job, id, stream, text string) {
		step(event.Output, job, id, func(e *event.Event) { e.Stream, e.Data = stream, []byte(text) })
	}
	say := func(m event.Message) {
		step(event.Agent, "fix", "find", func(e *event.Event) { e.Message = &m })
	}
	end := func(job, id string, o event.Outcome) {
		if o.Conclusion == "" {
			o.Conclusion = o.Outcome
		}
		step(event.StepFinished, job, id, func(e *event.Event) { e.Outcome = &o })
	}
	begin := func(job, id, name string, info event.StepInfo) {
		step(event.StepStarted, job, id, func(e *event.Event) { e.Name, e.StepInfo = name, &info })
	}
	add(event.Event{Type: event.RunStarted, Run: &event.RunInfo{ID: "20261121-084512-3f9a", Workflow: "Make it *green*", File: "ci.yml", Event: "push", Dir: "/project", Version: "v0"}})
	add(event.Event{Type: event.JobStarted, Job: "build (1.26, linux)", Name: "build (1.26, linux)"})
	add(event.Event{Type: event.JobStarted, Job: "fix", Name: "Fix it"})
	begin("build (1.26, linux)", "compile", "Compile", event.StepInfo{Kind: "run", Line: 12})
	begin("fix", "find", "Find the bug", event.StepInfo{Kind: "agent", Engine: "claude", Model: "sonnet", Line: 30})
	output("build (1.26, linux)", "compile", "stdout", "ok   all good\nhalf ")
	output("build (1.26, linux)", "compile", "stderr", "warn: ünïcode 日本\n")
	output("build (1.26, linux)", "compile", "stdout", "a line\r\n\x1b[31mred\x1b[0m \x1b]0;title\x07gone \x1b[2Jcleared \xff bad\x00\n::error::not for the terminal\nno end")
	step(event.Annotation, "build (1.26, linux)", "compile", func(e *event.Event) {
		e.Note = &event.Note{Level: "warning", Message: "unused, 50%\nsecond", File: "a,b:c.go", Line: 3, Column: 7, Title: "vet"}
	})
	say(event.Message{Kind: event.MessageInit, SessionID: "s-1", Model: "sonnet"})
	say(event.Message{Kind: event.MessageThinking, Text: "hm"})
	say(event.Message{Kind: event.MessageText, Text: "I will look.\nThen fix."})
	say(event.Message{Kind: event.MessageToolCall, Tool: "Bash", Input: []byte(`{"command":"go test ./...\n","timeout":5}`)})
	say(event.Message{Kind: event.MessageToolResult, IsError: true, Text: "FAIL\x1b[2J x"})
	say(event.Message{Kind: event.MessageToolCall, Tool: "Edit", Parent: "t1", Input: []byte(`{"file_path":"a.go","old_string":"x"}`)})
	say(event.Message{Kind: event.MessageToolCall, Tool: "TodoWrite", Input: []byte(`{"b":2,"a":[1]}`)})
	say(event.Message{Kind: event.MessageText, Text: "Done."})
	say(event.Message{Kind: event.MessageResult, Text: "Done."})
	step(event.Exchange, "fix", "find", func(e *event.Event) {
		e.Exchange = &event.ModelCall{Model: "sonnet", Status: 529, Mode: "live", Reason: "overloaded", Usage: event.Usage{Requests: 1}}
	})
	step(event.StepRetry, "fix", "find", func(e *event.Event) {
		e.Outcome = &event.Outcome{Outcome: "failure", Conclusion: "failure", Cause: event.CauseRateLimited, Message: "529 from the model"}
	})
	step(event.Exchange, "fix", "find", func(e *event.Event) {
		e.Exchange = &event.ModelCall{Model: "sonnet", Status: 200, Mode: "live", Usage: event.Usage{Requests: 1, InputTokens: 12345, OutputTokens: 678, CostUSD: 0.0423, CostKnown: true}}
	})
	step(event.Summary, "fix", "find", func(e *event.Event) { e.Text = "**Found** it\n" })
	end("fix", "find", event.Outcome{Outcome: "success", DurationMS: 61_500, SessionID: "s-1", PeakMemory: 300 << 20, CPUMS: 12_000})
	end("build (1.26, linux)", "compile", event.Outcome{Outcome: "success", DurationMS: 250})
	begin("build (1.26, linux)", "lint", "Lint", event.StepInfo{Kind: "run", Line: 15})
	end("build (1.26, linux)", "lint", event.Outcome{Outcome: "failure", Conclusion: "success", Cause: event.CauseExitCode, ExitCode: 2, DurationMS: 90})
	begin("fix", "check", "Check | it", event.StepInfo{Kind: "run", File: ".github/workflows/check.yml", Line: 34})
	output("fix", "check", "stdout", "--- FAIL: TestX\nexpected 1\n")
	end("fix", "check", event.Outcome{Outcome: "failure", Cause: event.CauseExitCode, ExitCode: 1, DurationMS: 3_200, Message: "the command ended with 1", Hint: "run it with -v"})
	add(event.Event{Type: event.JobFinished, Job: "build (1.26, linux)", Outcome: &event.Outcome{Outcome: "success", Conclusion: "success", DurationMS: 400}})
	add(event.Event{Type: event.JobFinished, Job: "fix", Outcome: &event.Outcome{Outcome: "failure", Conclusion: "failure", DurationMS: 65_000}})
	add(event.Event{Type: event.Condition, Job: "deploy", Text: "success() is false: fix failed"})
	add(event.Event{Type: event.JobFinished, Job: "deploy", Outcome: &event.Outcome{Outcome: "skipped", Conclusion: "skipped"}})
	add(event.Event{Type: event.Notice, Note: &event.Note{Level: "notice", Message: "2 boxes removed"}})
	add(event.Event{Type: event.RunFinished, Outcome: &event.Outcome{Outcome: "failure", Conclusion: "failure", DurationMS: 65_400}})
	return events
}

func state() journal.RunState {
	var f journal.Fold
	for _, e := range script() {
		f.Add(e)
	}
	s := f.State()
	s.Dir = "/project/.herd/runs/" + s.ID
	return s
}

type sink interface {
	event.Sink
	io.Closer
}

func play(t *testing.T, s sink) {
	t.Helper()
	for _, e := range script() {
		s.Emit(e)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTerminal(t *testing.T) {
	for name, opts := range map[string]TerminalOptions{
		"terminal.txt": {Labels: []string{"build (1.26, linux)/compile", "fix/check"}}, "terminal-verbose.txt": {Verbose: true, Width: 80}, "terminal-color.txt": {Color: true, Plain: true},
	} {
		var b bytes.Buffer
		play(t, NewTerminal(&b, opts))
		golden(t, name, b.String())
		if strings.ContainsAny(b.String(), "\x07\x00\r") || strings.Contains(b.String(), "\x1b[2J") || !opts.Color && strings.Contains(b.String(), "\x1b") {
			t.Errorf("%s drives the terminal", name)
		}
	}
}

func TestJSONLines(t *testing.T) {
	var b bytes.Buffer
	play(t, NewJSON(&b))
	golden(t, "events.jsonl", b.String())
}

func TestGitHub(t *testing.T) {
	var b bytes.Buffer
	play(t, newGitHub(&b, GitHubOptions{Color: true}, zeros{}))
	golden(t, "github.txt", b.String())
	// What steps printed stands only between a token and its end.
	fenced := false
	for line := range strings.Lines(b.String()) {
		switch {
		case strings.HasPrefix(line, "::stop-commands::"):
			fenced = true
		case strings.HasPrefix(line, "::end-"):
			fenced = false
		case strings.Contains(line, "not for the terminal") && !fenced:
			t.Errorf("not fenced off: %q", line)
		}
	}
}

func TestGitHubInADirectoryWithoutColours(t *testing.T) {
	var b bytes.Buffer
	play(t, newGitHub(&b, GitHubOptions{Project: "sub/dir"}, zeros{}))
	if strings.Contains(b.String(), "\x1b[") {
		t.Error("colours")
	}
	if n := strings.Count(b.String(), " file="); n == 0 || n != strings.Count(b.String(), " file=sub/dir/") {
		t.Errorf("an annotation at a file beside the project:\n%s", b.String())
	}
}

func TestGitHubShowsALongStepInParts(t *testing.T) {
	var b bytes.Buffer
	g := newGitHub(&b, GitHubOptions{Color: true}, zeros{})
	line := strings.Repeat("x", 99) + "\n"
	for range 2 * groupMax / len(line) {
		g.Emit(event.Event{Type: event.Output, Job: "a", Step: "b", Data: []byte(line)})
	}
	if got := strings.Count(b.String(), "::group::a/b (part 1)\n"); got != 1 {
		t.Errorf("%d first parts before the step ended", got)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(b.String(), line); got != 2*groupMax/len(line) {
		t.Errorf("%d lines", got)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestMarkdown(t *testing.T) {
	golden(t, "summary.md", Markdown(state()))
	s := state()
	s.Jobs[0].Steps[0].Summary = strings.Repeat("ü", 1<<20)
	if got := Markdown(s); len(got) > 1<<20 || !strings.HasSuffix(got, "at most 1 MiB._\n") {
		t.Errorf("%d bytes, ends %q", len(got), got[len(got)-60:])
	}
}

func TestPSAndShow(t *testing.T) {
	var b bytes.Buffer
	running := journal.RunState{ID: "20261121-084600-0001", Info: event.RunInfo{File: "x\x1b[2J.yml"}, Status: journal.Running, Started: start}
	if err := PS(&b, []journal.RunState{running, state()}, start.Add(90*time.Second), false); err != nil {
		t.Fatal(err)
	}
	golden(t, "ps.txt", b.String())
	b.Reset()
	if err := Show(&b, state(), start, false); err != nil {
		t.Fatal(err)
	}
	golden(t, "show.txt", b.String())
}

func TestATableOfAThousandSteps(t *testing.T) {
	s := journal.RunState{ID: "r", Status: journal.Success, Jobs: []*journal.JobState{{ID: "j"}}}
	for i := range 1000 {
		st := &journal.StepState{Job: "j", ID: "s", Name: fmt.Sprint("step ", i), Info: event.StepInfo{Kind: "run"}, Status: journal.Success, Outcome: &event.Outcome{Outcome: "success"}}
		if i%300 == 0 {
			st.Status = journal.Failure
		}
		s.Jobs[0].Steps = append(s.Jobs[0].Steps, st)
	}
	got := stepTable(s, false, start)
	if n := strings.Count(got, "\n"); n != 8 || !strings.Contains(got, "step 900") || !strings.Contains(got, "and 996 more") {
		t.Errorf("%d lines:\n%s", n, got)
	}
}

// THREATS 18.
func TestLogIsHarmless(t *testing.T) {
	var b bytes.Buffer
	if err := Log(&b, strings.NewReader("one\n\x1b]52;c;aGk=\x07two\nend"), false); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != "one\ntwo\nend\n" {
		t.Errorf("%q", got)
	}
}

func TestError(t *testing.T) {
	box := &sandbox.Error{Kind: sandbox.KindImage, Op: "pull image", Advice: "build it with: herd-runner image build", Err: errors.New("no such image \"x\x1b[2J\"")}
	tests := []struct {
		err  error
		want string
	}{
		{errors.New("plain"), "error: plain\n"},
		{fmt.Errorf("start step: %w", box), "error: start step: pull image: no such image \"x\"\nhint: build it with: herd-runner image build\n"},
		{&journal.NotFoundError{Project: "p", ID: "x"}, "error: no runs in p/.herd/runs\nhint: start one with: herd-runner run WORKFLOW\n"},
		{errors.New(strings.Repeat("l\n", 50)), "error: l\n" + strings.Repeat("  l\n", 19) + "  … and 30 more lines\n"},
	}
	for _, tt := range tests {
		var b bytes.Buffer
		Error(&b, tt.err, false)
		if diff := cmp.Diff(tt.want, b.String()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAWriterThatFailsIsSaid(t *testing.T) {
	for _, s := range []sink{NewTerminal(broken{}, TerminalOptions{}), NewJSON(broken{}), newGitHub(broken{}, GitHubOptions{Color: true}, zeros{})} {
		for _, e := range script() {
			s.Emit(e)
		}
		if err := s.Close(); !errors.Is(err, errBroken) {
			t.Errorf("%T: Close() = %v", s, err)
		}
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestOutputAppearsWithoutWaitingForTheEnd(t *testing.T) {
	r, w := io.Pipe()
	term := NewTerminal(w, TerminalOptions{})
	term.Emit(event.Event{Type: event.Output, Job: "a", Step: "b", Data: []byte("now\n")})
	buf := make([]byte, 100)
	n, err := r.Read(buf)
	if err != nil || string(buf[:n]) != "[a/b] now\n" {
		t.Errorf("%q %v", buf[:n], err)
	}
	if err := term.Close(); err != nil {
		t.Error(err)
	}
}

// THREATS 18.
func TestAnEndlessLineStaysBounded(t *testing.T) {
	var b bytes.Buffer
	term := NewTerminal(&b, TerminalOptions{})
	chunk := bytes.Repeat([]byte("é"), 16<<10)
	for range 1000 {
		term.Emit(event.Event{Type: event.Output, Job: "a", Step: "b", Data: chunk})
	}
	if held := cap(term.steps[[2]string{"a", "b"}].partial[0]) + cap(term.steps[[2]string{"a", "b"}].tail); held > 64<<10 {
		t.Errorf("%d bytes held", held)
	}
	term.Emit(event.Event{Type: event.RunFinished})
	if err := term.Close(); err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(b.String(), "\n"); len(first) > 5000 || !strings.HasSuffix(first, "é… (31.2 MiB more, see the log)") {
		t.Errorf("%d bytes: …%q", len(first), first[max(0, len(first)-60):])
	}
}
