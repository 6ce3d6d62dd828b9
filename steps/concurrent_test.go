package steps_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
)

// SEMANTICS 13 and 14: steps of one job at the same time. Steps meet through
// files, so that a wrong order hangs until the timeout instead of passing by
// luck.
func TestConcurrentSteps(t *testing.T) {
	const await = "await() { while [ ! -e $1 ]; do sleep 0.01; done; }; "
	tests := []struct {
		name, src string
		want      map[string]string
		output    map[string]string
	}{
		{"SEMANTICS 13: the next step does not wait for a background step; outputs and env are seen after its wait", `
jobs:
  a:
    timeout-minutes: 0.5
    steps:
      - {id: bg, background: true, run: "` + await + `await go; echo k=v >> $GITHUB_OUTPUT; echo E=1 >> $GITHUB_ENV"}
      - {id: before, run: "echo [${{ steps.bg.outputs.k }}${{ steps.bg.outcome }}$E]; touch go"}
      - {id: w, wait: bg}
      - {id: after, run: "echo [${{ steps.bg.outputs.k }} ${{ steps.bg.outcome }} $E]"}
`, map[string]string{"a": "success", "a/bg": "success", "a/before": "success", "a/w": "success", "a/after": "success"},
			map[string]string{"a/before": "[]\n", "a/after": "[v success 1]\n"}},
		{"SEMANTICS 13: a failure surfaces at the wait", `
jobs:
  a:
    steps:
      - {id: bg, background: true, run: touch failed; exit 3}
      - {id: between, run: "` + await + `await failed; echo still fine: ${{ job.status }}"}
      - {id: w, wait: [bg]}
      - {id: after, run: echo no}
`, map[string]string{"a": "failure", "a/bg": "failure", "a/between": "success", "a/w": "failure", "a/after": "skipped"},
			map[string]string{"a/between": "still fine: success\n"}},
		{"SEMANTICS 13: ... or at the end of the job", `
jobs:
  a: {steps: [{id: bg, background: true, run: exit 3}, {id: s, run: echo}]}
  b: {needs: a, steps: [{id: s, run: echo}]}
`, map[string]string{"a": "failure", "a/bg": "failure", "a/s": "success", "b": "skipped"}, nil},
		{"SEMANTICS 13: wait-all waits for all so far, continue-on-error of a background step counts", `
jobs:
  a:
    steps:
      - {id: x, background: true, run: echo}
      - {id: y, background: true, continue-on-error: true, run: exit 1}
      - {id: w, wait-all: true}
      - {id: s, run: "echo ${{ steps.x.outcome }} ${{ steps.y.outcome }} ${{ steps.y.conclusion }}"}
`, map[string]string{"a": "success", "a/x": "success", "a/y": "success", "a/w": "success", "a/s": "success"},
			map[string]string{"a/s": "success failure success\n"}},
		{"SEMANTICS 13: an explicit cancel is no failure", `
jobs:
  a:
    timeout-minutes: 0.5
    steps:
      - {id: server, background: true, run: "trap 'exit 0' INT; touch up; while :; do sleep 0.01; done"}
      - {id: s, run: "` + await + `await up"}
      - {id: c, cancel: server}
      - {id: after, run: "echo ${{ steps.server.outcome }} ${{ job.status }}"}
`, map[string]string{"a": "success", "a/server": "success", "a/s": "success", "a/c": "success", "a/after": "success"},
			map[string]string{"a/after": "success success\n"}},
		{"SEMANTICS 13: ... also of one that is killed by it", `
jobs:
  a:
    timeout-minutes: 0.5
    steps:
      - {id: server, background: true, run: "touch up; sleep 1000"}
      - {id: s, run: "` + await + `await up"}
      - {id: c, cancel: server}
      - {id: after, run: "echo ${{ steps.server.outcome }} ${{ job.status }}"}
`, map[string]string{"a": "success", "a/server": "cancelled", "a/s": "success", "a/c": "success", "a/after": "success"},
			map[string]string{"a/after": "cancelled success\n"}},
		{"a cancel that is skipped because the job failed still ends its background step", `
jobs:
  a:
    timeout-minutes: 0.5
    steps:
      - {id: server, background: true, run: "touch up; sleep 1000"}
      - {id: s, run: "` + await + `await up; exit 1"}
      - {id: c, cancel: server}
`, map[string]string{"a": "failure", "a/server": "cancelled", "a/s": "failure", "a/c": "skipped"}, nil},
		{"SEMANTICS 13: the steps of a parallel group run together, and the next waits for them", `
jobs:
  a:
    timeout-minutes: 0.5
    steps:
      - parallel:
          - {id: x, run: "touch x; ` + await + `await y; echo o=1 >> $GITHUB_OUTPUT"}
          - {id: y, run: "touch y; ` + await + `await x; echo o=2 >> $GITHUB_OUTPUT"}
      - {id: s, run: "echo ${{ steps.x.outputs.o }}${{ steps.y.outputs.o }}"}
`, map[string]string{"a": "success", "a/x": "success", "a/y": "success", "a/step-3": "success", "a/s": "success"},
			map[string]string{"a/s": "12\n"}},
		{"steps at the same time have scripts of their own; one after another may have the same", `
jobs:
  a:
    timeout-minutes: 0.5
    steps:
      - {id: bg, background: true, run: "echo $0 > bg; touch up; ` + await + `await go; grep -c mine $0"}
      - {id: s, run: "` + await + `await up; echo $0 > s; grep -c $0 bg || echo other"}
      - {id: after, run: "grep -c $0 s; touch go"}
      - {wait: bg}
`, map[string]string{"a": "success", "a/bg": "success", "a/s": "success", "a/after": "success", "a/step-4": "success"},
			map[string]string{"a/bg": "1\n", "a/s": "0\nother\n", "a/after": "1\n"}},
		{"SEMANTICS 14: needs of steps", `
jobs:
  a:
    timeout-minutes: 0.5
    steps:
      - {id: one, run: "` + await + `await two; echo o=1 >> $GITHUB_OUTPUT"}
      - {id: two, needs: [], run: touch two; echo o=2 >> $GITHUB_OUTPUT}
      - {id: follows, run: "echo ${{ steps.two.outputs.o }}"}
      - {id: both, needs: [one, two], run: "echo ${{ steps.one.outputs.o }}${{ steps.two.outputs.o }}"}
`, map[string]string{"a": "success", "a/one": "success", "a/two": "success", "a/follows": "success", "a/both": "success"},
			map[string]string{"a/follows": "2\n", "a/both": "12\n"}},
		{"max-parallel of the strategy counts legs, whose first steps may be several", `
jobs:
  a:
    strategy: {max-parallel: 1, matrix: {x: [1, 2]}}
    timeout-minutes: 0.5
    steps:
      - {id: one, needs: [], run: "touch one${{ matrix.x }}; ` + await + `await two${{ matrix.x }}"}
      - {id: two, needs: [], run: "touch two${{ matrix.x }}; ` + await + `await one${{ matrix.x }}"}
`, map[string]string{"a (1)": "success", "a (1)/one": "success", "a (1)/two": "success", "a (2)": "success", "a (2)/one": "success", "a (2)/two": "success"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := prepare(t, tt.src)
			e.run()
			if diff := cmp.Diff(tt.want, e.results()); diff != "" {
				t.Errorf("results (-want +got):\n%s\n%s", diff, e.notes())
			}
			for step, want := range tt.output {
				if got := e.output(step); got != want {
					t.Errorf("output of %s: got %q, want %q", step, got, want)
				}
			}
		})
	}
}

