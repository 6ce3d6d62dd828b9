package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// ExplainCondition decides as Condition does, and what it tells is what it did.
func TestExplainConditionAgreesWithCondition(t *testing.T) {
	tests := []struct {
		condition string
		success   bool
		implied   bool
		root      string // source of the tree and its value
	}{
		{"true", true, true, "success() && (true) true"},
		{"true", false, true, "success() && (true) false"},
		{"env.X == 'no'", true, true, "success() && (env.X == 'no') false"},
		{"${{ env.X }}", true, true, "success() && (env.X) 'yes'"},
		{"failure()", false, false, "failure() true"},
		{"always() && env.X == 'yes'", false, false, "always() && env.X == 'yes' true"},
		{"'success()'", false, true, "success() && ('success()') false"},
		{"a ${{ true }}", true, false, "a ${{ true }} "},
		{"fromJSON('{')", true, true, "success() && (fromJSON('{')) "},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.condition, tt.success), func(t *testing.T) {
			env := expr.Env{
				Context: func(name string) (expr.Value, bool) {
					o := expr.NewObject()
					o.Set("X", "yes")
					return o, name == "env"
				},
				Function: func(name string) (expr.Func, bool) {
					v := map[string]bool{"success": tt.success, "failure": !tt.success, "always": true}[name]
					return expr.Func{Call: func([]expr.Value) (expr.Value, error) { return v, nil }}, true
				},
			}
			v := &workflow.Value{Text: tt.condition}
			want, wantErr := workflow.Condition(v, env)
			got, x, implied, err := workflow.ExplainCondition(v, env, strings.Clone)
			if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("got %v, %v; Condition says %v, %v", got, err, want, wantErr)
			}
			if root := x.Source + " " + x.Value; root != tt.root || implied != tt.implied {
				t.Errorf("got %q (implied: %v), want %q", root, implied, tt.root)
			}
		})
	}
}
