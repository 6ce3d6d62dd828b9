package workflow

import (
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// ExplainCondition is Condition for an `if` that is written, and tells how it
// was decided. The success() that a condition without a status function asks for
// first is a part like any other; implied says that it is there. clean is given
// every text before it is cut, to take secrets out.
func ExplainCondition(v *Value, env expr.Env, clean func(string) string) (ok bool, x *expr.Explanation, implied bool, err error) {
	t := v.cond
	if t == nil {
		t = parseCondition(v)
	}
	if t.err != nil {
		return false, &expr.Explanation{Source: clean(strings.TrimSpace(v.Text)), Error: t.err.Msg}, false, t.err
	}
	if t.cond.UsesStatus() {
		value, x, err := expr.Explain(t.cond, env, clean)
		if err != nil {
			return false, x, false, v.exprError(err, t.base)
		}
		return expr.Truthy(value), x, false, nil
	}
	first, err := implicitSuccess(v, env)
	if err != nil {
		return false, nil, true, err
	}
	success := &expr.Explanation{Source: "success()", Value: expr.String(first), Truthy: first}
	source := clean(strings.TrimSpace(t.cond.Source()))
	if r := []rune(source); len(r) > 160 {
		source = string(r[:159]) + "…"
	}
	x = &expr.Explanation{Source: "success() && (" + source + ")", Value: "false", Parts: []*expr.Explanation{success}}
	if !first {
		x.Parts = append(x.Parts, &expr.Explanation{Source: source, Skipped: true})
		return false, x, true, nil
	}
	value, rest, err := expr.Explain(t.cond, env, clean)
	x.Parts = append(x.Parts, rest)
	x.Value, x.Truthy = rest.Value, rest.Truthy
	if err != nil {
		return false, x, true, v.exprError(err, t.base)
	}
	return expr.Truthy(value), x, true, nil
}
