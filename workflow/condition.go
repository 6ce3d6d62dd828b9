package workflow

import (
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// conditionTemplate parses what stands after `if:`, with or without ${{ }}.
func (v *Value) conditionTemplate() *parsedTemplate {
	if v.cond == nil {
		v.cond = parseCondition(v)
	}
	return v.cond
}

func parseCondition(v *Value) *parsedTemplate {
	text := v.Text
	if !strings.Contains(text, "${{") {
		e, err := expr.Parse(text)
		if err != nil {
			return &parsedTemplate{err: v.exprError(err, 0)}
		}
		return &parsedTemplate{cond: e}
	}
	t := v.template()
	switch {
	case t.err != nil:
		return t
	case t.whole && len(t.tpl.Exprs()) == 1:
		e := t.tpl.Exprs()[0]
		return &parsedTemplate{cond: e, base: e.Base(), whole: true}
	}
	return &parsedTemplate{tpl: t.tpl, err: evalErrorf(v, "put the whole condition into one ${{ }}, or write none",
		"text outside ${{ }} makes this condition always true")}
}

// Condition says whether a step or job may run. Without a call of success,
// failure, always or cancelled in it the condition also asks for success();
// nil and an empty text are success() itself. Errors are *EvalError.
func Condition(v *Value, env expr.Env) (bool, error) {
	if v == nil || strings.TrimSpace(v.Text) == "" {
		ok, err := implicitSuccess(v, env)
		return ok, err
	}
	t := v.cond
	if t == nil {
		t = parseCondition(v)
	}
	if t.err != nil {
		return false, t.err
	}
	if !t.cond.UsesStatus() {
		ok, err := implicitSuccess(v, env)
		if err != nil || !ok {
			return false, err
		}
	}
	x, err := t.cond.Eval(env)
	if err != nil {
		return false, v.exprError(err, t.base)
	}
	return expr.Truthy(x), nil
}

func implicitSuccess(v *Value, env expr.Env) (bool, error) {
	if env.Function != nil {
		if f, ok := env.Function("success"); ok {
			x, err := f.Call(nil)
			return err == nil && expr.Truthy(x), err
		}
	}
	e := &EvalError{Msg: "success() is not available here"}
	if v != nil {
		e.Pos, e.Length = v.Pos, v.width()
	}
	return false, e
}
