package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
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
// THREATS 13.
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

// THREATS 13, FR-009: when the engine dies in mid-run the run ends by itself and
// says why, its record is whole, and the first start after the engine is back
// leaves nothing of it.
func TestTheEngineDies(t *testing.T) {
	t.Parallel()
	e := newOwnEngine(t, busyboxImage)
	m := e.machine()
	dir := newProject(t, nil)
	p := m.startRun(t, dir, `
on: workflow_dispatch
defaults: {docker: {image: `+busyboxImage+`, network: none, memory: 64m}}
jobs:
  before:
    steps:
      - {id: work, run: echo over}
  during:
    needs: before
    steps:
      - {id: work, run: "(setsid sleep 4321.5 &) ; echo begun; sleep 4321.5"}
  after:
    needs: during
    steps:
      - {id: work, run: echo never}
`)
	p.awaitOutput("begun")
	e.Kill()
	r := p.wait().wantCode(t, 3)
	got := r.step(t, "during", "work")
	if got.Cause != event.CauseInfrastructure || !strings.Contains(got.Message, e.Address()+" is gone") || !strings.Contains(got.Hint, "start it") {
		t.Errorf("cause %q, message %q, hint %q; want %q and a word of the engine", got.Cause, got.Message, got.Hint, event.CauseInfrastructure)
	}
	wantJournal(t, dir, r)

	e.Start()
	m.run(t, dir, "on: workflow_dispatch\njobs: {a: {steps: [{run: 'true', docker: "+busyboxImage+"}]}}\n").wantCode(t, 0)
	for _, c := range m.engine.boxes(t, m.state) {
		t.Errorf("left on the engine: %s %s %v", c.ID[:12], c.State, c.Labels)
	}
	if left := processesNaming(t, "4321.5"); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
}

// wantJournal holds the record of a run against what the run has told: it can be
// read to its end, in order, and every end of a step that was told is in it.
func wantJournal(t *testing.T, dir string, r result) {
	t.Helper()
	if len(r.events) == 0 {
		return // it was killed before it said a word
	}
	id := r.runID(t)
	f, err := os.Open(filepath.Join(dir, ".herd/runs", id, "journal.jsonl"))
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	recorded := map[string]bool{}
	lines := bufio.NewReader(f)
	for seq := int64(1); ; seq++ {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // what is cut short at the end was being written
		}
		var e event.Event
		if err := json.Unmarshal(line, &e); err != nil || e.Seq != seq {
			t.Errorf("run %s: record %d has seq %d: %v", id, seq, e.Seq, err)
			return
		}
		recorded[string(e.Type)+e.Job+"/"+e.Step] = true
	}
	for _, e := range r.events {
		switch e.Type {
		case event.StepFinished, event.JobFinished, event.RunFinished:
			if !recorded[string(e.Type)+e.Job+"/"+e.Step] {
				t.Errorf("run %s: %s of %s/%s was told and is not in the record", id, e.Type, e.Job, e.Step)
			}
		}
	}
}
