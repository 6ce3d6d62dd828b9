package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
)

var start = time.Date(2026, 11, 21, 8, 45, 12, 0, time.UTC)

// run is a small run: one step that prints, one agent step that is retried.
func run(id string) []event.Event {
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	ok := &event.Outcome{Outcome: "success", Conclusion: "success", DurationMS: 40}
	call := func(in, out int64) *event.ModelCall {
		return &event.ModelCall{Method: "POST", Path: "/v1/messages", Status: 200, Mode: "replay",
			Usage: event.Usage{Requests: 1, InputTokens: in, OutputTokens: out, CostUSD: 0.25, CostKnown: true}}
	}
	return []event.Event{
		{Type: event.RunStarted, Time: at(0), Run: &event.RunInfo{ID: id, Workflow: "ci", File: "ci.yml", Event: "push"}},
		{Type: event.JobStarted, Time: at(1), Job: "build", Name: "Build"},
		{Type: event.StepStarted, Time: at(2), Job: "build", Step: "step-1", Attempt: 1, Name: "Compile", StepInfo: &event.StepInfo{Kind: "run", Line: 7}},
		{Type: event.Output, Time: at(3), Job: "build", Step: "step-1", Stream: "stdout", Data: []byte("hello\n")},
		{Type: event.Output, Time: at(4), Job: "build", Step: "step-1", Stream: "stderr", Data: []byte("wor")},
		{Type: event.Output, Time: at(5), Job: "build", Step: "step-1", Stream: "stdout", Data: []byte("ld\n")},
		{Type: event.StepFinished, Time: at(42), Job: "build", Step: "step-1", Attempt: 1, Outcome: ok},
		{Type: event.StepStarted, Time: at(43), Job: "build", Step: "fix", Attempt: 1, Name: "Fix", StepInfo: &event.StepInfo{Kind: "agent", Engine: "claude"}},
		{Type: event.Agent, Time: at(44), Job: "build", Step: "fix", Attempt: 1, Message: &event.Message{Kind: event.MessageText, Text: "on it"}},
		{Type: event.Agent, Time: at(45), Job: "build", Step: "fix", Attempt: 1, Message: &event.Message{Kind: event.MessageToolCall, Tool: "Bash", Input: []byte(`not json`)}},
		{Type: event.Exchange, Time: at(46), Job: "build", Step: "fix", Attempt: 1, Exchange: call(10, 2)},
		{Type: event.StepRetry, Time: at(47), Job: "build", Step: "fix", Attempt: 1, Outcome: &event.Outcome{Outcome: "failure", Conclusion: "failure", Cause: event.CauseRateLimited}},
		{Type: event.StepStarted, Time: at(48), Job: "build", Step: "fix", Attempt: 2, Name: "Fix", StepInfo: &event.StepInfo{Kind: "agent", Engine: "claude"}},
		{Type: event.Exchange, Time: at(49), Job: "build", Step: "fix", Attempt: 2, Exchange: call(20, 3)},
		{Type: event.StepFinished, Time: at(60), Job: "build", Step: "fix", Attempt: 2, Outcome: &event.Outcome{Outcome: "failure", Conclusion: "failure", Cause: event.CauseNoResult, DurationMS: 17}},
		{Type: event.JobFinished, Time: at(61), Job: "build", Outcome: &event.Outcome{Outcome: "failure", Conclusion: "failure"}},
		{Type: event.RunFinished, Time: at(62), Outcome: &event.Outcome{Outcome: "failure", Conclusion: "failure", DurationMS: 62}},
	}
}

