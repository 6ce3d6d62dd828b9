package steps_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/host"
	"github.com/herd-runner/herd-runner/steps"
	"github.com/herd-runner/herd-runner/steps/redact"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// execution is a run of a workflow on the bare host, with what it told.
type execution struct {
	t       testing.TB
	options steps.Options
	events  *recorder
}

// recorder keeps events; output per step is joined.
type recorder struct {
	mu     sync.Mutex
	events []event.Event
	output map[string]*strings.Builder
	seen   chan event.Event // non-nil: gets every event but output
}

func (r *recorder) Emit(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Type == event.Output {
		key := e.Job + "/" + e.Step
		if r.output[key] == nil {
			r.output[key] = &strings.Builder{}
		}
		r.output[key].Write(e.Data)
		return
	}
	r.events = append(r.events, e)
	if r.seen != nil {
		r.seen <- e
	}
}

// directory is a workspace without any preparation.
type directory struct {
	root, temp string
	mu         sync.Mutex
	n          int
}

func (d *directory) Root() string { return d.root }

func (d *directory) Box(_, _, step string) (sandbox.Layout, error) {
	d.mu.Lock()
	d.n++
	temp := filepath.Join(d.temp, fmt.Sprint(d.n))
	d.mu.Unlock()
	l := sandbox.Layout{Workdir: d.root, Temp: temp}
	if step != "" {
		l.Home = temp // an agent's
	}
	return l, os.Mkdir(temp, 0o700)
}

func (*directory) Reuse(sandbox.Layout, func(fs.DirEntry) bool) {}

func (*directory) Clone(context.Context, string, string, []steps.Work) (steps.Clone, error) {
	return nil, errors.New("this directory has no clones: the tests of cmd/herd-runner and e2e make some")
}

func uuid() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// prepare gives a workflow whose steps run on the host.
func prepare(t testing.TB, src string) *execution {
	t.Helper()
	return prepareProject(t, src, nil)
}

// prepareProject is prepare in a project with further files.
func prepareProject(t testing.TB, src string, files map[string]string) *execution {
	t.Helper()
	src = "on: push\ndefaults: {docker: false}\n" + src
	root := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	_, plan, problems := workflow.Load("test.yml", []byte(src), func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	})
	if workflow.HasErrors(problems) {
		t.Fatalf("workflow: %+v", problems)
	}
	rec := &recorder{output: map[string]*strings.Builder{}}
	backend := host.New(host.Options{TempDir: t.TempDir(), Env: map[string]string{"PATH": os.Getenv("PATH")}})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := backend.Close(ctx); err != nil {
			t.Errorf("close backend: %v", err)
		}
	})
	masker := redact.New()
	masker.Add("s3cr3t-value")
	return &execution{t: t, events: rec, options: steps.Options{
		Plan: plan,
		Info: event.RunInfo{ID: "test"},
		Contexts: func(name string, _ bool) (expr.Value, bool) {
			switch name {
			case "secrets":
				return expr.FromGo(map[string]string{"TOKEN": "s3cr3t-value"}), true
			case "github", "inputs", "vars", "runner":
				return expr.NewObject(), true
			}
			return nil, false
		},
		Env:         func(sandbox.Info) map[string]string { return nil },
		Backend:     func(context.Context, bool) (sandbox.Backend, error) { return backend, nil },
		Workspace:   &directory{root: root, temp: t.TempDir()},
		Authorize:   func(d workflow.Docker) (workflow.Docker, error) { return d, nil },
		Sink:        redact.Sink(masker, rec),
		Masker:      masker,
		MaxParallel: 4, MaxAgents: 4,
		Now: time.Now, NewUUID: uuid,
		Kill: make(chan struct{}),
	}}
}

func (e *execution) run() event.Outcome {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return steps.Run(ctx, e.options)
}

// results gives "job" and "job/step" → conclusion.
func (e *execution) results() map[string]string {
	e.events.mu.Lock()
	defer e.events.mu.Unlock()
	got := map[string]string{}
	for _, ev := range e.events.events {
		switch ev.Type {
		case event.StepFinished:
			got[ev.Job+"/"+ev.Step] = ev.Outcome.Conclusion
		case event.JobFinished:
			got[ev.Job] = ev.Outcome.Conclusion
		}
	}
	return got
}

