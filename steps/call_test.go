package steps_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/steps"
)

// called is a workflow that can be called; its steps run on the host.
func called(call, rest string) string {
	return "on: {workflow_call: {" + call + "}}\ndefaults: {docker: false}\n" + rest
}

// SEMANTICS 36: reusable workflows.
func TestCalledWorkflow(t *testing.T) {
	tests := []struct {
		name, src string
		files     map[string]string
		want      map[string]string
		output    map[string]string
	}{
		{"inputs with their types and defaults, outputs, needs", `
env: {FROM: caller}
jobs:
  first: {outputs: {n: "4"}, steps: [{id: s, run: echo}]}
  call:
    needs: first
    uses: ./w.yml
    with: {text: "${{ needs.first.outputs.n }}", flag: true, count: "${{ fromJSON(needs.first.outputs.n) }}"}
  after: {needs: call, steps: [{id: s, run: "echo ${{ needs.call.result }} ${{ needs.call.outputs.said }}"}]}
`, map[string]string{"w.yml": called(`inputs: {text: {type: string}, flag: {type: boolean}, count: {type: number}, word: {type: string, default: d}, none: {type: boolean}},
  outputs: {said: {value: "${{ jobs.a.outputs.said }}-${{ inputs.text }}"}}`, `
jobs:
  a:
    outputs: {said: "${{ steps.s.outputs.said }}"}
    steps:
      - {id: s, run: 'echo "said=${{ inputs.flag && inputs.count == 4 }}-${{ inputs.word }}-${{ inputs.none }}-$FROM" >> $GITHUB_OUTPUT'}
  b: {needs: a, steps: [{id: s, run: "echo ${{ needs.a.result }}"}]}
`)}, map[string]string{"first": "success", "first/s": "success", "call": "success", "call / a": "success", "call / a/s": "success", "call / b": "success", "call / b/s": "success", "after": "success", "after/s": "success"},
			map[string]string{"after/s": "success true-d-false--4\n", "call / b/s": "success\n"}},

		{"secrets: by name, inherited, and none", `
jobs:
  named: {uses: ./w.yml, secrets: {KEY: "${{ secrets.TOKEN }}"}}
  all: {uses: ./w.yml, secrets: inherit}
  none: {uses: ./w.yml}
`, map[string]string{"w.yml": called(`secrets: {KEY: {}}`, `
jobs:
  a: {steps: [{id: s, run: 'test -n "${{ secrets.KEY }}" && echo key; test -n "${{ secrets.TOKEN }}" && echo token; true'}]}
`)}, map[string]string{"named": "success", "named / a": "success", "named / a/s": "success", "all": "success", "all / a": "success", "all / a/s": "success", "none": "success", "none / a": "success", "none / a/s": "success"},
			map[string]string{"named / a/s": "key\n", "all / a/s": "token\n", "none / a/s": ""}},

		{"a failure inside fails the caller, whose dependents are skipped", `
jobs:
  call: {uses: ./w.yml}
  next: {needs: call, steps: [{id: s, run: echo}]}
  anyway: {needs: call, if: "failure() && needs.call.result == 'failure'", steps: [{id: s, run: echo}]}
`, map[string]string{"w.yml": called("", `
jobs:
  a: {steps: [{id: s, run: exit 1}]}
  b: {needs: a, steps: [{id: s, run: echo}]}
  c: {steps: [{id: s, run: echo}]}
`)}, map[string]string{"call": "failure", "call / a": "failure", "call / a/s": "failure", "call / b": "skipped", "call / c": "success", "call / c/s": "success",
			"next": "skipped", "anyway": "success", "anyway/s": "success"}, nil},

		{"where every called job is skipped so is the caller, and not where one ran", `
jobs:
  all: {uses: ./w.yml, with: {run: false}}
  some: {uses: ./w.yml, with: {run: true}}
  next: {needs: all, steps: [{id: s, run: echo}]}
  then: {needs: some, steps: [{id: s, run: echo}]}
  anyway: {needs: [all, some], if: "!cancelled()", steps: [{id: s, run: "echo ${{ needs.all.result }} ${{ needs.some.result }}"}]}
`, map[string]string{"w.yml": called("inputs: {run: {type: boolean}}", `
jobs:
  a: {if: inputs.run, steps: [{id: s, run: echo}]}
  b: {if: false, steps: [{id: s, run: echo}]}
`)}, map[string]string{"all": "skipped", "all / a": "skipped", "all / b": "skipped", "next": "skipped",
			"some": "success", "some / a": "success", "some / a/s": "success", "some / b": "skipped", "then": "success", "then/s": "success",
			"anyway": "success", "anyway/s": "success"}, map[string]string{"anyway/s": "skipped success\n"}},

		{"a caller that is skipped calls nothing", `
jobs:
  call: {if: false, uses: ./w.yml}
  next: {needs: call, if: always(), steps: [{id: s, run: "echo ${{ needs.call.result }}"}]}
`, map[string]string{"w.yml": called("", "jobs: {a: {steps: [{id: s, run: echo}]}}\n")},
			map[string]string{"call": "skipped", "next": "success", "next/s": "success"}, map[string]string{"next/s": "skipped\n"}},

		{"a matrix of callers, and workflows that call workflows", `
jobs:
  call:
    strategy: {matrix: {x: [1, 2]}}
    uses: ./w.yml
    with: {x: "${{ matrix.x }}"}
`, map[string]string{
			"w.yml": called("inputs: {x: {type: number}}", "jobs: {deep: {uses: ./v.yml, with: {y: \"v${{ inputs.x }}\"}}}\n"),
			"v.yml": called("inputs: {y: {type: string, required: true}}", `
jobs: {a: {strategy: {matrix: {z: [p, q]}}, steps: [{id: s, run: "echo ${{ inputs.y }}${{ inputs.x }}${{ matrix.z }}"}]}}
`)}, map[string]string{
			"call (1)": "success", "call (1) / deep": "success", "call (1) / deep / a (p)": "success", "call (1) / deep / a (p)/s": "success", "call (1) / deep / a (q)": "success", "call (1) / deep / a (q)/s": "success",
			"call (2)": "success", "call (2) / deep": "success", "call (2) / deep / a (p)": "success", "call (2) / deep / a (p)/s": "success", "call (2) / deep / a (q)": "success", "call (2) / deep / a (q)/s": "success",
		}, map[string]string{"call (2) / deep / a (q)/s": "v2q\n"}},

		{"a dynamic matrix inside", `
jobs: {call: {uses: ./w.yml, with: {list: '["u", "v"]'}}}
`, map[string]string{"w.yml": called("inputs: {list: {type: string}}", `
jobs: {a: {strategy: {matrix: {x: "${{ fromJSON(inputs.list) }}"}}, steps: [{id: s, run: "echo ${{ matrix.x }}"}]}}
`)}, map[string]string{"call": "success", "call / a (u)": "success", "call / a (u)/s": "success", "call / a (v)": "success", "call / a (v)/s": "success"}, nil},

		{"a text is no boolean", `
jobs: {call: {uses: ./w.yml, with: {flag: "${{ 'true' }}"}}}
`, map[string]string{"w.yml": called("inputs: {flag: {type: boolean}}", "jobs: {a: {steps: [{id: s, run: echo}]}}\n")},
			map[string]string{"call": "failure"}, nil},

		{"a called workflow uses actions of the project", `
jobs: {call: {uses: ./w.yml}}
`, map[string]string{
			"w.yml":          called("inputs: {who: {type: string, default: w}}", "jobs: {a: {steps: [{id: use, uses: ./act, with: {who: \"${{ inputs.who }}\"}}]}}\n"),
			"act/action.yml": "inputs: {who: {}}\nruns: {using: composite, steps: [{id: s, shell: sh, run: \"echo ${{ inputs.who }}\"}]}\n"},
			map[string]string{"call": "success", "call / a": "success", "call / a/use": "success", "call / a/use/s": "success"}, map[string]string{"call / a/use/s": "w\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := prepareProject(t, tt.src, tt.files)
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

// --max-parallel holds over all that a run calls, and does not stop it.
func TestBoundsHoldOverCalledWorkflows(t *testing.T) {
	t.Parallel()
	var jobs strings.Builder
	for i := range 6 {
		fmt.Fprintf(&jobs, "  c%d: {uses: ./w.yml}\n  j%d: {steps: [{run: echo}, {run: echo}]}\n", i, i)
	}
	e := prepareProject(t, "jobs:\n"+jobs.String(), map[string]string{"w.yml": called("", "jobs:\n  deep: {uses: ./v.yml}\n  a: {steps: [{run: echo}]}\n"),
		"v.yml": called("", "jobs: {a: {strategy: {matrix: {x: [1, 2, 3]}}, steps: [{run: echo}, {run: echo}]}}\n")})
	e.options.MaxParallel = 2
	if out := e.run(); out.Conclusion != "success" {
		t.Fatal(e.notes())
	}
	most, now, ended := 0, map[string]bool{}, 0
	for _, ev := range e.events.events {
		switch ev.Type {
		case event.StepStarted:
			now[ev.Job+"/"+ev.Step] = true
			most = max(most, len(now))
		case event.StepFinished:
			delete(now, ev.Job+"/"+ev.Step)
			ended++
		}
	}
	if most > 2 || ended != 6*(2+1+6) {
		t.Errorf("%d steps at once, %d in all", most, ended)
	}
}

// Fail-fast, a cancel, and a concurrency group reach into what a job calls.
func TestCancelReachesIntoACalledWorkflow(t *testing.T) {
	t.Parallel()
	files := map[string]string{"w.yml": called("inputs: {x: {type: number}}", `
jobs:
  a:
    steps:
      - {id: s, run: "if [ ${{ inputs.x }} = 1 ]; then while [ ! -e started ]; do sleep 0.01; done; exit 1; fi; touch started; sleep 60"}
      - {id: cleanup, if: always(), run: echo}
  b: {needs: a, steps: [{id: s, run: echo}]}
`)}
	t.Run("fail-fast", func(t *testing.T) {
		t.Parallel()
		e := prepareProject(t, "jobs: {call: {strategy: {matrix: {x: [1, 2]}}, uses: ./w.yml, with: {x: \"${{ matrix.x }}\"}}}\n", files)
		e.run()
		want := map[string]string{
			"call (1)": "failure", "call (1) / a": "failure", "call (1) / a/s": "failure", "call (1) / a/cleanup": "success", "call (1) / b": "skipped",
			"call (2)": "cancelled", "call (2) / a": "cancelled", "call (2) / a/s": "cancelled", "call (2) / a/cleanup": "success", "call (2) / b": "cancelled",
		}
		if diff := cmp.Diff(want, e.results()); diff != "" {
			t.Errorf("results (-want +got):\n%s\n%s", diff, e.notes())
		}
	})
	t.Run("cancel", func(t *testing.T) {
		t.Parallel()
		e := prepareProject(t, "jobs: {call: {uses: ./w.yml, with: {x: 2}}, after: {needs: call, if: always(), steps: [{id: s, if: always(), run: echo}]}}\n", files)
		e.events.seen = make(chan event.Event, 100)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := make(chan event.Outcome, 1)
		go func() { done <- steps.Run(ctx, e.options) }()
		for started := false; !started; {
			select {
			case ev := <-e.events.seen:
				started = ev.Type == event.StepStarted
			case <-time.After(20 * time.Second):
				t.Fatal("the step did not start")
			}
		}
		cancel()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Fatal("the run did not end")
		}
		want := map[string]string{"call": "cancelled", "call / a": "cancelled", "call / a/s": "cancelled", "call / a/cleanup": "success", "call / b": "cancelled",
			"after": "success", "after/s": "success"}
		if diff := cmp.Diff(want, e.results()); diff != "" {
			t.Errorf("results (-want +got):\n%s\n%s", diff, e.notes())
		}
	})
	t.Run("a group that can not be had", func(t *testing.T) {
		t.Parallel()
		e := prepareProject(t, "concurrency: g\njobs: {a: {steps: [{run: echo}]}}\n", nil)
		e.options.AcquireGroup = func(context.Context, steps.GroupRequest) (steps.Group, error) {
			return steps.Group{}, &sandbox.Error{Kind: sandbox.KindAccess, Op: "open", Err: errors.New("no place"), Advice: "make one"}
		}
		if out := e.run(); out.Cause != event.CauseInfrastructure || !strings.Contains(e.notes(), "make one") {
			t.Errorf("run: %+v\n%s", out, e.notes())
		}
	})
	t.Run("its caller's group", func(t *testing.T) {
		t.Parallel()
		e := prepareProject(t, "jobs: {call: {concurrency: g, uses: ./w.yml}}\n", map[string]string{"w.yml": called("", "concurrency: G\njobs: {a: {steps: [{run: echo}]}}\n")})
		e.options.AcquireGroup = func(context.Context, steps.GroupRequest) (steps.Group, error) {
			return steps.Group{Release: func() error { return nil }}, nil
		}
		if out := e.run(); out.Conclusion != "cancelled" || e.results()["call"] != "cancelled" {
			t.Errorf("run: %+v, %v", out, e.results())
		}
	})
}
