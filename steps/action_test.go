package steps_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/steps"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// SEMANTICS 36: composite actions.
func TestCompositeAction(t *testing.T) {
	action := func(inputs, steps, outputs string) string {
		return "name: a\ninputs: {" + inputs + "}\noutputs: {" + outputs + "}\nruns:\n  using: composite\n  steps:\n" + steps
	}
	tests := []struct {
		name, src string
		files     map[string]string
		want      map[string]string
		output    map[string]string // of steps that are asked about
	}{
		{"inputs, defaults and outputs", `
jobs:
  a:
    steps:
      - {id: use, uses: ./act, with: {Who: "${{ github.nothing }}you"}}
      - {id: after, run: "echo ${{ steps.use.outputs.said }} ${{ steps.use.conclusion }}"}
`, map[string]string{"act/action.yml": action(`who: {default: nobody}, how: {default: "${{ runner.nothing || 'well' }}"}, left: {}`, `
    - {id: say, shell: sh, run: 'echo "said=${{ inputs.who }}-${{ inputs.how }}-${{ inputs.left }}-" >> $GITHUB_OUTPUT'}
`, `said: {value: "${{ steps.say.outputs.said }}"}`)},
			map[string]string{"a": "success", "a/use": "success", "a/use/say": "success", "a/after": "success"},
			map[string]string{"a/after": "you-well-- success\n"}},

		{"its own path, in the environment and in expressions", `
jobs:
  a: {steps: [{id: use, uses: ./.github/actions/x}]}
`, map[string]string{".github/actions/x/action.yaml": action("", `
    - {id: s, shell: sh, run: '. "$GITHUB_ACTION_PATH/lib.sh"; . "${{ github.action_path }}/lib.sh"'}
`, ""), ".github/actions/x/lib.sh": "echo from the library\n"},
			map[string]string{"a": "success", "a/use": "success", "a/use/s": "success"},
			map[string]string{"a/use/s": "from the library\nfrom the library\n"}},

		{"GITHUB_ENV and GITHUB_PATH reach the later steps of the action, then the job", `
jobs:
  a:
    steps:
      - {id: use, uses: ./act}
      - {id: after, run: 'echo $SET ${{ env.SET }}; tool'}
`, map[string]string{"act/action.yml": action("", `
    - {id: set, shell: sh, run: 'echo SET=on >> $GITHUB_ENV; echo "$GITHUB_ACTION_PATH/bin" >> $GITHUB_PATH'}
    - {id: see, shell: sh, run: 'echo $SET ${{ env.SET }}; tool'}
`, ""), "act/bin/tool": "#!/bin/sh\necho tool\n"},
			map[string]string{"a": "success", "a/use": "success", "a/use/set": "success", "a/use/see": "success", "a/after": "success"},
			map[string]string{"a/use/see": "on on\ntool\n", "a/after": "on on\ntool\n"}},

		{"env: the step that uses it lies below the action's own, above the job's", `
env: {A: workflow, B: workflow, C: workflow}
jobs:
  a: {steps: [{id: use, uses: ./act, env: {B: caller, C: caller}}]}
`, map[string]string{"act/action.yml": action("", `
    - {id: s, shell: sh, env: {C: "${{ env.C }}-inner"}, run: 'echo $A $B $C ${{ env.A }} ${{ env.B }} ${{ env.C }}'}
`, "")},
			map[string]string{"a": "success", "a/use": "success", "a/use/s": "success"},
			map[string]string{"a/use/s": "workflow caller caller-inner workflow caller caller-inner\n"}},

		{"a failed step skips the rest of the action and fails it", `
jobs:
  a:
    steps:
      - {id: use, uses: ./act}
      - {id: after, run: echo}
      - {id: always, if: "always() && steps.use.outcome == 'failure' && steps.use.outputs.o == 'given'", run: echo}
`, map[string]string{"act/action.yml": action("", `
    - {id: bad, shell: sh, run: 'echo o=given >> $GITHUB_OUTPUT; exit 3'}
    - {id: skipped, shell: sh, run: echo}
    - {id: failed, if: failure(), shell: sh, run: echo}
    - {id: cleanup, if: "always() && steps.bad.outcome == 'failure'", shell: sh, run: echo}
`, `o: {value: "${{ steps.bad.outputs.o }}"}`)},
			map[string]string{"a": "failure", "a/use": "failure", "a/use/bad": "failure", "a/use/skipped": "skipped", "a/use/failed": "success",
				"a/use/cleanup": "success", "a/after": "skipped", "a/always": "success"}, nil},

		{"continue-on-error inside and outside", `
jobs:
  a:
    steps:
      - {id: inside, uses: ./tolerant}
      - {id: outside, uses: ./strict, continue-on-error: true}
      - {id: after, run: echo}
`, map[string]string{
			"tolerant/action.yml": action("", "    - {id: bad, continue-on-error: true, shell: sh, run: exit 1}\n    - {id: next, shell: sh, run: echo}\n", ""),
			"strict/action.yml":   action("", "    - {id: bad, shell: sh, run: exit 1}\n", "")},
			map[string]string{"a": "success", "a/inside": "success", "a/inside/bad": "success", "a/inside/next": "success",
				"a/outside": "success", "a/outside/bad": "failure", "a/after": "success"}, nil},

		{"success() in an action is about the action", `
jobs:
  a:
    steps:
      - {id: bad, run: exit 1}
      - {id: use, if: always(), uses: ./act}
`, map[string]string{"act/action.yml": action("", "    - {id: s, shell: sh, run: echo}\n    - {id: f, if: failure(), shell: sh, run: echo}\n", "")},
			map[string]string{"a": "failure", "a/bad": "failure", "a/use": "success", "a/use/s": "success", "a/use/f": "skipped"}, nil},

		{"actions in actions, each with its own inputs and steps", `
jobs:
  a:
    steps:
      - {id: use, uses: ./outer, with: {x: one}}
      - {id: after, run: "echo ${{ steps.use.outputs.x }}"}
`, map[string]string{
			"outer/action.yml": action("x: {}", `
    - {id: deep, uses: ./inner, with: {y: "${{ inputs.x }}-two"}, env: {E: outer}}
    - {id: s, shell: sh, run: 'echo "${{ steps.deep.outputs.y }} ${{ github.action_path }}" | sed "s:/.*/:/:"'}
`, `x: {value: "${{ steps.deep.outputs.y }}"}`),
			"inner/action.yml": action("y: {}", `
    - {id: s, shell: sh, run: 'echo "y=${{ inputs.y }}-${{ inputs.x }}three-$E" >> $GITHUB_OUTPUT'}
`, `y: {value: "${{ steps.s.outputs.y }}"}`)},
			map[string]string{"a": "success", "a/use": "success", "a/use/deep": "success", "a/use/deep/s": "success", "a/use/s": "success", "a/after": "success"},
			map[string]string{"a/use/s": "one-two-three-outer /outer\n", "a/after": "one-two-three-outer\n"}},

		{"a block of the caller sees what the caller sees", `
jobs:
  a:
    strategy: {matrix: {host: [false]}}
    steps:
      - {id: use, uses: ./act, docker: "${{ matrix.host }}", workspace: "${{ vars.nothing || 'shared' }}"}
`, map[string]string{"act/action.yml": action("", "    - {id: s, shell: sh, working-directory: act, run: 'ls'}\n", "")},
			map[string]string{"a (false)": "success", "a (false)/use": "success", "a (false)/use/s": "success"},
			map[string]string{"a (false)/use/s": "action.yml\n"}},

		{"the timeout of the step holds for the whole action", `
jobs:
  a: {steps: [{id: use, uses: ./act, timeout-minutes: 0.005}]}
`, map[string]string{"act/action.yml": action("", "    - {id: s, shell: sh, run: sleep 60}\n    - {id: never, if: always(), shell: sh, run: echo}\n", "")},
			map[string]string{"a": "failure", "a/use": "failure", "a/use/s": "failure"}, nil},

		{"an action in the background", `
jobs:
  a:
    steps:
      - {id: use, uses: ./act, background: true}
      - {id: wait, wait: use}
      - {id: after, run: "echo ${{ steps.use.outputs.o }} $SET"}
`, map[string]string{"act/action.yml": action("", "    - {id: s, shell: sh, run: 'echo SET=1 >> $GITHUB_ENV; echo o=2 >> $GITHUB_OUTPUT'}\n", `o: {value: "${{ steps.s.outputs.o }}"}`)},
			map[string]string{"a": "success", "a/use": "success", "a/use/s": "success", "a/wait": "success", "a/after": "success"},
			map[string]string{"a/after": "2 1\n"}},

		{"actions/checkout is answered by the runner", `
jobs:
  a:
    steps:
      - {id: here, uses: actions/checkout@v4, with: {fetch-depth: 0, path: .}}
      - {id: there, uses: actions/checkout@v4, with: {path: "${{ 'sub' }}"}, continue-on-error: true}
      - {id: after, run: "echo ${{ steps.here.outputs.ref }} ${{ steps.here.outputs.commit }} ${{ steps.there.outcome }}"}
`, nil,
			map[string]string{"a": "success", "a/here": "success", "a/there": "success", "a/after": "success"},
			map[string]string{"a/after": "refs/heads/main c0ffee failure\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := prepareProject(t, tt.src, tt.files)
			contexts := e.options.Contexts
			e.options.Contexts = func(name string, onHost bool) (expr.Value, bool) {
				if name == "github" {
					return expr.FromGo(map[string]string{"ref": "refs/heads/main", "sha": "c0ffee", "workspace": e.options.Workspace.Root()}), true
				}
				return contexts(name, onHost)
			}
			e.run()
			if diff := cmp.Diff(tt.want, e.results()); diff != "" {
				t.Errorf("results (-want +got):\n%s\n%s", diff, e.notes())
			}
			for step, want := range tt.output {
				if got := e.output(step); got != want {
					t.Errorf("%s printed %q, want %q", step, got, want)
				}
			}
		})
	}
}

