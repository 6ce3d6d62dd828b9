package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
	"github.com/herd-runner/herd-runner/workflow"
)

const takeoverWorkflow = `
on: push
defaults: {docker: false}
jobs:
  last: {needs: [legs, other], if: always(), steps: [{run: a}]}
  first: {steps: [{run: a}]}
  legs:
    needs: first
    strategy: {matrix: {v: [x, y]}}
    steps: [{run: a}]
  other: {needs: dynamic, steps: [{run: a}]}
  dynamic:
    strategy: {matrix: "${{ fromJSON(vars.m) }}"}
    steps: [{run: a}]
  call: {uses: ./called.yml}
`

const takeoverCalled = `
on: {workflow_call: {}}
defaults: {docker: false}
jobs:
  in: {steps: [{run: a}]}
  then: {needs: in, steps: [{run: a}]}
`

// What is taken over has succeeded, and so has all that it needs.
func TestWhatIsTakenOver(t *testing.T) {
	for _, c := range []struct{ name, legs, want string }{
		{"nothing was recorded", "", ""},
		{"a job without needs", "first=success", "first"},
		{"of a matrix the legs that succeeded", "first=success; legs (x)=success; legs (y)=failure; last=success", "first, legs (x)"},
		{"not what needs a leg that never began", "first=success; legs (x)=success; dynamic (a)=success; other=success; last=success", "dynamic (a), first, legs (x), other"},
		{"all", "first=success; legs (x)=success; legs (y)=success; dynamic (a)=success; other=success; last=success; call / in=success; call / then=success; call=success",
			"call, dynamic (a), first, last, legs (x), legs (y), other"},
		{"not what needs a job that failed", "first=failure; legs (x)=success; legs (y)=success", ""},
		{"nor one that was skipped", "dynamic=skipped; other=success", ""},
		{"nor one that never ended", "dynamic (a)=success; dynamic (b)=died; other=success", "dynamic (a)"},
		{"jobs of a called workflow", "call / in=success; call / then=cancelled; call=failure", "call / in"},
		{"of which the caller never ended", "call / in=success; call / then=success; call=died", "call / in, call / then"},
		{"ids that nobody has", "first (x)=success; legs=success; legs (z)=success; ../first=success; call /=success;  / in=success; ((=success", ""},
		{"parts of ids", "legs (x) / in=success; legs (x=success; dynamic (a / b)=success", "dynamic (a / b)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tk := newTakeover(stateOf(c.legs))
			tk.decide(planOf(t))
			var got []string
			for _, legs := range tk.taken {
				got = append(got, sortedKeys(legs)...)
			}
			slices.Sort(got)
			if d := cmp.Diff(c.want, strings.Join(got, ", ")); d != "" {
				t.Error(d)
			}
		})
	}
}

func planOf(t *testing.T) *workflow.Plan {
	t.Helper()
	_, plan, problems := workflow.Load("w.yml", []byte(takeoverWorkflow), func(string) ([]byte, error) { return []byte(takeoverCalled), nil })
	if workflow.HasErrors(problems) {
		t.Fatal(problems)
	}
	return plan
}

// stateOf is a run with these legs and their results.
func stateOf(legs string) journal.RunState {
	state := journal.RunState{ID: "r"}
	for _, leg := range strings.Split(legs, "; ") {
		id, result, ok := strings.Cut(leg, "=")
		if !ok {
			continue
		}
		j := &journal.JobState{ID: id, Status: journal.Status(result)}
		if result != "died" {
			j.Outcome = &event.Outcome{Outcome: result, Conclusion: result}
		}
		state.Jobs = append(state.Jobs, j)
	}
	return state
}

