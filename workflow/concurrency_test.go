package workflow_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

func TestEvalConcurrency(t *testing.T) {
	inputs := expr.NewObject()
	inputs.Set("env", "Prod")
	inputs.Set("yes", true)
	inputs.Set("queue", "max")
	inputs.Set("nothing", "")
	env := expr.Env{Context: func(name string) (expr.Value, bool) { return inputs, name == "inputs" }}
	tests := []struct {
		name, yaml string
		want       workflow.Concurrency
		err        string
	}{
		{"short form", `deploy`, workflow.Concurrency{Group: "deploy", Queue: "single"}, ""},
		{"short form with an expression", `"deploy-${{ inputs.env }}"`, workflow.Concurrency{Group: "deploy-Prod", Queue: "single"}, ""},
		{"a number is a name", `42`, workflow.Concurrency{Group: "42", Queue: "single"}, ""},
		{"group alone", `{group: a}`, workflow.Concurrency{Group: "a", Queue: "single"}, ""},
		{"cancel", `{group: a, cancel-in-progress: true}`, workflow.Concurrency{Group: "a", CancelInProgress: true, Queue: "single"}, ""},
		{"cancel by an expression", `{group: a, cancel-in-progress: "${{ inputs.yes }}"}`, workflow.Concurrency{Group: "a", CancelInProgress: true, Queue: "single"}, ""},
		{"queue", `{group: a, queue: max}`, workflow.Concurrency{Group: "a", Queue: "max"}, ""},
		{"empty group", `"${{ inputs.nothing }}"`, workflow.Concurrency{}, "the concurrency group is empty"},
		{"unknown queue", `{group: a, queue: "${{ inputs.env }}"}`, workflow.Concurrency{}, `unknown queue "Prod"`},
		{"max with cancel, known late", `{group: a, queue: "${{ inputs.queue }}", cancel-in-progress: true}`, workflow.Concurrency{}, "cannot stand together"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, problems := workflow.Parse("w.yml", []byte("on: push\nconcurrency: "+tt.yaml+"\njobs: {a: {steps: [{run: echo}]}}\n"))
			if workflow.HasErrors(problems) {
				t.Fatal(problems)
			}
			got, err := workflow.EvalConcurrency(w.Concurrency, env)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestQueueMaxForbidsCancelInProgress(t *testing.T) {
	_, problems := workflow.Parse("w.yml", []byte("on: push\nconcurrency: {group: a, queue: max, cancel-in-progress: true}\njobs: {a: {steps: [{run: echo}]}}\n"))
	if !workflow.HasErrors(problems) || !strings.Contains(problems[0].Message, "cannot stand together") {
		t.Fatalf("got %v", problems)
	}
}

// A leg that joins a concurrency group has a node of its own before its steps.
func TestLegStartOnlyWithConcurrency(t *testing.T) {
	const src = `
on: push
jobs:
  plain: {steps: [{run: echo}]}
  grouped:
    concurrency: "g-${{ matrix.n }}"
    strategy: {matrix: {n: [1, 2]}}
    steps: [{run: echo}, {run: echo}]
`
	w, problems := workflow.Parse("w.yml", []byte(src))
	if workflow.HasErrors(problems) {
		t.Fatal(problems)
	}
	plan, problems := workflow.NewPlan(w, "")
	if workflow.HasErrors(problems) {
		t.Fatal(problems)
	}
	var got []string
	for _, n := range plan.Nodes {
		line := n.ID + " <-"
		for _, need := range n.Needs {
			line += " " + need.ID
		}
		got = append(got, line)
	}
	want := []string{
		"plain <-", "plain/step-1 <- plain", "plain:leg <- plain/step-1", "plain:end <- plain:leg",
		"grouped <-",
		"grouped (1):start <- grouped", "grouped (1)/step-1 <- grouped (1):start", "grouped (1)/step-2 <- grouped (1)/step-1", "grouped (1):leg <- grouped (1)/step-2",
		"grouped (2):start <- grouped", "grouped (2)/step-1 <- grouped (2):start", "grouped (2)/step-2 <- grouped (2)/step-1", "grouped (2):leg <- grouped (2)/step-2",
		"grouped:end <- grouped (1):leg grouped (2):leg",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
