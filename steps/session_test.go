package steps_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/steps"
)

// talking is a scripted agent whose session is the file talk in its HOME.
type talking struct{ *scripted }

func (r talking) Describe() runtimes.Description {
	d := r.scripted.Describe()
	d.SessionState = []string{"talk"}
	return d
}

// dirSessions keeps sessions of one file in memory.
type dirSessions struct {
	mu    sync.Mutex
	files map[string]string
}

func (d *dirSessions) Save(leg, step, home string, paths []string, _ bool) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, err := os.ReadFile(filepath.Join(home, paths[0]))
	if os.IsNotExist(err) {
		return false, nil
	}
	d.files[leg+"/"+step] = string(b)
	return true, err
}

func (d *dirSessions) Load(leg, step, home string, paths []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return os.WriteFile(filepath.Join(home, paths[0]), []byte(d.files[leg+"/"+step]), 0o600)
}

func prepareTalking(t *testing.T, src string, scripts ...string) (*execution, *scripted) {
	rt := &scripted{scripts: scripts}
	e := prepareAgent(t, rt, src)
	e.options.Runtime = func(runtimes.Config) (runtimes.Runtime, error) { return talking{rt}, nil }
	e.options.Sessions = &dirSessions{files: map[string]string{}}
	return e, rt
}

const talk = `cat >>$HOME/talk; echo >>$HOME/talk; echo "result $(tr '\n' ' ' <$HOME/talk)"`

// TestASessionGoesOnInOtherSteps: in the same job, in the legs of another, as
// itself and as copies that know nothing of each other.
func TestASessionGoesOnInOtherSteps(t *testing.T) {
	t.Parallel()
	e, rt := prepareTalking(t, `
jobs:
  a:
    steps:
      - {id: one, prompt: one}
      - {id: two, prompt: two, runtime: {session: one}}
      - {id: left, prompt: left, runtime: {session: {fork: one}}}
  b:
    needs: a
    strategy: {max-parallel: 1, matrix: {x: [p, q]}}
    steps: [{id: s, prompt: "${{ matrix.x }}", runtime: {session: {fork: a/two}}}]
`, talk, talk, talk, talk, talk)
	if out := e.run(); out.Conclusion != "success" {
		t.Fatalf("%+v\n%s", out, e.notes())
	}
	for step, want := range map[string]string{"a/one": "one ", "a/two": "one two ", "a/left": "one left ", "b (p)/s": "one two p ", "b (q)/s": "one two q "} {
		if got := e.finished(step).Outputs["result"]; got != want {
			t.Errorf("%s: %q, want %q", step, got, want)
		}
	}
	one := rt.tasks[0].SessionID
	for i, want := range []struct {
		resume string
		fork   bool
	}{{}, {one, false}, {one, true}} {
		if got := rt.tasks[i]; got.Resume != want.resume || got.Fork != want.fork {
			t.Errorf("task %d: resume %q, fork %t", i, got.Resume, got.Fork)
		}
	}
}

// TestASessionThatIsNotThere says why.
func TestASessionThatIsNotThere(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ src, want string }{
		"skipped":     {"{id: one, prompt: one, if: false}", "step one did not run"},
		"left none":   {"{id: one, prompt: nothing}", "its agent left none in its HOME"},
		"not started": {"{id: one, prompt-file: missing.md, continue-on-error: true}", "it ended before it had one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _ := prepareTalking(t, "jobs:\n  a:\n    steps:\n      - "+tt.src+"\n      - {id: two, prompt: two, runtime: {session: one}}\n",
				`cat >/dev/null; echo "result x"`, talk)
			e.run()
			if out := e.finished("a/two"); out.Outcome != "failure" || !strings.Contains(out.Message, tt.want) {
				t.Errorf("%+v", out)
			}
		})
	}
}

// TestARetryOfAStepThatGoesOn: with its own session where it has one, else again
// from where the other step has left.
func TestARetryOfAStepThatGoesOn(t *testing.T) {
	t.Parallel()
	limited := runtimes.GatewayView{LastStatus: 429}
	spoke := limited
	spoke.Usage = event.Usage{Requests: 1, OutputTokens: 1}
	for name, tt := range map[string]struct {
		first  runtimes.GatewayView
		resume int    // the task whose session the retry goes on with
		prompt string // begins so
	}{
		"nothing was said": {limited, 0, "two"},
		"something was":    {spoke, 1, "The connection was interrupted."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := &scripted{scripts: []string{talk, talk + "; exit 1", talk}} // a new id each
			ok := runtimes.GatewayView{LastStatus: 200}
			e := prepareAgent(t, rt, "jobs:\n  a:\n    steps:\n      - {id: one, prompt: one}\n      - {id: two, prompt: two, retry: {max: 1}, runtime: {session: one}}\n")
			e.options.Runtime = func(runtimes.Config) (runtimes.Runtime, error) { return talking{rt}, nil }
			e.options.Sessions = &dirSessions{files: map[string]string{}}
			e.viewOf(func(step string, attempt int) runtimes.GatewayView {
				if step == "two" && attempt == 1 {
					return tt.first
				}
				return ok
			})
			e.run()
			if got := rt.tasks[2]; got.Resume != rt.tasks[tt.resume].SessionID || got.Fork || !strings.HasPrefix(got.Prompt, tt.prompt) {
				t.Errorf("the retry resumes %q with %q; the sessions were %q, %q", got.Resume, got.Prompt, rt.tasks[0].SessionID, rt.tasks[1].SessionID)
			}
		})
	}
}

// viewOf says what the gateway saw of each attempt.
func (e *execution) viewOf(view func(step string, attempt int) runtimes.GatewayView) {
	e.options.OpenModel = func(run steps.AgentRun) (steps.ModelSession, func() error, error) {
		return &session{view(run.Step, run.Attempt)}, func() error { return nil }, nil
	}
}
