package steps_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/steps"
)

const takenOver = `
jobs:
  a:
    outputs: {n: "${{ steps.ask.outputs.structured.n }}", z: z, empty: ""}
    steps:
      - {id: ask, prompt: ask}
      - id: set
        run: |
          echo "SET=it's set" >>"$GITHUB_ENV"
          echo /nowhere/bin >>"$GITHUB_PATH"
          echo /nowhere/else >>"$GITHUB_PATH"
      - {id: use, run: 'echo "${{ steps.ask.outputs.structured.n }} ${{ steps.ask.outputs.list }} $SET ${PATH%%/usr*}"'}
  b: {needs: a, steps: [{id: use, run: 'echo "${{ needs.a.result }} ${{ toJSON(needs.a.outputs) }}"'}]}
  other: {steps: [{id: s, run: echo other}]}
  c: {needs: [a, other], steps: [{id: s, run: echo c}]}
`

// told are the events of a job, or of one of its steps, that end it.
func (e *execution) told(job, step string) []event.Event {
	var list []event.Event
	for _, ev := range e.events.events {
		if ev.Job == job && (step == "" || ev.Step == step) && (ev.Type == event.StepFinished || ev.Type == event.JobFinished) {
			ev.From = "first"
			list = append(list, ev)
		}
	}
	return list
}

// What is taken over does not run, and what comes after it sees what it saw; a job
// of which something it needs runs again runs again.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	answer := []string{`cat >prompt; echo 'result {"list":["x",1],"n":2}'`}
	first := prepareAgent(t, &scripted{scripts: answer}, takenOver)
	if out := first.run(); out.Conclusion != "success" {
		t.Fatalf("run: %+v\n%s", out, first.notes())
	}
	const used = "2 [x,1] it's set /nowhere/else:/nowhere/bin:\n"
	if got := first.output("a/use"); got != used {
		t.Fatalf("the first run said %q, want %q", got, used)
	}
	c := steps.EarlierLeg{Ended: first.told("c", "")}
	for _, test := range []struct {
		name      string
		a         steps.EarlierLeg
		inJob     string
		takenOver []string
	}{
		{"a job", steps.EarlierLeg{Ended: first.told("a", "")}, "", []string{"a/ask", "a/set", "a/use", "a"}},
		{"steps", steps.EarlierLeg{Steps: map[string][]event.Event{"ask": first.told("a", "ask"), "set": first.told("a", "set")}}, used, []string{"a/ask", "a/set"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			again := prepareAgent(t, &scripted{}, takenOver)
			again.options.Earlier = map[string]map[string]steps.EarlierLeg{"a": {"a": test.a}, "c": {"c": c}}
			if out := again.run(); out.Conclusion != "success" || out.Usage != nil {
				t.Fatalf("run: %+v\n%s", out, again.notes())
			}
			if got := again.output("a/use"); got != test.inJob {
				t.Errorf("the job said %q, want %q", got, test.inJob)
			}
			if got, want := again.output("b/use"), first.output("b/use"); got != want {
				t.Errorf("the job after it said %q, want %q", got, want)
			}
			if got := again.output("other/s") + again.output("c/s"); got != "other\nc\n" {
				t.Errorf("what was not to be taken over said %q", got)
			}
			var got []string
			for _, e := range again.events.events {
				if e.From != "" && e.Type != event.Condition {
					label := e.Job
					if e.Step != "" {
						label += "/" + e.Step
					}
					got = append(got, label)
				}
			}
			if d := cmp.Diff(test.takenOver, got); d != "" {
				t.Errorf("taken over (-want +got):\n%s", d)
			}
		})
	}
}