func create(t *testing.T, project, id string) *Writer {
	t.Helper()
	w, err := Create(project, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func recorded(t *testing.T, project, id string, events []event.Event) *Reader {
	t.Helper()
	w := create(t, project, id)
	for _, e := range events {
		w.Emit(e)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, project, id)
}

func open(t *testing.T, project, id string) *Reader {
	t.Helper()
	r, err := Open(project, id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestARunIsRecordedAndReadBack(t *testing.T) {
	project := t.TempDir()
	r := recorded(t, project, "r1", run("r1"))

	if got := read(t, project, ".herd", ".gitignore"); got != "*\n" {
		t.Errorf(".herd does not ignore itself: %q", got)
	}
	if got := read(t, r.Dir, "logs", "build", "step-1.log"); got != "hello\nworld\n" {
		t.Errorf("log = %q", got)
	}
	if _, err := os.Stat(filepath.Join(r.Dir, "logs", "build", "fix.log")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a log was made for a step that printed nothing: %v", err)
	}
	var seqs []int64
	for e, err := range r.Events {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == event.Output || e.Type == event.Agent {
			t.Errorf("%s in the journal", e.Type)
		}
		seqs = append(seqs, e.Seq)
	}
	if len(seqs) != 12 || !slices.IsSorted(seqs) || seqs[0] != 1 {
		t.Errorf("sequence numbers %v", seqs)
	}
	var said []string
	for e, err := range r.Transcript("build", "fix") {
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, string(e.Message.Kind)+" "+e.Message.Text+e.Message.Tool+string(e.Message.Input))
	}
	if diff := cmp.Diff([]string{"text on it", `tool_call Bash"not json"`}, said); diff != "" {
		t.Error(diff)
	}

	s, err := State(r)
	if err != nil {
		t.Fatal(err)
	}
	fix := s.Step("build", "fix")
	if s.Status != Failure || fix.Cause() != event.CauseNoResult || fix.Attempts != 2 || len(fix.Retries) != 1 {
		t.Errorf("state %v, fix %+v", s.Status, fix)
	}
	if want := (event.Usage{Requests: 2, InputTokens: 30, OutputTokens: 5, CostUSD: 0.5, CostKnown: true}); fix.Usage != want || s.Usage != want {
		t.Errorf("usage %+v, of the run %+v", fix.Usage, s.Usage)
	}
	if want := (StepLog{Messages: 2, ToolCalls: 1}); fix.Log != want {
		t.Errorf("counts %+v", fix.Log)
	}
	if got := s.Step("build", "step-1"); got.Log.Bytes != 12 || got.Duration(start) != 40*time.Millisecond || got.Info.Line != 7 {
		t.Errorf("step-1 %+v", got)
	}
}

func TestStreamPutsTheRunTogetherAgain(t *testing.T) {
	r := recorded(t, t.TempDir(), "r1", run("r1"))
	var got []string
	sink := sinkFunc(func(e event.Event) {
		got = append(got, strings.TrimSpace(string(e.Type)+" "+e.Step+" "+string(e.Data)))
	})
	if err := r.Stream(context.Background(), StreamOptions{}, sink); err != nil {
		t.Fatal(err)
	}
	want := []string{"run.started", "job.started", "step.started step-1", "output step-1 hello\nworld", "step.finished step-1",
		"step.started fix", "exchange fix", "step.retry fix", "step.started fix", "exchange fix", "agent fix", "agent fix", "step.finished fix",
		"job.finished", "run.finished"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = nil
	only := StreamOptions{Select: func(_, step string) bool { return step == "step-1" }, Follow: true}
	if err := r.Stream(context.Background(), only, sink); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[2:5], got); diff != "" {
		t.Error(diff)
	}
}

type sinkFunc func(event.Event)

func (f sinkFunc) Emit(e event.Event) { f(e) }

func TestFollowSeesTheRunFromAnotherReader(t *testing.T) {
	project := t.TempDir()
	w := create(t, project, "r1")
	events := run("r1")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	seen := make(chan event.Event, len(events))
	done := make(chan error, 1)
	r := open(t, project, "latest")
	go func() {
		done <- r.Stream(ctx, StreamOptions{Follow: true}, sinkFunc(func(e event.Event) {
			e.Data = bytes.Clone(e.Data)
			seen <- e
		}))
	}()
	for _, e := range events[:4] {
		w.Emit(e)
	}
	for e := range seen {
		if e.Type == event.Output {
			if string(e.Data) != "hello\n" {
				t.Errorf("output %q", e.Data)
			}
			break
		}
	}
	if s, err := State(r); err != nil || s.Status != Running || s.Step("build", "step-1").Status != Running {
		t.Errorf("while it runs: %+v %v", s, err)
	}
	for _, e := range events[4:] {
		w.Emit(e)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestARunIsKnownFromItsFirstRecord(t *testing.T) {
	project := t.TempDir()
	create(t, project, "r1").Emit(run("r1")[0])
	s, err := State(open(t, project, "r1"))
	if err != nil || s.Status != Running || s.Info.Workflow != "ci" {
		t.Errorf("%+v, %v", s, err)
	}
}

// What is done need not be done again, however soon its runner is killed.
func TestTheEndOfAJobIsRecordedAtOnce(t *testing.T) {
	project := t.TempDir()
	w := create(t, project, "r1")
	w.mu.Lock()
	w.armed = true // no later flush
	w.mu.Unlock()
	w.Emit(event.Event{Type: event.JobFinished, Job: "a", Outcome: &event.Outcome{Outcome: "success"}})
	s, err := State(open(t, project, "r1"))
	if err != nil || len(s.Jobs) != 1 || s.Jobs[0].Outcome == nil {
		t.Errorf("jobs on disk: %+v, %v", s.Jobs, err)
	}
}

func TestADeadRunIsSeenAsSuch(t *testing.T) {
	project := t.TempDir()
	w := create(t, project, "r1")
	for _, e := range run("r1")[:8] {
		w.Emit(e)
	}
	r := open(t, project, "r1")
	if live, err := r.Alive(); !live || err != nil {
		t.Fatalf("alive = %v, %v", live, err)
	}
	if err := w.Close(); err != nil { // as the end of the process: the lock goes, nothing else is written
		t.Fatal(err)
	}
	s, err := State(r)
	if err != nil {
		t.Fatal(err)
	}
	if s.Status != Died || s.Jobs[0].Status != Died || s.Step("build", "fix").Status != Died || s.Step("build", "step-1").Status != Success {
		t.Errorf("%+v", s)
	}
	if !s.Finished.Equal(start.Add(43 * time.Millisecond)) {
		t.Errorf("finished %v", s.Finished)
	}
	err = r.Follow(context.Background(), func(event.Event) error { return nil })
	if !errors.Is(err, ErrDied) {
		t.Errorf("follow: %v", err)
	}
}

// THREATS 13.
func TestRecordsThatCanNotBeRead(t *testing.T) {
	good := `{"seq":1,"type":"run.started","run":{"id":"r1"}}` + "\n"
	tests := []struct {
		name, content string
		events        int
		err           string
	}{
		{"empty", "", 0, ""},
		{"torn end", good + `{"seq":2,"ty`, 1, ""},
		{"torn end with its line end", good + `{"seq":2,"ty` + "\n", 1, ""},
		{"zeros after a power cut", good + strings.Repeat("\x00", 400), 1, ""},
		{"torn middle", good + `{"seq":2,"ty` + "\n" + good, 1, "line 2 is no record"},
		{"no type in the middle", good + "{}\n" + good, 1, "line 2 is no record: it has no type"},
		{"an unknown type", good + `{"seq":2,"type":"from.the.future","x":1}` + "\n", 2, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			project := t.TempDir()
			r := recorded(t, project, "r1", nil)
			if err := os.WriteFile(r.Path(), []byte(tt.content), 0o644); err != nil {
				t.Fatal(err)
			}
			n := 0
			var last error
			for e, err := range r.Events {
				if last = err; err == nil {
					n++
					if e.Type == "" {
						t.Error("an event without a type")
					}
				}
			}
			if n != tt.events || (last == nil) != (tt.err == "") || last != nil && !strings.Contains(last.Error(), tt.err) {
				t.Errorf("%d events, %v; want %d, %q", n, last, tt.events, tt.err)
			}
		})
	}
}

func TestMoreStepsThanFileHandles(t *testing.T) {
	r := func() *Reader {
		project := t.TempDir()
		w := create(t, project, "r1")
		var wg sync.WaitGroup
		for i := range 3 * maxOpenFiles {
			wg.Go(func() {
				for n := range 20 {
					w.Emit(event.Event{Type: event.Output, Job: "build", Step: fmt.Sprint("s", i), Data: fmt.Appendf(nil, "%d\n", n)})
				}
			})
		}
		wg.Wait()
		if n := w.bulk.open.Len(); n > maxOpenFiles {
			t.Errorf("%d open files", n)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return open(t, project, "r1")
	}()
	var want strings.Builder
	for n := range 20 {
		fmt.Fprintln(&want, n)
	}
	for i := range 3 * maxOpenFiles {
		log, err := r.Log("build", fmt.Sprint("s", i))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(log)
		if err := errors.Join(err, log.Close()); err != nil {
			t.Fatal(err)
		}
		if string(got) != want.String() {
			t.Fatalf("log of s%d: %q", i, got)
		}
	}
}

// THREATS 13.
func TestAFullDiskIsSaidAndSurvived(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	project := t.TempDir()
	w := create(t, project, "r1")
	events := run("r1")
	w.Emit(events[0])
	real := w.file
	w.mu.Lock()
	w.file = full
	w.mu.Unlock()
	for _, e := range events[1:7] {
		w.Emit(e)
	}
	if w.Err() == nil || !strings.Contains(w.Err().Error(), "no space left") {
		t.Errorf("Err() = %v", w.Err())
	}
	w.mu.Lock()
	w.file = real
	w.mu.Unlock()
	for _, e := range events[7:] {
		w.Emit(e)
	}
	if err := errors.Join(w.Close(), full.Close()); err == nil || !strings.Contains(err.Error(), "not complete (0 events and 0 bytes") {
		t.Errorf("Close() = %v", err)
	}
	s, err := State(open(t, project, "r1"))
	if err != nil || s.Status != Failure || len(s.Steps()) != 2 {
		t.Errorf("what was pending was not written once there was room: %+v %v", s, err)
	}
}

func TestOpenFindsRuns(t *testing.T) {
	project := t.TempDir()
	if _, err := Open(project, "latest"); err == nil || !strings.Contains(err.Error(), "no runs in") {
		t.Errorf("without runs: %v", err)
	}
	for _, id := range []string{"20261121-084512-3f9a", "20261121-084600-11aa", "20261122-000000-ffff"} {
		recorded(t, project, id, run(id))
	}
	for selector, want := range map[string]string{
		"latest": "20261122-000000-ffff", "": "20261122-000000-ffff", "3f9a": "20261121-084512-3f9a",
		"20261121-0846": "20261121-084600-11aa", "20261121-084512-3f9a": "20261121-084512-3f9a",
	} {
		if r, err := Open(project, selector); err != nil || r.ID != want {
			t.Errorf("Open(%q) = %v, %v", selector, r, err)
		}
	}
	for selector, want := range map[string]string{
		"20261121": `2 runs begin with "20261121": 20261121-084600-11aa, 20261121-084512-3f9a`,
		"nope":     `no run "nope" in`,
		"../x":     `no run "../x" in`,
	} {
		if _, err := Open(project, selector); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%q): %v", selector, err)
		}
	}
}

func TestPruneKeepsTheNewAndTheLiving(t *testing.T) {
	project := t.TempDir()
	r0, r1, r2, r3 := "20260101-000000-0000", "20260102-000000-0001", "20260103-000000-0002", "20260104-000000-0003"
	create(t, project, r0)
	for _, id := range []string{r1, r2, r3} {
		recorded(t, project, id, run(id))
	}
	before := time.Date(2026, 1, 4, 0, 0, 0, 0, time.UTC)
	for _, dry := range []bool{true, false} {
		removed, err := Prune(project, before, dry)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{r2, r1}, removed); diff != "" {
			t.Error(diff)
		}
	}
	states, err := List(project)
	if err != nil || len(states) != 2 || states[0].ID != r3 || states[1].ID != r0 || states[1].Status != Running {
		t.Errorf("%+v %v", states, err)
	}
}

func TestCreateRefuses(t *testing.T) {
	project := t.TempDir()
	create(t, project, "r1")
	if _, err := Create(project, "r1"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a taken id: %v", err)
	}
	for _, id := range []string{"../up", "", ".hidden", "a/b"} {
		if _, err := Create(project, id); err == nil {
			t.Errorf("id %q was taken", id)
		}
	}
	var unwritable *NoRecordError
	if _, err := Create(filepath.Join(project, "gone"), "r1"); !errors.As(err, &unwritable) || unwritable.Hint() == "" {
		t.Errorf("a project that can not be written: %v", err)
	}
	elsewhere, linked := t.TempDir(), t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(linked, ".herd")); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(linked, "r1"); err == nil || !strings.Contains(err.Error(), "is not a folder") {
		t.Errorf("a linked state folder: %v", err)
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) != 0 {
		t.Errorf("something was written through the link: %v %v", entries, err)
	}
}

func TestSlug(t *testing.T) {
	seen := map[string]string{}
	for id, want := range map[string]string{
		"build": "build", "step-1": "step-1", "a.b_c": "a.b_c",
		"Build": "build~", "test (1.26, linux)": "test-1.26-linux~", "../../etc": "etc~", "": "~", ".": "~", "-rf": "rf~",
		"größe": "gr-e~", "a/b": "a-b~", "a\x00b": "a-b~", strings.Repeat("x", 300): strings.Repeat("x", 64) + "~",
	} {
		got := Slug(id)
		if got != want && (!strings.HasSuffix(want, "~") || !strings.HasPrefix(got, want) || len(got) != len(want)+10) {
			t.Errorf("Slug(%q) = %q, want %q", id, got, want)
		}
		if other, taken := seen[strings.ToLower(got)]; taken {
			t.Errorf("%q and %q share %q", id, other, got)
		}
		seen[strings.ToLower(got)] = id
	}
}

func TestNewID(t *testing.T) {
	far := start.Truncate(time.Second).Add(time.Second / 2).In(time.FixedZone("far", 9*3600))
	id, err := NewID(far, bytes.NewReader([]byte{0x3a}))
	if err != nil || id != "20261121-084512-800a" {
		t.Errorf("%q %v", id, err)
	}
	later, err := NewID(far.Add(time.Millisecond), bytes.NewReader([]byte{0}))
	if err != nil || later <= id {
		t.Errorf("%q after %q: ids sort by age (%v)", later, id, err)
	}
	if _, err := NewID(start, strings.NewReader("")); err == nil {
		t.Error("no randomness, no error")
	}
}

func TestSelect(t *testing.T) {
	s, err := State(recorded(t, t.TempDir(), "r1", run("r1")))
	if err != nil {
		t.Fatal(err)
	}
	for selector, want := range map[string]int{"": 2, "build": 2, "build/fix": 1, "fix": 1} {
		if got, err := s.Select(selector); err != nil || len(got) != want {
			t.Errorf("Select(%q) = %d steps, %v", selector, len(got), err)
		}
	}
	var unknown *UnknownStepError
	if _, err := s.Select("nope"); !errors.As(err, &unknown) || !strings.Contains(unknown.Hint(), "build/step-1, build/fix") {
		t.Errorf("%v", err)
	}
}

func BenchmarkEvents(b *testing.B) {
	w, err := Create(b.TempDir(), "r1")
	if err != nil {
		b.Fatal(err)
	}
	e := run("r1")[10]
	for b.Loop() {
		w.Emit(e)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// One iteration is a step that prints 1,000,000 lines of 7 bytes, each in a
// write of its own: the worst case.
func BenchmarkMillionLines(b *testing.B) {
	w, err := Create(b.TempDir(), "r1")
	if err != nil {
		b.Fatal(err)
	}
	e := event.Event{Type: event.Output, Job: "build", Step: "step-1", Stream: "stdout", Data: []byte("123456\n")}
	for b.Loop() {
		for range 1_000_000 {
			w.Emit(e)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// One iteration is what recording adds to the shortest run: create, a few
// events, sync.
func BenchmarkShortestRun(b *testing.B) {
	dir := b.TempDir()
	for i := 0; b.Loop(); i++ {
		w, err := Create(dir, fmt.Sprintf("r%06d", i))
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range run("r") {
			w.Emit(e)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