func (e *execution) output(step string) string {
	e.events.mu.Lock()
	defer e.events.mu.Unlock()
	if b := e.events.output[step]; b != nil {
		return b.String()
	}
	return ""
}

func (e *execution) notes() string {
	e.events.mu.Lock()
	defer e.events.mu.Unlock()
	var b strings.Builder
	for _, ev := range e.events.events {
		if ev.Note != nil {
			fmt.Fprintf(&b, "%s: %s\n%s\n", ev.Note.Level, ev.Note.Message, ev.Note.Hint)
		}
		if ev.Type == event.StepFinished && ev.Outcome.Message != "" {
			fmt.Fprintf(&b, "%s/%s: %s\n", ev.Job, ev.Step, ev.Outcome.Message)
		}
	}
	return b.String()
}

func TestRunResults(t *testing.T) {
	tests := []struct {
		name, src string
		want      map[string]string
		result    string
	}{
		{"SEMANTICS 1: a step after a failed one is skipped, always() and failure() run", `
jobs:
  a:
    steps:
      - {id: bad, run: exit 3}
      - {id: skipped, run: echo no}
      - {id: always, if: always(), run: echo yes}
      - {id: failure, if: failure(), run: echo yes}
      - {id: word, if: "'success()' == 'failure()'", run: echo no}
`, map[string]string{"a": "failure", "a/bad": "failure", "a/skipped": "skipped", "a/always": "success", "a/failure": "success", "a/word": "skipped"}, "failure"},
		{"SEMANTICS 5: a condition that can not be evaluated fails the step", `
jobs:
  a:
    steps:
      - {id: bad, if: "fromJSON('{') == 1", run: echo no}
`, map[string]string{"a": "failure", "a/bad": "failure"}, "failure"},
		{"SEMANTICS 6: a skipped grandparent skips the grandchild", `
jobs:
  a: {if: false, steps: [{id: s, run: echo}]}
  b: {needs: a, if: always(), steps: [{id: s, run: echo}]}
  c: {needs: b, steps: [{id: s, run: echo}]}
  d: {needs: b, if: "!cancelled()", steps: [{id: s, run: echo}]}
`, map[string]string{"a": "skipped", "b": "success", "b/s": "success", "c": "skipped", "d": "success", "d/s": "success"}, "success"},
		{"SEMANTICS 7: continue-on-error on steps and jobs", `
jobs:
  a:
    steps:
      - {id: bad, continue-on-error: true, run: exit 1}
      - {id: after, if: steps.bad.outcome == 'failure' && steps.bad.conclusion == 'success', run: echo}
  b: {continue-on-error: true, steps: [{id: bad, run: exit 1}]}
  c: {needs: b, steps: [{id: s, run: echo}]}
`, map[string]string{"a": "success", "a/bad": "success", "a/after": "success", "b": "success", "b/bad": "failure", "c": "success", "c/s": "success"}, "success"},
		{"SEMANTICS 9: a step's timeout is a failure, a job's cancels", `
jobs:
  a: {steps: [{id: s, timeout-minutes: 0.005, run: sleep 60}]}
  b: {timeout-minutes: 0.005, steps: [{id: s, run: sleep 60}, {id: after, run: echo}, {id: cleanup, if: always(), run: echo}]}
`, map[string]string{"a": "failure", "a/s": "failure", "b": "cancelled", "b/s": "cancelled", "b/after": "skipped", "b/cleanup": "success"}, "failure"},
		{"SEMANTICS 9: a run whose job ran out of time is no success", `
jobs:
  a: {timeout-minutes: 0.005, steps: [{id: s, run: sleep 60}]}
  b: {steps: [{id: s, run: echo}]}
`, map[string]string{"a": "cancelled", "a/s": "cancelled", "b": "success", "b/s": "success"}, "cancelled"},
		{"SEMANTICS 16: a matrix has a leg per combination", `
jobs:
  a:
    strategy: {matrix: {x: [1, 2], y: [p]}}
    steps: [{id: s, run: "echo ${{ matrix.x }}${{ matrix.y }}"}]
`, map[string]string{"a (1, p)": "success", "a (1, p)/s": "success", "a (2, p)": "success", "a (2, p)/s": "success"}, "success"},
		{"ids are found without regard to case, as on GitHub", `
jobs:
  Build: {outputs: {o: "1"}, steps: [{id: s, run: echo}]}
  use: {needs: build, if: needs.BUILD.outputs.o == 1, steps: [{id: s, run: echo}]}
`, map[string]string{"Build": "success", "Build/s": "success", "use": "success", "use/s": "success"}, "success"},
		{"SEMANTICS 19: needs.<job>.matrix is what became of every leg", `
jobs:
  a:
    strategy: {fail-fast: false, matrix: {x: [1, 2]}}
    outputs: {o: "o${{ matrix.x }}"}
    steps: [{id: s, run: "exit ${{ matrix.x == 2 && 1 || 0 }}"}]
  b:
    needs: a
    if: always()
    steps:
      - {id: s, if: "needs.a.matrix[0].result == 'success' && needs.a.matrix[1].result == 'failure' && needs.a.matrix[1].matrix.x == 2 && needs.a.matrix[0].outputs.o == 'o1'", run: echo}
`, map[string]string{"a (1)": "success", "a (1)/s": "success", "a (2)": "failure", "a (2)/s": "failure", "b": "success", "b/s": "success"}, "failure"},
		{"SEMANTICS 18: a dynamic matrix expands when its input is known", `
jobs:
  make:
    outputs: {list: "${{ steps.s.outputs.list }}"}
    steps: [{id: s, run: "echo 'list=[\"u\",\"v\"]' >> $GITHUB_OUTPUT"}]
  use:
    needs: make
    strategy: {matrix: {t: "${{ fromJSON(needs.make.outputs.list) }}"}}
    steps: [{id: s, run: echo}]
  after: {needs: use, steps: [{id: s, run: echo}]}
`, map[string]string{"make": "success", "make/s": "success", "use (u)": "success", "use (u)/s": "success", "use (v)": "success", "use (v)/s": "success", "after": "success", "after/s": "success"}, "success"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := prepare(t, tt.src)
			out := e.run()
			if diff := cmp.Diff(tt.want, e.results()); diff != "" {
				t.Errorf("results (-want +got):\n%s\n%s", diff, e.notes())
			}
			if out.Conclusion != tt.result {
				t.Errorf("run: got %q, want %q", out.Conclusion, tt.result)
			}
		})
	}
}

