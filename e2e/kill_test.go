package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/herd-runner/herd-runner/internal/event"
)

const waiting = `
scenarios:
  - name: wait
    prompt: Wait here
    turns:
      - calls: [{name: "Bash|bash", input: {command: "(setsid sleep 4321 >/dev/null 2>&1 &); echo begun", description: begin}}]
      - text: Done.
`

// TestKilledRunnerLeavesNothingForLong kills a runner beside another: its boxes
// end by themselves, the next start removes them, and the other's are left alone.
func TestKilledRunnerLeavesNothingForLong(t *testing.T) {
	t.Parallel()
	model := newModel(t, waiting)
	m := newMachine(t, model.asked("sk-ant-test")...)
	const workflow = `
on: workflow_dispatch
defaults: {docker: {network: none}}
jobs:
  warm:
    steps:
      - run: echo warm
  web:
    needs: warm
    steps:
      - id: agent
        prompt: Wait here, first project
        runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}
  web-ui:
    needs: warm
    steps:
      - id: loop
        run: |
          (setsid sleep 4322 >/dev/null 2>&1 &)
          echo begun
          sleep 4323
`
	killedDir, otherDir := newRepository(t, map[string]string{"a.txt": "a\n"}), newRepository(t, map[string]string{"a.txt": "a\n"})
	wait := model.hold(afterTool, "first project")
	killed := m.startRun(t, killedDir, workflow)
	agentBox, scriptBox := killed.awaitBox("web", "agent"), killed.awaitBox("web-ui", "loop")
	killed.awaitOutput("begun")
	wait.wait(t, killed)
	killedRun := killed.await("run", func(e event.Event) bool { return e.Type == event.RunStarted }).Run.ID

	otherWait := model.hold(afterTool, "other project")
	other := m.startRun(t, otherDir, `
on: workflow_dispatch
defaults: {docker: {network: none}}
jobs:
  web:
    steps:
      - id: agent
        prompt: Wait here, other project
        runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}
`)
	otherBox := other.awaitBox("web", "agent")
	otherWait.wait(t, other)

	killed.signal(syscall.SIGKILL)
	if r := killed.wait(); r.code != -1 {
		t.Fatalf("the killed runner ended with %d:\n%s", r.code, r.stderr)
	}
	for _, id := range []string{agentBox, scriptBox} {
		m.engine.awaitEnd(t, id)
	}
	if !m.engine.running(t, otherBox) {
		t.Fatal("the other runner's box ended as well")
	}

	show := m.call(t, "show", "-C", killedDir).wantCode(t, 0)
	if !strings.Contains(show.stdout, "died") || !strings.Contains(show.stdout, "web-ui") {
		t.Errorf("show does not say that the run died:\n%s", show.stdout)
	}
	if ps := m.call(t, "ps", "-C", killedDir).wantCode(t, 0); !strings.Contains(ps.stdout, "died") || !strings.Contains(ps.stdout, killedRun) {
		t.Errorf("ps does not say that the run died:\n%s", ps.stdout)
	}
	if logs := m.call(t, "logs", "-C", killedDir, "latest", "warm").wantCode(t, 0); !strings.Contains(logs.stdout, "warm") {
		t.Errorf("logs of a step that had ended:\n%s", logs.stdout)
	}

	// Any next start on this machine, also for another project.
	next := newProject(t, nil)
	m.run(t, next, "on: workflow_dispatch\njobs: {a: {steps: [{run: 'true'}]}}\n").wantCode(t, 0)
	for _, c := range m.engine.boxes(t, m.state) {
		if c.ID != otherBox && c.Labels["herd-runner.role"] == "box" {
			t.Errorf("container %s of run %s is left", c.ID[:12], c.Labels["herd-runner.run"])
		}
	}
	if left := m.engine.boxes(t, m.state, "herd-runner.run="+killedRun); len(left) > 0 {
		t.Errorf("%d containers of the killed run are left", len(left))
	}
	if !m.engine.running(t, otherBox) {
		t.Fatal("the next run took the other runner's box away")
	}
	otherWait.release()
	wait.release()
	other.wait().wantCode(t, 0)
	m.wantNothingLeft(t, otherDir)
}

func (e engine) running(t *testing.T, id string) bool {
	t.Helper()
	c, _ := e.inspect(t, id)
	return c.State.Running
}

// awaitEnd waits until a container does not run any more.
func (e engine) awaitEnd(t *testing.T, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ended, failed := e.ContainerWait(ctx, id, container.WaitConditionNotRunning)
	select {
	case <-ended:
	case err := <-failed:
		t.Fatalf("container %s does not end: %v", id[:12], err)
	}
}
