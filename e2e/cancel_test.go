package e2e

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
)

// TestCtrlCStopsInOrder: what runs is asked to end, what must run at the end
// runs, and nothing stays behind, not even what detached itself.
// THREATS 12.
func TestCtrlCStopsInOrder(t *testing.T) {
	t.Parallel()
	model := newModel(t, waiting)
	m := newMachine(t, model.asked("sk-ant-test")...)
	dir := newRepository(t, map[string]string{"a.txt": "a\n"})
	wait := model.hold(afterTool)
	p := m.startRun(t, dir, `
on: workflow_dispatch
defaults: {docker: {network: none}}
jobs:
  script:
    steps:
      - id: long
        run: |
          trap 'echo "asked to stop"; echo stopped >stopped.txt; exit 1' INT
          (setsid sleep 4324 >/dev/null 2>&1 &)
          (setsid sh -c 'trap "" INT TERM HUP; sleep 4325' >/dev/null 2>&1 &)
          echo ready
          sleep 4326 &
          wait
      - id: not-reached
        run: touch not-reached.txt
      - id: clean
        if: always()
        run: |
          for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' <"$f"; echo; done 2>/dev/null | grep -q '^sleep 432' && echo "something runs on"
          cat stopped.txt; echo cleaned >cleaned.txt
  agent:
    steps:
      - id: agent
        prompt: Wait here
        workspace: ro
        runtime: {type: cli, engine: claude, model: sonnet}
      - id: clean
        if: cancelled()
        run: echo cleaned after the agent
`)
	p.awaitOutput("ready")
	wait.wait(t, p)
	start := time.Now()
	p.signal(syscall.SIGINT)
	r := p.wait().wantCode(t, 130)
	if took := time.Since(start); took > 40*time.Second {
		t.Errorf("cancelling took %v", took)
	}
	for _, step := range []struct{ job, step string }{{"script", "long"}, {"agent", "agent"}} {
		if out := r.step(t, step.job, step.step); out.Outcome != "cancelled" || out.Cause != event.CauseCancelled {
			t.Errorf("%s/%s: %+v", step.job, step.step, out)
		}
	}
	if out := r.step(t, "script", "not-reached"); out.Outcome != "skipped" {
		t.Errorf("a step after the cancelled one: %+v", out)
	}
	for _, job := range []string{"script", "agent"} {
		if out := r.step(t, job, "clean"); out.Outcome != "success" {
			t.Errorf("%s/clean: %+v", job, out)
		}
	}
	if got := read(t, filepath.Join(dir, "stopped.txt")) + read(t, filepath.Join(dir, "cleaned.txt")); got != "stopped\ncleaned\n" {
		t.Errorf("the steps left %q", got)
	}
	if got := r.output("script", "clean"); strings.Contains(got, "runs on") {
		t.Error("a process of the cancelled step was still there in the next")
	}
	if last := r.events[len(r.events)-1]; last.Type != event.RunFinished || last.Outcome.Outcome != "cancelled" {
		t.Errorf("the last event is %+v", last)
	}
	m.wantNothingLeft(t, dir)
}

// TestSecondCtrlCKills does not wait for a step that will not listen.
// THREATS 12.
func TestSecondCtrlCKills(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newProject(t, nil)
	p := m.startRun(t, dir, `
on: workflow_dispatch
jobs:
  deaf:
    steps:
      - id: deaf
        run: |
          trap '' INT TERM
          (setsid sh -c 'trap "" INT TERM; sleep 4327' >/dev/null 2>&1 &)
          echo ready
          while :; do sleep 4328; done
      - id: clean
        if: always()
        run: sleep 4329
`)
	p.awaitOutput("ready")
	p.signal(syscall.SIGINT)
	p.await("word that the run is being cancelled", func(e event.Event) bool {
		return e.Type == event.Notice && strings.Contains(e.Note.Message, "Ctrl-C again")
	})
	start := time.Now()
	p.signal(syscall.SIGINT)
	r := p.wait().wantCode(t, 130)
	// In order it would have taken 10 s of grace.
	if took := time.Since(start); took > 7*time.Second {
		t.Errorf("killing took %v", took)
	}
	if out := r.step(t, "deaf", "deaf"); out.Outcome != "cancelled" {
		t.Errorf("the killed step: %+v", out)
	}
	m.wantNothingLeft(t, dir)
}

// TestCtrlCAtAnyMoment leaves nothing, whatever was just being made.
func TestCtrlCAtAnyMoment(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		signal syscall.Signal
		at     func(event.Event) bool
	}{
		{"as the run starts", syscall.SIGINT, func(e event.Event) bool { return e.Type == event.RunStarted }},
		{"as steps start", syscall.SIGTERM, func(e event.Event) bool { return e.Type == event.StepStarted && e.Job == "b" }},
		{"as a box is there", syscall.SIGHUP, func(e event.Event) bool { return e.Type == event.BoxStarted }},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t)
			dir := newRepository(t, map[string]string{"a.txt": "a\n"})
			p := m.startRun(t, dir, `
on: workflow_dispatch
defaults: {docker: {network: none}}
jobs:
  a: {steps: [{run: sleep 4340}]}
  b: {steps: [{run: sleep 4341}]}
  c: {steps: [{run: sleep 4342}]}
`, "--max-parallel", "3")
			p.await(test.name, test.at)
			p.signal(test.signal)
			p.wait().wantCode(t, 130)
			m.wantNothingLeft(t, dir)
		})
	}
}

// TestOutputNobodyReads: `herd-runner run … | head -1` cancels the run and
// leaves nothing, where a broken pipe would have killed the runner.
func TestOutputNobodyReads(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newProject(t, nil)
	piped := *m
	piped.as = []string{"sh", "-c", `"$0" "$@" | head -1`}
	r := piped.run(t, dir, `
on: workflow_dispatch
jobs:
  a:
    steps:
      - id: talk
        run: while :; do echo still talking; sleep 0.2; done
      - if: always()
        run: echo cleaned >cleaned.txt
`)
	if strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("head printed:\n%s", r.stdout)
	}
	if !strings.Contains(r.stderr, "broken pipe") {
		t.Errorf("nobody was told:\n%s", r.stderr)
	}
	if got := read(t, filepath.Join(dir, "cleaned.txt")); got != "cleaned\n" {
		t.Errorf("the last step left %q", got)
	}
	if show := m.call(t, "show", "-C", dir).wantCode(t, 0); !strings.Contains(show.stdout, "cancelled") {
		t.Errorf("show:\n%s", show.stdout)
	}
	m.wantNothingLeft(t, dir)
}