// SEMANTICS 11: fail-fast cancels running siblings and those still queued, of
// which no step runs, also no always() one.
func TestFailFast(t *testing.T) {
	t.Parallel()
	e := prepare(t, `
jobs:
  a:
    strategy: {max-parallel: 2, matrix: {x: [1, 2, 3]}}
    steps:
      - {id: s, run: "if [ ${{ matrix.x }} = 1 ]; then exit 1; fi; sleep 60"}
      - {id: clean, if: always(), run: echo}
`)
	e.run()
	want := map[string]string{"a (1)": "failure", "a (1)/s": "failure", "a (1)/clean": "success", "a (2)": "cancelled", "a (2)/s": "cancelled", "a (2)/clean": "success", "a (3)": "cancelled"}
	if diff := cmp.Diff(want, e.results()); diff != "" {
		t.Errorf("results (-want +got):\n%s\n%s", diff, e.notes())
	}
}

// SEMANTICS 10: a job starts as soon as its own needs have finished.
func TestNoStageBarrier(t *testing.T) {
	t.Parallel()
	e := prepare(t, `
jobs:
  slow: {steps: [{run: "while [ ! -e done ]; do sleep 0.01; done", timeout-minutes: 0.5}]}
  quick: {steps: [{run: "true"}]}
  next: {needs: quick, steps: [{run: touch done}]}
`)
	if out := e.run(); out.Conclusion != "success" {
		t.Errorf("slow waits for what a later level does; got %q\n%s", out.Conclusion, e.notes())
	}
}

