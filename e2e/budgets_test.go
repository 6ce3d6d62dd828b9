package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/fakemodel"
)

// busyModel limits all requests for so long from the first one on.
type busyModel struct {
	url string

	mu      sync.Mutex
	until   time.Time
	limited int
	taken   int
}

func newBusyModel(t *testing.T, lasts time.Duration, script string) *busyModel {
	t.Helper()
	m := &busyModel{}
	inner := fakemodel.Handler(fakemodel.Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		if m.until.IsZero() && lasts > 0 {
			m.until = time.Now().Add(lasts)
		}
		left := time.Until(m.until)
		if left > 0 {
			m.limited++
		} else {
			m.taken++
		}
		m.mu.Unlock()
		if left <= 0 {
			inner.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Retry-After", fmt.Sprint(int(left.Seconds())+1))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	m.url = server.URL + "/s/" + script + "/run"
	return m
}

func (m *busyModel) asked() []string {
	return []string{"ANTHROPIC_BASE_URL=" + m.url, "ANTHROPIC_API_KEY=sk-ant-api03-" + strings.Repeat("k", 30)}
}

// manySteps are 17 agents of the SDK runtime and 3 of the real Claude CLI, all
// at once.
const manySteps = `
on: workflow_dispatch
jobs:
  sdk:
    strategy: {matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]}, fail-fast: false}
    docker: false
    workspace: ro
    steps:
      - {id: ask, prompt: Say hello., runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}}
  claude:
    strategy: {matrix: {n: [1, 2, 3]}, fail-fast: false}
    workspace: ro
    docker: {network: none}
    steps:
      - {id: ask, prompt: Say hello., runtime: {type: cli, engine: claude, model: claude-sonnet-4-5}}
`

// A storm of 429 over 20 parallel steps is waited out: no step fails or is
// tried again, the API is not stormed, and who waits says until when.
func TestA429StormIsWaitedOut(t *testing.T) {
	t.Parallel()
	model := newBusyModel(t, 20*time.Second, "do=text")
	m := newMachine(t, model.asked()...)
	r := m.run(t, newProject(t, nil), manySteps,
		"--max-agents", "20", "--allow", "host").wantCode(t, 0)
	waited, retried, agents := map[string]bool{}, 0, 0
	for _, e := range r.events {
		switch {
		case e.Type == event.Waiting:
			waited[e.Job] = true
			if e.Wait.Reason != event.WaitRateLimit {
				t.Errorf("%+v", *e.Wait)
			}
		case e.Type == event.StepRetry:
			retried++
		case e.Type == event.StepFinished:
			agents++
		}
	}
	if agents != 20 || retried != 0 || len(waited) < 15 {
		t.Errorf("%d agents, %d retries, %d jobs waited", agents, retried, len(waited))
	}
	model.mu.Lock()
	defer model.mu.Unlock()
	if model.limited > 2*20 {
		t.Errorf("%d requests were sent into the limit", model.limited)
	}
}

// Two runs on one machine with one credential: the second sends nothing into the
// limit that the first has met.
func TestRunsShareWhatTheyKnowOfALimit(t *testing.T) {
	t.Parallel()
	model := newBusyModel(t, 20*time.Second, "do=text")
	m := newMachine(t, model.asked()...)
	const flow = `
on: workflow_dispatch
jobs:
  a:
    strategy: {matrix: {n: [1, 2, 3, 4]}, max-parallel: %d}
    docker: false
    workspace: ro
    steps:
      - {id: ask, prompt: Say hello., runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}}
`
	waits := func(e event.Event) bool { return e.Type == event.Waiting && e.Wait.Reason == event.WaitRateLimit }
	first := m.startRun(t, newProject(t, nil), fmt.Sprintf(flow, 1), "--allow", "host")
	first.await("a wait", waits)
	second := m.startRun(t, newProject(t, nil), fmt.Sprintf(flow, 4), "--allow", "host")
	second.await("a wait", waits)
	first.wait().wantCode(t, 0)
	second.wait().wantCode(t, 0)
	model.mu.Lock()
	defer model.mu.Unlock()
	if model.limited != 1 || model.taken < 8 {
		t.Errorf("%d requests were sent into the limit, %d were taken", model.limited, model.taken)
	}
}

// The upstream dies in the middle of its answers. Its agents end by
// infrastructure, with what to do; one that is back by the next attempt is asked again.
func TestTheUpstreamDiesInMidStream(t *testing.T) {
	t.Parallel()
	needEngine(t)
	model := newModel(t, "")
	m := newMachine(t, model.asked("sk-ant-test")...)
	dir := newProject(t, map[string]string{"a.txt": "a\n"})
	r := m.run(t, dir, `
on: workflow_dispatch
defaults: {docker: {network: none}, workspace: ro}
jobs:
  claude: {steps: [{id: ask, prompt: Go. play/fail=truncated/c, runtime: {type: cli, engine: claude, model: sonnet, env: {CLAUDE_CODE_MAX_RETRIES: "1"}}}]}
  claude-again: {steps: [{id: ask, prompt: "Go. play/do=text,fail=truncated,n=1/ca", runtime: {type: cli, engine: claude, model: sonnet}}]}
  sdk-again: {steps: [{id: ask, prompt: "Go. play/do=text,fail=truncated,n=1/sa", runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}}]}
`).wantCode(t, 3)
	if out := r.step(t, "claude", "ask"); out.Cause != event.CauseInfrastructure || !strings.Contains(out.Message, "broke the answer off") || !strings.Contains(out.Hint, "run again") {
		t.Errorf("%+v", out)
	}
	for _, job := range []string{"claude-again", "sdk-again"} {
		if out := r.step(t, job, "ask"); out.Outcome != "success" || !out.Usage.Estimated {
			t.Errorf("%s: %+v; what the broken answer cost is an estimate", job, out)
		}
	}
	m.wantNothingLeft(t, dir)
}

// A limit longer than a request can wait ends the steps at once, with until
// when; retry: waits for it only as long as the step may take.
func TestALongRateLimitSaysUntilWhen(t *testing.T) {
	t.Parallel()
	model := newBusyModel(t, time.Hour, "do=text")
	m := newMachine(t, model.asked()...)
	dir := newProject(t, nil)
	r := m.run(t, dir, `
on: workflow_dispatch
jobs:
  a:
    docker: false
    steps:
      - id: ask
        prompt: Say hello.
        timeout-minutes: 5
        retry: {max: 3, on: [rate_limited]}
        runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}
`, "--allow", "host").wantCode(t, 1)
	for _, e := range r.events {
		if e.Type == event.StepFinished {
			if o := e.Outcome; o.Cause != event.CauseRateLimited || time.Until(o.RetryAt) < 50*time.Minute {
				t.Errorf("%+v", *o)
			}
		}
	}
	if show := m.call(t, "show", "-C", dir).wantCode(t, 0); !strings.Contains(show.stdout, "rate_limited until 2") {
		t.Errorf("show does not say until when:\n%s", show.stdout)
	}
}

// 20 parallel steps stop at the run's budget, each with the cause and the name
// of the limit, and do not overshoot by more than what was under way.
// THREATS 4.
func TestTheRunsBudgetEndsItsSteps(t *testing.T) {
	t.Parallel()
	model := newBusyModel(t, 0, "do=loop,in=20000,out=1000") // $0.075 a request
	m := newMachine(t, model.asked()...)
	r := m.run(t, newProject(t, nil), manySteps,
		"--max-agents", "20", "--allow", "host", "--max-cost", "1.5").wantCode(t, 1)
	last := r.events[len(r.events)-1]
	if cost := last.Outcome.Usage.CostUSD; cost < 1.5 || cost > 2.5 {
		t.Errorf("the run cost $%.2f", cost)
	}
	over := 0
	for _, e := range r.events {
		if e.Type == event.StepFinished && e.Outcome.Cause == event.CauseBudget && strings.Contains(e.Outcome.Message, "the run (--max-cost)") {
			over++
		}
	}
	if over != 20 {
		t.Errorf("%d of 20 steps ended for the budget", over)
	}
}

// The operator's day is one for all runs of a user.
// THREATS 4.
func TestTheDaysBudgetHoldsOverRuns(t *testing.T) {
	t.Parallel()
	model := newBusyModel(t, 0, "do=text,in=20000,out=1000")
	m := newMachine(t, model.asked()...)
	var home string
	for _, v := range m.env {
		if dir, ok := strings.CutPrefix(v, "XDG_CONFIG_HOME="); ok {
			home = dir
		}
	}
	write(t, home+"/herd-runner/policy.yml", `
allow: [host]
day-budget: {max-cost-usd: 0.1}
models:
  allow: ["claude-sonnet-*"]
  aliases: {careful: claude-sonnet-4-5}
`)
	const flow = `
on: workflow_dispatch
jobs: {a: {docker: false, steps: [{id: ask, prompt: Say hello., runtime: {type: sdk, engine: anthropic, model: %s}}]}}
`
	dir := newProject(t, nil)
	for run, want := range []int{0, 0, 1} { // $0.075 each
		r := m.run(t, dir, fmt.Sprintf(flow, "careful")).wantCode(t, want)
		for _, e := range r.events {
			if e.Type == event.StepFinished && want == 1 && !strings.Contains(e.Outcome.Message, "the day (the operator's policy)") {
				t.Errorf("run %d: %+v", run, *e.Outcome)
			}
			if e.Type == event.Exchange && e.Exchange.Model != "claude-sonnet-4-5" {
				t.Errorf("asked for model %q", e.Exchange.Model)
			}
		}
	}
	r := m.run(t, dir, fmt.Sprintf(flow, "claude-opus-4-8")).wantCode(t, 2)
	if !strings.Contains(r.stderr, "rule models") || !strings.Contains(r.stderr, "claude-sonnet-*") {
		t.Errorf("the refusal does not name its rule:\n%s", r.stderr)
	}
}