// A cancel stops the step of an action that runs; its clean-up steps run, and
// then those of the job.
func TestCancelReachesIntoAnAction(t *testing.T) {
	t.Parallel()
	e := prepareProject(t, `
jobs:
  a:
    steps:
      - {id: use, uses: ./act}
      - {id: cleanup, if: always(), run: echo}
`, map[string]string{"act/action.yml": `
runs:
  using: composite
  steps:
    - {id: long, shell: sh, run: sleep 60}
    - {id: next, shell: sh, run: echo}
    - {id: cleanup, if: always(), shell: sh, run: echo}
`})
	e.events.seen = make(chan event.Event, 100)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan event.Outcome, 1)
	go func() { done <- steps.Run(ctx, e.options) }()
	for started := false; !started; {
		select {
		case ev := <-e.events.seen:
			started = ev.Type == event.StepStarted && ev.Step == "use/long"
		case <-time.After(20 * time.Second):
			t.Fatal("the step did not start")
		}
	}
	cancel()
	select {
	case out := <-done:
		if out.Conclusion != "cancelled" {
			t.Errorf("run: got %q", out.Conclusion)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the run did not end")
	}
	want := map[string]string{"a": "cancelled", "a/use": "cancelled", "a/use/long": "cancelled", "a/use/next": "skipped", "a/use/cleanup": "success", "a/cleanup": "success"}
	if diff := cmp.Diff(want, e.results()); diff != "" {
		t.Errorf("results (-want +got):\n%s\n%s", diff, e.notes())
	}
}