// What is told of a leg is all that is known of it, but for what it cost, and from
// the run that has run it.
func TestHowALegIsTold(t *testing.T) {
	state := stateOf("call / in=success; call=success")
	state.Jobs[0].From = "first"
	state.Jobs[0].Steps = []*journal.StepState{
		{Job: "call / in", ID: "s", Name: "S", Attempts: 2, Info: event.StepInfo{Kind: "run"}, Outcome: &event.Outcome{Outcome: "success", Usage: &event.Usage{CostUSD: 1}}},
		{Job: "call / in", ID: "skipped", Condition: "no", Outcome: &event.Outcome{Outcome: "skipped"}},
		{ID: "never"},
	}
	state.Jobs[1].Outcome.Outputs = map[string]string{"o": "v"}
	state.Jobs[1].Outcome.Usage = &event.Usage{CostUSD: 1}
	tk := newTakeover(state)
	tk.decide(planOf(t))
	success := event.Outcome{Outcome: "success", Conclusion: "success"}
	withOutput := success
	withOutput.Outputs = map[string]string{"o": "v"}
	want := []event.Event{
		{Type: event.JobStarted, Job: "call / in", From: "first"},
		{Type: event.StepFinished, Job: "call / in", Step: "s", Name: "S", Attempt: 2, StepInfo: &event.StepInfo{Kind: "run"}, Outcome: &event.Outcome{Outcome: "success"}, From: "first"},
		{Type: event.Condition, Job: "call / in", Step: "skipped", Text: "no", From: "first"},
		{Type: event.StepFinished, Job: "call / in", Step: "skipped", StepInfo: &event.StepInfo{}, Outcome: &event.Outcome{Outcome: "skipped"}, From: "first"},
		{Type: event.JobFinished, Job: "call / in", Outcome: &success, From: "first"},
		{Type: event.JobStarted, Job: "call", From: "r"},
		{Type: event.JobFinished, Job: "call", Outcome: &withOutput, From: "r"},
	}
	if d := cmp.Diff(want, tk.taken["call"]["call"].Ended); d != "" {
		t.Error(d)
	}
}

// Who goes on with the session of a job that has ended needs it again.
func TestASessionIsNotTakenOver(t *testing.T) {
	src := `
on: push
jobs:
  a: {steps: [{id: ask, prompt: a}]}
  b: {needs: a, steps: [{prompt: b, runtime: {session: a/ask}}]}
  c: {needs: b, steps: [{id: ask, prompt: c}]}
`
	_, plan, problems := workflow.Load("w.yml", []byte(src), nil)
	if workflow.HasErrors(problems) {
		t.Fatal(problems)
	}
	for legs, want := range map[string]string{
		"a=success; b=failure":            "",
		"a=success; b=success; c=failure": "a, b",
	} {
		tk := newTakeover(stateOf(legs))
		tk.decide(plan)
		for tk.sessions() {
			tk.decide(plan)
		}
		var got []string
		for _, legs := range tk.taken {
			got = append(got, sortedKeys(legs)...)
		}
		slices.Sort(got)
		if strings.Join(got, ", ") != want {
			t.Errorf("of %s is taken over %q, want %q", legs, got, want)
		}
	}
}

// What is not in the record, or no longer in the repository, cannot be taken over.
func TestUnfit(t *testing.T) {
	for _, c := range []struct {
		outcome event.Outcome
		want    string
	}{
		{event.Outcome{}, ""},
		{event.Outcome{Withheld: []string{"key"}}, "the record does not keep what holds a secret: key"},
		{event.Outcome{Work: []event.Work{{Branch: "herd/r/a", Commit: strings.Repeat("0", 40)}}}, "its work is no longer in the repository, branch herd/r/a"},
		{event.Outcome{Work: []event.Work{{Branch: "b", Commit: "--help"}}}, "its work is no longer in the repository, branch b"},
	} {
		if got := unfit(t.Context(), t.TempDir(), &journal.JobState{Outcome: &c.outcome}); got != c.want {
			t.Errorf("%+v: %q, want %q", c.outcome, got, c.want)
		}
	}
}
