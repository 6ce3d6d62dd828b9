package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/herd-runner/herd-runner/internal/event"
)

// TestAKilledRunGoesOn kills a runner in mid-run: `rerun --failed` takes over what
// was done, agents' answers and branches included, does the rest, and leaves nothing
// of either run. Once for a project of an ordinary user, once for one of root, whose
// steps work on a copy. THREATS 13.
func TestAKilledRunGoesOn(t *testing.T) {
	t.Parallel()
	eachOwner(t, func(t *testing.T, owner int) {
		t.Parallel()
		model := newModel(t, `
scenarios:
  - name: answer
    prompt: Name a number
    turns:
      - text: Forty-two.
`)
		m := newMachine(t, model.asked("sk-ant-test")...)
		dir := newRepository(t, map[string]string{"a.txt": "a\n"})
		if os.Getuid() == 0 {
			chownTree(t, dir, owner)
		}
		p := m.startRun(t, dir, `
on: {workflow_dispatch: {inputs: {who: {default: nobody}}}}
defaults: {docker: {network: none}}
jobs:
  ask:
    outputs: {answer: "${{ steps.ask.outputs.result }}"}
    steps:
      - id: ask
        prompt: Name a number
        runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}
      - run: echo ask >>count.txt
  fix:
    workspace: isolated
    steps: [{run: echo fixed >a.txt}]
  slow:
    needs: [ask, fix]
    steps:
      - id: slow
        run: |
          echo slow >>count.txt
          (setsid sleep 4324.7 >/dev/null 2>&1 &)
          echo begun
          [ "$GITHUB_RUN_ATTEMPT" = 2 ] || sleep 4324.7
  last:
    needs: [ask, fix, slow]
    workspace: {mode: isolated, merge: fix}
    steps:
      - id: last
        env: {ANSWER: "${{ needs.ask.outputs.answer }}", WHO: "${{ inputs.who }}"}
        run: echo "$ANSWER $WHO $(cat a.txt) ${{ needs.fix.result }}"
`, "-i", "who=Me")
		box := p.awaitBox("slow", "slow")
		p.awaitOutput("begun")
		p.signal(syscall.SIGKILL)
		killed := p.wait()
		m.engine.awaitEnd(t, box)
		asked := len(model.requests())

		// No agent is left to be asked: nobody needs a key.
		m.env = slices.DeleteFunc(slices.Clone(m.env), func(v string) bool { return strings.HasPrefix(v, "ANTHROPIC_") })
		r := m.start(t, "rerun", "--failed", "--json", "-C", dir).wait().wantCode(t, 0)
		if got, want := r.output("last", "last"), "Forty-two. Me fixed success\n"; got != want {
			t.Errorf("the last job said %q, want %q", got, want)
		}
		if got := len(model.requests()); got != asked || asked == 0 {
			t.Errorf("the model was asked %d times before the kill and %d in all", asked, got)
		}
		if got, want := read(t, filepath.Join(dir, "count.txt")), "ask\nslow\nslow\n"; got != want {
			t.Errorf("done: %q, want %q", got, want)
		}
		from := map[string]string{}
		for _, e := range r.events {
			if e.Type == event.JobFinished {
				from[e.Job] = e.From
			}
		}
		id := killed.runID(t)
		if from["ask"] != id || from["fix"] != id || from["slow"] != "" || from["last"] != "" {
			t.Errorf("taken over: %v, want ask and fix from %s", from, id)
		}
		if i := slices.IndexFunc(r.events, func(e event.Event) bool { return e.Type == event.RunStarted }); r.events[i].Run.RerunOf != id || r.events[i].Run.Attempt != 2 {
			t.Errorf("it goes on from %+v", r.events[i].Run)
		}
		if left := m.engine.boxes(t, m.state, "herd-runner.run="+id); len(left) > 0 {
			t.Errorf("%d containers of the killed run are left", len(left))
		}
		if left := processesNaming(t, "4324.7"); len(left) > 0 {
			t.Errorf("left running: %v", left)
		}
		if show := m.call(t, "show", "-C", dir).wantCode(t, 0); !strings.Contains(show.stdout, "goes on from run "+id) {
			t.Errorf("show does not say what it goes on from:\n%s", show.stdout)
		}
		m.wantNothingLeft(t, dir)
		wantJournal(t, dir, r)
	})
}

// TestRerunFromAStepInABox: steps before it, an agent among them, are taken over into
// a fresh box, and what a box that is gone held is refused.
func TestRerunFromAStepInABox(t *testing.T) {
	t.Parallel()
	model := newModel(t, `
scenarios:
  - name: answer
    prompt: Name a number
    turns:
      - text: '{"n": 42}'
`)
	m := newMachine(t, model.asked("sk-ant-test")...)
	dir := newProject(t, nil)
	const workflow = `
on: workflow_dispatch
defaults: {docker: {network: none}}
jobs:
  a:
    steps:
      - id: ask
        prompt: Name a number
        runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}
      - id: set
        run: |
          echo set >>count.txt
          mkdir tools; printf '#!/bin/sh\necho my tool\n' >tools/my-tool; chmod +x tools/my-tool
          echo "$PWD/tools" >>"$GITHUB_PATH"
          echo SET=kept >>"$GITHUB_ENV"
      - id: test
        run: |
          echo test >>count.txt
          my-tool
          echo "$SET ${{ fromJSON(steps.ask.outputs.result).n }} $(id -u)"
          [ "$GITHUB_RUN_ATTEMPT" = 2 ]
  b:
    steps:
      - {id: set, run: 'echo "$HOME/bin" >>"$GITHUB_PATH"'}
      - {id: test, run: "false"}
`
	first := m.run(t, dir, workflow).wantCode(t, 1)
	if got := first.output("a", "test"); got != "my tool\nkept 42 1000\n" {
		t.Fatalf("the first attempt said %q", got)
	}
	asked := len(model.requests())
	m.env = slices.DeleteFunc(slices.Clone(m.env), func(v string) bool { return strings.HasPrefix(v, "ANTHROPIC_") })

	if r := m.call(t, "rerun", "--from", "b/test", "-C", dir).wantCode(t, 2); !strings.Contains(r.stderr, "step b/set has set what lies in a directory that ended with its run") {
		t.Errorf("a tool in a HOME that is gone: %s", r.stderr)
	}
	r := m.start(t, "rerun", "--from", "a/test", "--json", "-C", dir).wait().wantCode(t, 1) // b fails again
	if got, want := r.output("a", "test"), first.output("a", "test"); got != want {
		t.Errorf("it said %q, want %q", got, want)
	}
	if got := r.step(t, "a", "test").Conclusion; got != "success" {
		t.Errorf("the step ended with %s", got)
	}
	if got, want := read(t, filepath.Join(dir, "count.txt")), "set\ntest\ntest\n"; got != want {
		t.Errorf("done: %q, want %q", got, want)
	}
	if got := len(model.requests()); got != asked {
		t.Errorf("the model was asked %d times more", got-asked)
	}
	m.wantNothingLeft(t, dir)
}
