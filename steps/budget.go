package steps

import (
	"fmt"

	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// BudgetLevel is a budget of the run, of a called workflow, of a leg or of a
// step. All who name its Key spend from it together.
type BudgetLevel struct {
	Key   string
	Name  string // for the person: `job "fix"`
	Limit workflow.Budget
}

// BudgetLeft is what budgets let be spent; nil: there is no limit.
type BudgetLeft struct {
	CostUSD                 *float64
	Tokens, Requests, Turns *int64
}

// within puts what a budget: says before the budgets that lie around it.
func within(around []BudgetLevel, own *workflow.Value, eval workflow.EvalFunc, key, name string) ([]BudgetLevel, error) {
	if own == nil {
		return around, nil
	}
	limit, err := workflow.DecodeBudget(own, eval)
	if err != nil {
		return around, fmt.Errorf("budget: %w", err)
	}
	return append([]BudgetLevel{{Key: key, Name: name, Limit: limit}}, around...), nil
}

// openBudgets takes the budgets that the step spends from, nearest first.
func (s *stepRun) openBudgets() error {
	id := s.leg.leg.ID + "/" + s.id()
	var err error
	s.sc.budgets, err = within(s.sc.levels(), s.step.Budget, s.eval, "step "+id, fmt.Sprintf("step %q", id))
	return err
}

// levels are the budgets around the place, nearest first.
func (s *scope) levels() []BudgetLevel {
	switch {
	case s.budgets != nil:
		return s.budgets
	case s.leg != nil:
		return s.leg.budgets
	}
	return s.run.Budgets
}

// budget is the context of that name.
func (s *scope) budget() *expr.Object {
	var left BudgetLeft
	if s.run.BudgetLeft != nil {
		left = s.run.BudgetLeft(s.levels())
	}
	remaining := expr.NewObject()
	remaining.Set("cost-usd", amount(left.CostUSD))
	remaining.Set("tokens", amount(left.Tokens))
	remaining.Set("requests", amount(left.Requests))
	remaining.Set("turns", amount(left.Turns))
	o := expr.NewObject()
	o.Set("remaining", remaining)
	return o
}

// amount is null where there is no limit.
func amount[T int64 | float64](v *T) expr.Value {
	if v == nil {
		return nil
	}
	return float64(*v)
}
