package journal_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
)

// Steps that run at the same time are listed as they stand in the workflow, in
// whatever order they end.
func TestStepsStandInTheOrderOfTheWorkflow(t *testing.T) {
	var f journal.Fold
	for _, number := range []string{"1", "10", "9", "2.10", "2", "2.9", "3"} {
		f.Add(event.Event{Type: event.Condition, Job: "a", Step: "s" + number, Text: "if: false is false"})
		f.Add(event.Event{Type: event.StepFinished, Job: "a", Step: "s" + number, Name: "n" + number, StepInfo: &event.StepInfo{Number: number}, Outcome: &event.Outcome{Outcome: "skipped"}})
	}
	var got []string
	state := f.State()
	for _, s := range state.Steps() {
		got = append(got, s.Name)
	}
	if diff := cmp.Diff([]string{"n1", "n2", "n2.9", "n2.10", "n3", "n9", "n10"}, got); diff != "" {
		t.Error(diff)
	}
}