// A problem in an action points at the action's file.
func TestProblemInAnActionNamesItsFile(t *testing.T) {
	t.Parallel()
	e := prepareProject(t, "jobs:\n  a: {steps: [{id: use, uses: ./act}]}\n", map[string]string{"act/action.yml": `runs:
  using: composite
  steps:
    - shell: sh
      run: echo ${{ fromJSON('{') }}
`})
	e.run()
	for _, ev := range e.events.events {
		if ev.Note != nil && ev.Note.Level == "error" {
			if ev.Note.File != "act/action.yml" || ev.Note.Line != 5 || !strings.Contains(ev.Note.Message, "fromJson") {
				t.Errorf("note: %+v", ev.Note)
			}
			return
		}
	}
	t.Errorf("no note:\n%s", e.notes())
}

// What is told of a step, and of its condition, names the file it stands in.
func TestStepsNameTheirFile(t *testing.T) {
	t.Parallel()
	e := prepareProject(t, `jobs:
  a: {steps: [{id: use, uses: ./act}]}
  call: {uses: ./w.yml}
`, map[string]string{"act/action.yml": `runs:
  using: composite
  steps:
    - {id: in, shell: sh, run: echo}
`, "w.yml": called("", `jobs:
  b:
    if: 1 == 1
    steps: [{id: s, run: echo}]
`)})
	e.run()
	got := map[string]string{}
	for _, ev := range e.events.events {
		if c := ev.Condition; c != nil {
			got[ev.Job] = fmt.Sprintf("%s:%d", c.File, c.Line)
		}
		if i := ev.StepInfo; i != nil {
			got[ev.Job+"/"+ev.Step] = fmt.Sprintf("%s:%d", i.File, i.Line)
		}
	}
	main := e.options.Plan.Workflow.File
	want := map[string]string{"a/use": main + ":4", "a/use/in": "act/action.yml:4", "call / b": "w.yml:5", "call / b/s": "w.yml:6"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}