// SEMANTICS 8: on cancel, running steps stop unless their condition still
// holds, clean-up steps run, a job whose own condition holds runs whole, the run
// is cancelled.
func TestCancel(t *testing.T) {
	t.Parallel()
	e := prepare(t, `
jobs:
  a:
    steps:
      - {id: s, run: echo ready; sleep 60}
      - {id: next, run: echo}
      - {id: cancelled, if: cancelled(), run: echo}
      - {id: always, if: always(), run: echo}
      - {id: failure, if: failure(), run: echo}
  b:
    steps:
      - {id: survives, if: always(), run: "while [ ! -e go ]; do sleep 0.01; done"}
  c: {needs: a, steps: [{id: s, run: echo}]}
  report:
    needs: [a, c]
    if: always()
    steps: [{id: s, run: 'test "${{ needs.a.result }} ${{ job.status }}" = "cancelled success"'}, {id: f, if: cancelled(), run: echo}]
`)
	e.events.seen = make(chan event.Event, 100)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan event.Outcome, 1)
	go func() { done <- steps.Run(ctx, e.options) }()
	for started := 0; started < 2; {
		select {
		case ev := <-e.events.seen:
			if ev.Type == event.StepStarted {
				started++
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the steps did not start")
		}
	}
	cancel()
	for ended := false; !ended; {
		select {
		case ev := <-e.events.seen:
			ended = ev.Type == event.StepFinished && ev.Step == "always"
		case <-time.After(20 * time.Second):
			t.Fatal("the clean-up steps did not run")
		}
	}
	if err := os.WriteFile(filepath.Join(e.options.Workspace.Root(), "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out event.Outcome
	select {
	case out = <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the run did not end")
	}
	want := map[string]string{
		"a": "cancelled", "a/s": "cancelled", "a/next": "skipped", "a/cancelled": "success", "a/always": "success", "a/failure": "skipped",
		"b": "success", "b/survives": "success", "c": "cancelled",
		"report": "success", "report/s": "success", "report/f": "skipped",
	}
	if diff := cmp.Diff(want, e.results()); diff != "" {
		t.Errorf("results (-want +got):\n%s\n%s", diff, e.notes())
	}
	if out.Conclusion != "cancelled" {
		t.Errorf("run: got %q, want cancelled", out.Conclusion)
	}
}

// A panic of ours becomes the failure of the step it happened in; the rest of
// the run goes on and the run says that it was ours.
func TestPanicBecomesAnOutcome(t *testing.T) {
	t.Parallel()
	e := prepare(t, `
jobs:
  a: {steps: [{id: s, run: "echo ${{ vars.x }}"}, {id: after, if: always(), run: echo}]}
  b: {steps: [{id: s, run: echo}]}
  c: {if: "vars.x == 1", steps: [{id: s, run: echo}]}
`)
	contexts := e.options.Contexts
	e.options.Contexts = func(name string, onHost bool) (expr.Value, bool) {
		if name == "vars" {
			panic("scripted panic")
		}
		return contexts(name, onHost)
	}
	out := e.run()
	want := map[string]string{"a": "failure", "a/s": "failure", "a/after": "success", "b": "success", "b/s": "success", "c": "failure"}
	if diff := cmp.Diff(want, e.results()); diff != "" {
		t.Errorf("results (-want +got):\n%s\n%s", diff, e.notes())
	}
	if out.Conclusion != "failure" || out.Cause != event.CauseInfrastructure || !strings.Contains(e.notes(), "scripted panic") {
		t.Errorf("run: %+v\n%s", out, e.notes())
	}
}

// --max-parallel bounds run: steps, strategy.max-parallel the legs of a job.
func TestParallelBounds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		src   string
		slots int
		want  int
	}{
		{"by slots", `
jobs:
  a: {strategy: {matrix: {x: [1, 2, 3, 4, 5, 6]}}, steps: [{run: "true"}]}
`, 2, 2},
		{"by the strategy, over whole legs", `
jobs:
  a: {strategy: {max-parallel: 1, matrix: {x: [1, 2, 3]}}, steps: [{run: "true"}, {run: "true"}]}
`, 8, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := prepare(t, tt.src)
			e.options.MaxParallel = tt.slots
			if out := e.run(); out.Conclusion != "success" {
				t.Fatal(e.notes())
			}
			most, now := 0, map[string]bool{}
			for _, ev := range e.events.events {
				switch ev.Type {
				case event.StepStarted:
					now[ev.Job+ev.Step] = true
					most = max(most, len(now))
				case event.StepFinished:
					delete(now, ev.Job+ev.Step)
				}
			}
			if most > tt.want {
				t.Errorf("%d steps at once, want at most %d", most, tt.want)
			}
		})
	}
}
