package workflow

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// EvalError is a value that cannot be evaluated, at its place in the file.
type EvalError struct {
	File   string // empty where not known
	Pos    Pos
	Length int // characters, at least 1
	Msg    string
	Hint   string
}

// Error says what is wrong; where, and what to do, is shown beside it.
func (e *EvalError) Error() string { return e.Msg }

// Problem is the error as a Problem, of file where the error knows none.
func (e *EvalError) Problem(file string) Problem {
	if e.File != "" {
		file = e.File
	}
	return Problem{
		File: file, Line: max(1, e.Pos.Line), Column: max(1, e.Pos.Column), Length: max(1, e.Length),
		Severity: SeverityError, Rule: "value", Message: e.Msg, Hint: e.Hint,
	}
}

// Problems turns an error of this package's evaluating and decoding functions
// into Problems of file; several joined errors become several.
func Problems(file string, err error) []Problem {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var ps []Problem
		for _, e := range many.Unwrap() {
			ps = append(ps, Problems(file, e)...)
		}
		return ps
	}
	var e *EvalError
	if !errors.As(err, &e) {
		e = &EvalError{Msg: err.Error()}
	}
	return []Problem{e.Problem(file)}
}

// evalErrorf is an error about the whole of v.
func evalErrorf(v *Value, hint, format string, args ...any) *EvalError {
	return &EvalError{File: v.File(), Pos: v.Pos, Length: v.width(), Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// parsedTemplate is a scalar's text after parsing.
type parsedTemplate struct {
	tpl   *expr.Template // nil for a bare condition
	cond  *expr.Expr     // of a condition
	base  int            // bytes before cond in the text
	whole bool
	err   *EvalError
	// literal marks a text that is data: what looks like ${{ }} in it stays.
	literal bool
}

// template gives the parsed text of a scalar that holds ${{; nil where it holds
// none. What Parse has read is parsed already.
func (v *Value) template() *parsedTemplate {
	if v.tpl != nil && v.tpl.literal {
		return nil
	}
	if v.tpl != nil || v.Kind != Scalar || !strings.Contains(v.Text, "${{") {
		return v.tpl
	}
	tpl, err := expr.ParseTemplate(v.Text)
	if err != nil {
		return &parsedTemplate{err: v.exprError(err, 0)}
	}
	return &parsedTemplate{tpl: tpl, whole: tpl.Whole()}
}

// exprError places an error of package expr; base is where its text begins.
func (v *Value) exprError(err error, base int) *EvalError {
	var e *expr.Error
	if !errors.As(err, &e) {
		return &EvalError{File: v.File(), Pos: v.Pos, Length: v.width(), Msg: err.Error()}
	}
	if e.Length == 0 {
		pos, n := v.Pos, v.width()
		if base+e.Offset > 0 {
			pos, n = v.span(base+e.Offset, 1)
		}
		return &EvalError{File: v.File(), Pos: pos, Length: n, Msg: e.Message, Hint: e.Hint}
	}
	pos, n := v.span(base+e.Offset, e.Length)
	return &EvalError{File: v.File(), Pos: pos, Length: n, Msg: e.Message, Hint: e.Hint}
}

// Evaluate gives the value of v: a scalar that is one whole ${{ }} keeps its
// type, a text with ${{ }} in it is put together, what has none is its plain
// value. Mappings become *expr.Object and sequences *expr.Array; nil gives nil.
// Errors are *EvalError. It is safe for concurrent use.
func Evaluate(v *Value, env expr.Env) (expr.Value, error) {
	if v == nil {
		return nil, nil
	}
	switch v.Kind {
	case Sequence:
		items := make([]expr.Value, 0, len(v.Items))
		for _, item := range v.Items {
			x, err := Evaluate(item, env)
			if err != nil {
				return nil, err
			}
			items = append(items, x)
		}
		return &expr.Array{Items: items}, nil
	case Mapping:
		o := expr.NewObject()
		for _, e := range v.Entries {
			if err := e.EvaluateInto(o, env); err != nil {
				return nil, err
			}
		}
		return o, nil
	}
	t := v.template()
	if t == nil {
		return v.Plain, nil
	}
	if t.err != nil {
		return nil, t.err
	}
	x, err := t.tpl.Eval(env)
	if err != nil {
		return nil, v.exprError(err, 0)
	}
	return x, nil
}

// EvaluateInto adds to o what one entry of a mapping gives: its key with its
// value, or, where the key is ${{ insert }}, all that the value holds.
func (e Entry) EvaluateInto(o *expr.Object, env expr.Env) error {
	if e.Key.isInsert() {
		return e.insertInto(o, env)
	}
	name := e.Key.Text
	if e.Key.template() != nil {
		key, err := EvalString(e.Key, env)
		if err != nil {
			return err
		}
		name = key
	}
	x, err := Evaluate(e.Value, env)
	if err != nil {
		return err
	}
	o.Set(name, x)
	return nil
}

// insertInto adds the keys of the mapping that the entry's value gives.
func (e Entry) insertInto(o *expr.Object, env expr.Env) error {
	x, err := Evaluate(e.Value, env)
	if err != nil {
		return err
	}
	inserted, ok := x.(*expr.Object)
	if !ok {
		return evalErrorf(e.Value, "", "expected a mapping to insert, found %s", kindName(x))
	}
	for _, name := range inserted.Keys() {
		item, _ := inserted.Get(name)
		o.Set(name, item)
	}
	return nil
}

// isInsert says whether v, a key, is ${{ insert }}: the value is a mapping whose
// keys stand in its place.
func (v *Value) isInsert() bool {
	text, ok := strings.CutPrefix(strings.TrimSpace(v.Text), "${{")
	if !ok {
		return false
	}
	text, ok = strings.CutSuffix(text, "}}")
	return ok && strings.TrimSpace(text) == "insert"
}

// EvalString is Evaluate for what must be a text; numbers and booleans are
// written as GitHub writes them, nil gives "".
func EvalString(v *Value, env expr.Env) (string, error) {
	x, err := Evaluate(v, env)
	if err != nil {
		return "", err
	}
	return textOf(v, x)
}

func textOf(v *Value, x expr.Value) (string, error) {
	switch x.(type) {
	case *expr.Array, *expr.Object:
		return "", evalErrorf(v, "use toJSON(…) to put it into a text", "expected a text, found %s", kindName(x))
	}
	return expr.String(x), nil
}

// EvalBool is Evaluate for what must be true or false; the texts `true` and
// `false` count as such. nil gives false.
func EvalBool(v *Value, env expr.Env) (bool, error) {
	x, err := Evaluate(v, env)
	if err != nil || v == nil {
		return false, err
	}
	return boolOf(v, x)
}

func boolOf(v *Value, x expr.Value) (bool, error) {
	switch x := x.(type) {
	case bool:
		return x, nil
	case string:
		switch strings.ToLower(x) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
	}
	return false, evalErrorf(v, "write true or false", "expected true or false, found %s", kindName(x))
}

// EvalNumber is Evaluate for what must be a finite number; a text that is a
// number counts as one.
func EvalNumber(v *Value, env expr.Env) (float64, error) {
	x, err := Evaluate(v, env)
	if err != nil {
		return 0, err
	}
	if v == nil {
		return 0, nil
	}
	return numberOf(v, x)
}

func numberOf(v *Value, x expr.Value) (float64, error) {
	n := math.NaN()
	switch x := x.(type) {
	case float64:
		n = x
	case string:
		if strings.TrimSpace(x) != "" {
			n = expr.Number(x)
		}
	}
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, evalErrorf(v, "write a number", "expected a number, found %s", kindName(x))
	}
	return n, nil
}

// maxTimeoutMinutes is a year: more is a slip of the pen.
const maxTimeoutMinutes = 366 * 24 * 60

// EvalTimeout evaluates a `timeout-minutes:`, fractions allowed; nil gives 0,
// which is no timeout.
func EvalTimeout(v *Value, env expr.Env) (minutes float64, err error) {
	if v == nil {
		return 0, nil
	}
	n, err := EvalNumber(v, env)
	if err != nil {
		return 0, err
	}
	if n <= 0 || n > maxTimeoutMinutes {
		return 0, evalErrorf(v, fmt.Sprintf("write minutes above 0 and up to %d; fractions such as 0.5 work", maxTimeoutMinutes), "a timeout cannot be %s minutes", expr.String(n))
	}
	return n, nil
}

// kindName names a value as a person would.
func kindName(x expr.Value) string {
	switch x := x.(type) {
	case nil:
		return "nothing"
	case bool:
		return fmt.Sprintf("the boolean %t", x)
	case float64:
		return "the number " + expr.String(x)
	case *expr.Array:
		return "a list"
	case *expr.Object:
		return "a mapping"
	case string:
		if r := []rune(x); len(r) > 40 {
			return fmt.Sprintf("%q…", string(r[:40]))
		}
		return fmt.Sprintf("%q", x)
	}
	return fmt.Sprintf("a %T", x)
}
