package main

import (
	"errors"
	"path/filepath"

	"github.com/herd-runner/herd-runner/internal/gateway"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/steps"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// runBudgets are those of the whole run: the workflow's and that of the command
// line.
func (p *prepared) runBudgets() ([]steps.BudgetLevel, []workflow.Problem) {
	var levels []steps.BudgetLevel
	if p.workflow.Budget != nil {
		limit, err := workflow.DecodeBudget(p.workflow.Budget, func(v *workflow.Value) (expr.Value, error) {
			return workflow.Evaluate(v, p.startEnv())
		})
		if err != nil {
			return nil, workflow.Problems(p.workflow.File, err)
		}
		levels = append(levels, steps.BudgetLevel{Key: "workflow", Name: "the workflow", Limit: limit})
	}
	if p.flags.maxCost > 0 {
		levels = append(levels, steps.BudgetLevel{Key: "run", Name: "the run (--max-cost)", Limit: workflow.Budget{MaxCostUSD: p.flags.maxCost}})
	}
	return levels, nil
}

// startEnv knows what is known before a run starts.
func (p *prepared) startEnv() expr.Env {
	contexts := p.contexts("", p.dir)
	return expr.Env{Context: func(name string) (expr.Value, bool) { return contexts(name, false) }}
}

// dayBudget opens the operator's budget of a day; nil: there is none.
func (a *App) dayBudget(p *prepared) (*gateway.Day, error) {
	limit := p.policy.DayBudget()
	amounts := gateway.Amounts{CostUSD: limit.MaxCostUSD, Tokens: limit.MaxTokens, Requests: limit.MaxRequests, Turns: limit.MaxTurns}
	if amounts == (gateway.Amounts{}) || p.flags.replay != "" {
		return nil, nil
	}
	state, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	return gateway.NewDay(filepath.Join(state, "budget"), amounts, a.Now)
}

// budgets are those of a level, as the gateway keeps them.
func budgets(levels []steps.BudgetLevel) []gateway.Budget {
	var all []gateway.Budget
	for _, l := range levels {
		all = append(all, gateway.Budget{Key: l.Key, Name: l.Name, Limit: gateway.Amounts{
			CostUSD: l.Limit.MaxCostUSD, Tokens: l.Limit.MaxTokens, Requests: l.Limit.MaxRequests, Turns: l.Limit.MaxTurns}})
	}
	return all
}

// budgetLeft is what is left of budgets. What cannot be read has no number.
func (p *prepared) budgetLeft(levels []steps.BudgetLevel) steps.BudgetLeft {
	if p.gateway == nil {
		return steps.BudgetLeft{}
	}
	left, err := p.gateway.Left(budgets(levels))
	if err != nil {
		return steps.BudgetLeft{}
	}
	return steps.BudgetLeft(left)
}

// modelProblem says why a model may not be asked for, and which key names it; nil:
// they all may. The short names of a CLI stand for models that only it knows: of
// those the gateway hears.
func (p *prepared) modelProblem(cfg runtimes.Config) (key string, err error) {
	for _, m := range []struct{ key, name string }{{"model", cfg.Model}, {"fallback-model", cfg.FallbackModel}} {
		if m.name == "" || (cfg.Engine == "claude" || cfg.Engine == "") && shortName(m.name) {
			continue
		}
		if err := p.policy.PermitModel(m.name); err != nil {
			return m.key, err
		}
	}
	return "", nil
}

func shortName(model string) bool {
	switch model {
	case "default", "opus", "sonnet", "haiku", "opusplan", "best", "inherit":
		return true
	}
	return false
}

var errMaxCost = errors.New("--max-cost must be US dollars above 0, at most 1000000")