// Background steps do not take the places that others need: more of them than
// --max-parallel, all waiting for a later step.
func TestBackgroundStepsTakeNoPlace(t *testing.T) {
	t.Parallel()
	var src strings.Builder
	src.WriteString("\njobs:\n  a:\n    timeout-minutes: 0.5\n    steps:\n")
	for i := range 12 {
		fmt.Fprintf(&src, "      - {id: b%d, background: true, run: \"touch up%d; while [ ! -e go ]; do sleep 0.01; done\"}\n", i, i)
	}
	src.WriteString("      - run: \"while [ $(ls | grep -c ^up) -lt 10 ]; do sleep 0.01; done; ls | grep -c ^up; touch go\"\n      - wait-all:\n")
	e := prepare(t, src.String())
	e.options.MaxParallel = 1
	if out := e.run(); out.Conclusion != "success" {
		t.Fatal(e.notes())
	}
	if got := e.output("a/step-13"); got != "10\n" {
		t.Errorf("background steps at once: got %q, want 10", got)
	}
}

// SEMANTICS 8: a cancel of the run ends background steps too.
func TestCancelEndsBackgroundSteps(t *testing.T) {
	t.Parallel()
	e := prepare(t, `
jobs:
  a:
    timeout-minutes: 0.005
    steps:
      - {id: bg, background: true, run: sleep 1000}
      - {id: s, run: sleep 1000}
      - {id: w, wait: bg}
`)
	e.run()
	want := map[string]string{"a": "cancelled", "a/bg": "cancelled", "a/s": "cancelled", "a/w": "skipped"}
	if diff := cmp.Diff(want, e.results()); diff != "" {
		t.Errorf("results (-want +got):\n%s\n%s", diff, e.notes())
	}
	for _, ev := range e.events.events {
		if ev.Type == event.StepFinished && ev.Step == "bg" && ev.Outcome.Cause != event.CauseCancelled {
			t.Errorf("cause: %q", ev.Outcome.Cause)
		}
	}
}
