package workflow

import (
	"fmt"
	"strings"
	"testing"
)

// SEMANTICS 20: contexts stand exactly where GitHub's table says, see
// https://docs.github.com/en/actions/reference/workflows-and-actions/contexts#context-availability
func TestContextAvailability(t *testing.T) {
	const (
		jobs   = "on: {workflow_call: {inputs: {i: {type: string}}}}\njobs:\n  b: {runs-on: x, steps: [{run: b}]}\n  a: {runs-on: x, needs: b, "
		steps  = jobs + "strategy: {matrix: {m: [1]}}, steps: [{id: s, run: s}, {run: a, "
		head   = "on: {workflow_call: {inputs: {i: {type: string}}}}\n"
		tail   = "\njobs: {a: {runs-on: x, steps: [{run: a}]}}\n"
		matrix = "steps: [{run: a}], strategy: {matrix: {m: [1]}}, "
		every  = "github needs strategy matrix job runner env vars secrets steps inputs budget"
		ofJob  = "github needs strategy matrix vars inputs"
	)
	for _, tt := range []struct{ key, before, after, contexts string }{
		{"name", head + "name: ", tail, ""},
		{"run-name", head + "run-name: ", tail, "github inputs vars"},
		{"concurrency", head + "concurrency: ", tail, "github inputs vars"},
		{"env", head + "env: {A: ", "}" + tail, "github secrets inputs vars"},
		{"defaults.run", head + "defaults: {run: {working-directory: ", "}}" + tail, ""},
		{"on.workflow_call.inputs.default", "on: {workflow_call: {inputs: {i: {type: string, default: ", "}}}}" + tail, "github inputs vars"},
		{"on.workflow_call.outputs", "on: {workflow_call: {inputs: {i: {type: string}}, outputs: {o: {value: ", "}}}}" + tail, "github jobs vars inputs"},
		{"on.workflow_dispatch.inputs.default", "on: {workflow_dispatch: {inputs: {i: {default: ", "}}}}" + tail, ""},
		{"jobs.a.concurrency", jobs + matrix + "concurrency: ", "}\n", ofJob},
		{"jobs.a.continue-on-error", jobs + matrix + "continue-on-error: ", "}\n", ofJob},
		{"jobs.a.defaults.run", jobs + matrix + "defaults: {run: {working-directory: ", "}}}\n", ofJob + " env"},
		{"jobs.a.env", jobs + matrix + "env: {A: ", "}}\n", ofJob + " secrets"},
		{"jobs.a.environment", jobs + matrix + "environment: ", "}\n", ofJob},
		{"jobs.a.environment.url", jobs + matrix + "environment: {name: x, url: ", "}}\n", ofJob + " job runner env steps"},
		{"jobs.a.if", jobs + "steps: [{run: a}], if: ", "}\n", "github needs vars inputs budget"},
		{"jobs.a.name", jobs + matrix + "name: ", "}\n", ofJob},
		{"jobs.a.outputs", jobs + matrix + "outputs: {o: ", "}}\n", strings.Replace(every, " budget", "", 1)},
		{"budget", head + "budget: {max-turns: ", "}" + tail, "github inputs vars"},
		{"jobs.a.budget", jobs + matrix + "budget: {max-turns: ", "}}\n", ofJob},
		{"jobs.a.runs-on", strings.Replace(jobs, "runs-on: x, needs", "needs", 1) + matrix + "runs-on: ", "}\n", ofJob},
		{"jobs.a.strategy", jobs + "steps: [{run: a}], strategy: {fail-fast: ", "}}\n", "github needs vars inputs"},
		{"jobs.a.timeout-minutes", jobs + matrix + "timeout-minutes: ", "}\n", ofJob},
		{"jobs.a.steps.continue-on-error", steps + "continue-on-error: ", "}]}\n", every},
		{"jobs.a.steps.env", steps + "env: {A: ", "}}]}\n", every},
		{"jobs.a.steps.if", steps + "if: ", "}]}\n", strings.Replace(every, "secrets ", "", 1)},
		{"jobs.a.steps.name", steps + "name: ", "}]}\n", every},
		{"jobs.a.steps.run", strings.Replace(steps, "{run: a, ", "{run: ", 1), "}]}\n", every},
		{"jobs.a.steps.shell", steps + "shell: ", "}]}\n", ""},
		{"jobs.a.steps.timeout-minutes", steps + "timeout-minutes: ", "}]}\n", every},
		{"jobs.a.steps.working-directory", steps + "working-directory: ", "}]}\n", every},
	} {
		for _, context := range contextNames() {
			src := tt.before + "\"${{ " + context + " }}\"" + tt.after
			if context == "steps" || context == "needs" || context == "matrix" || context == "budget" {
				src = tt.before + fmt.Sprintf("\"${{ toJSON(%s) }}\"", context) + tt.after
			}
			want := strings.Contains(" "+tt.contexts+" ", " "+context+" ")
			_, _, ps := Validate("w.yml", []byte(src))
			if got := !HasErrors(ps); got != want {
				t.Errorf("%s in %s: %v, want %v\n%s%+v", context, tt.key, got, want, src, ps)
			}
		}
		for function, inSteps := range map[string]bool{"success()": false, "failure()": false, "always()": false, "cancelled()": false, "hashFiles('a')": true} {
			want := strings.HasSuffix(tt.key, ".if")
			if inSteps {
				want = strings.HasPrefix(tt.key, "jobs.a.steps.") && tt.contexts != ""
			}
			src := tt.before + "\"${{ " + function + " }}\"" + tt.after
			_, _, ps := Validate("w.yml", []byte(src))
			if got := !HasErrors(ps); got != want {
				t.Errorf("%s in %s: %v, want %v\n%s%+v", function, tt.key, got, want, src, ps)
			}
		}
	}
}
