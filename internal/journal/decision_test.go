package journal

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
)

func TestDecision(t *testing.T) {
	project := t.TempDir()
	w := create(t, project, "20261121-084512-d4f7")
	ended := func(step, outcome, conclusion string) event.Event {
		return event.Event{Type: event.StepFinished, Job: "a (1)", Step: step, Outcome: &event.Outcome{Outcome: outcome, Conclusion: conclusion}}
	}
	no := &event.ConditionInfo{Source: "failure()", Tree: &event.ConditionPart{Source: "failure()", Value: "false"}}
	needs := &event.ConditionInfo{Result: true, Success: true, Needs: []event.NeedResult{{Job: "z", Result: "success", Direct: true}}}
	for _, e := range []event.Event{
		{Type: event.RunStarted, Run: &event.RunInfo{ID: "20261121-084512-d4f7"}},
		{Type: event.Condition, Job: "a", Condition: needs},
		{Type: event.StepStarted, Job: "a (1)", Step: "first"},
		{Type: event.StepStarted, Job: "a (2)", Step: "first"},
		ended("first", "failure", "success"),
		{Type: event.Condition, Job: "a (1)", Step: "second", Text: "if: failure() is false", Condition: no},
		ended("second", "skipped", "skipped"),
		{Type: event.StepStarted, Job: "a (1)", Step: "third"},
	} {
		w.Emit(e)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(project, "latest")
	if err != nil {
		t.Fatal(err)
	}
	first := StepResult{"first", "failure", "success"}
	tests := []struct {
		job, step string
		want      Decision
	}{
		{"a", "", Decision{Decided: true, Info: needs}},
		{"b", "", Decision{}},
		{"a (1)", "first", Decision{Decided: true}},
		{"a (1)", "second", Decision{Decided: true, Info: no, Text: "if: failure() is false", Before: []StepResult{first}}},
		{"a (1)", "third", Decision{Decided: true, Before: []StepResult{first, {"second", "skipped", "skipped"}}}},
		{"a (2)", "second", Decision{}},
	}
	for _, tt := range tests {
		got, err := r.Decision(tt.job, tt.step)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s/%s: %s", tt.job, tt.step, diff)
		}
	}

	// What runs does not appear under the job's id, which no leg has.
	state, err := State(r)
	if err != nil {
		t.Fatal(err)
	}
	var jobs []string
	for _, j := range state.Jobs {
		jobs = append(jobs, j.ID)
	}
	if diff := cmp.Diff([]string{"a (1)", "a (2)"}, jobs); diff != "" {
		t.Error(diff)
	}
}
