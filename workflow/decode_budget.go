package workflow

import "math"

// DecodeBudget reads a `budget:` of a workflow, job or step; nil has no limits.
func DecodeBudget(v *Value, eval EvalFunc) (Budget, error) {
	d := &decoder{eval: eval}
	return d.budget(v), d.err()
}

func (d *decoder) budget(v *Value) Budget {
	var out Budget
	d.each(v, "`budget`", keyNames("budget"), func(key string, v *Value) {
		switch key {
		case "max-cost-usd":
			out.MaxCostUSD = d.number(key, v, minCostUSD, maxCostUSD)
		case "max-tokens":
			out.MaxTokens = d.whole(key, v, 1, math.MaxInt32*1000)
		case "max-requests":
			out.MaxRequests = d.whole(key, v, 1, math.MaxInt32)
		case "max-turns":
			out.MaxTurns = d.whole(key, v, 1, math.MaxInt32)
		}
	})
	return out
}

// The bounds of `max-cost-usd`.
const (
	minCostUSD = 0.0001
	maxCostUSD = 1_000_000
)

// budgetMembers are what `budget.remaining` has.
func budgetMembers() []string { return []string{"cost-usd", "tokens", "requests", "turns"} }
