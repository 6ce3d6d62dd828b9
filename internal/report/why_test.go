package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
)

func TestWhy(t *testing.T) {
	failed := &event.Outcome{Outcome: "failure", Conclusion: "failure", Cause: event.CauseExitCode, ExitCode: 1}
	step := &journal.StepState{Job: "test (1.26)", ID: "push", Status: journal.Failure, Outcome: failed, Info: event.StepInfo{File: "called.yml", Line: 9}}
	part := func(source, value string, parts ...*event.ConditionPart) *event.ConditionPart {
		return &event.ConditionPart{Source: source, Value: value, Truthy: value == "true", Parts: parts}
	}
	tests := []struct {
		name string
		why  Why
	}{
		{"a condition that failed", Why{File: "ci.yml", Job: &journal.JobState{ID: "test (1.26)"}, Step: step, Decision: journal.Decision{
			Decided: true,
			Info: &event.ConditionInfo{Source: "always() && fromJSON(env.X).a", Line: 10, Error: "Error parsing fromJson", Success: true,
				Tree: &event.ConditionPart{Source: "always() && fromJSON(env.X).a", Parts: []*event.ConditionPart{
					part("always()", "true"),
					{Source: "fromJSON(env.X).a", Parts: []*event.ConditionPart{{Source: "fromJSON(env.X)", Error: "Error parsing fromJson",
						Parts: []*event.ConditionPart{part("env.X", "'\x1b[31m{'")}}}},
				}}},
			Before: []journal.StepResult{{Step: "build", Outcome: "success", Conclusion: "success"}},
		}}},
		{"a value that is no boolean, and too many parts", Why{File: "ci.yml", Job: &journal.JobState{ID: "test"}, Decision: journal.Decision{
			Decided: true,
			Info: &event.ConditionInfo{Source: "a || b", File: "called.yml", Line: 3, Result: true, Success: true,
				Tree:  &event.ConditionPart{Source: "a || b", Value: "'no'", Truthy: true, More: 7, Parts: []*event.ConditionPart{part("a", "''")}},
				Needs: []event.NeedResult{{Job: "build", Result: "success", Direct: true}, {Job: "fetch", Result: "skipped"}}},
		}}},
		{"cancelled before it started", Why{File: "ci.yml", Job: &journal.JobState{ID: "deploy", Status: journal.Cancelled,
			Outcome: &event.Outcome{Outcome: "cancelled", Conclusion: "cancelled", Message: "run r2 in /p (pid 7) took its place in the queue of concurrency group \"g\""}}}},
		{"still to come", Why{Job: &journal.JobState{ID: "test"}, Step: &journal.StepState{Job: "test", ID: "later"}}},
	}
	var all strings.Builder
	for _, tt := range tests {
		for _, color := range []bool{false, true} {
			var b bytes.Buffer
			if err := tt.why.Explain(&b, color); err != nil {
				t.Fatal(err)
			}
			if !color && strings.Contains(b.String(), "\x1b") {
				t.Errorf("%s: an escape sequence of the workflow's reaches the terminal: %q", tt.name, b.String())
			}
			if !color {
				all.WriteString("== " + tt.name + "\n" + b.String())
			}
		}
	}
	golden(t, "why.txt", all.String())
}
