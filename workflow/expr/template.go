package expr

import (
	"strings"
	"unicode"
)

const (
	openExpression  = "${{"
	closeExpression = "}}"
)

// Template is a text with expressions in ${{ }}. It is immutable and safe for
// concurrent use.
type Template struct {
	src   string
	parts []part
}

// part is a text, or an expression where expr is not nil.
type part struct {
	text string
	expr *Expr
}

// ParseTemplate parses a text with ${{ }}. The closing }} is not looked for
// inside of strings. An error is an *Error with the offset in s.
func ParseTemplate(s string) (*Template, error) { return ParseTemplateWith(s, Names{}) }

// ParseTemplateWith is ParseTemplate with the names that may stand in it; see
// ParseWith.
func ParseTemplateWith(s string, names Names) (*Template, error) {
	t := &Template{src: s}
	for at := 0; ; {
		open := strings.Index(s[at:], openExpression)
		if open < 0 {
			t.addText(s[at:])
			return t, nil
		}
		open += at
		t.addText(s[at:open])
		start := open + len(openExpression)
		length := expressionLength(s[start:])
		if length < 0 {
			return nil, &Error{
				Offset: open, Length: len(openExpression),
				Message: "The expression is not closed. An unescaped ${{ sequence was found, but the closing }} sequence was not found.",
				Hint:    "close it with }}; a quote that is open hides it",
			}
		}
		e, err := parsePart(s, start, start+length, names)
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, part{expr: e})
		at = start + length + len(closeExpression)
	}
}

func (t *Template) addText(s string) {
	if s != "" {
		t.parts = append(t.parts, part{text: s})
	}
}

func parsePart(s string, start, end int, names Names) (*Expr, error) {
	src := strings.TrimRightFunc(s[start:end], unicode.IsSpace)
	trimmed := strings.TrimLeftFunc(src, unicode.IsSpace)
	if trimmed == "" {
		open := start - len(openExpression)
		return nil, &Error{
			Offset: open, Length: end + len(closeExpression) - open,
			Message: "An expression was expected",
		}
	}
	base := start + len(src) - len(trimmed)
	root, err := parse(trimmed, names)
	if err != nil {
		return nil, err.shifted(base)
	}
	return &Expr{src: trimmed, base: base, root: root}, nil
}

// expressionLength finds the }} that ends the expression s begins with, or -1.
func expressionLength(s string) int {
	inString := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\'':
			inString = !inString
		case !inString && strings.HasPrefix(s[i:], closeExpression):
			return i
		}
	}
	return -1
}

// Static reports whether there is no expression in the template.
func (t *Template) Static() bool {
	for _, p := range t.parts {
		if p.expr != nil {
			return false
		}
	}
	return true
}

// Whole reports whether the template is one expression and nothing else, so that
// Eval keeps the type of its value.
func (t *Template) Whole() bool { return len(t.parts) == 1 && t.parts[0].expr != nil }

// Exprs returns the expressions in the order they are written.
func (t *Template) Exprs() []*Expr {
	var out []*Expr
	for _, p := range t.parts {
		if p.expr != nil {
			out = append(out, p.expr)
		}
	}
	return out
}

// Eval evaluates the template: to the value of its expression where it is Whole,
// to a string otherwise. An error is an *Error with the offset in the template.
func (t *Template) Eval(env Env) (Value, error) {
	if len(t.parts) == 1 {
		if p := t.parts[0]; p.expr == nil {
			return p.text, nil
		}
		return t.parts[0].expr.evalAt(env)
	}
	var out strings.Builder
	limit := env.MaxBytes
	if limit == 0 {
		limit = defaultMaxBytes
	}
	for _, p := range t.parts {
		if p.expr == nil {
			out.WriteString(p.text)
			continue
		}
		v, err := p.expr.evalAt(env)
		if err != nil {
			return nil, err
		}
		out.WriteString(String(v))
		if out.Len() > limit {
			return nil, &Error{Offset: p.expr.base, Length: len(p.expr.src), Message: "The maximum allowed memory size was exceeded"}
		}
	}
	return out.String(), nil
}

func (e *Expr) evalAt(env Env) (Value, error) {
	v, err := e.eval(env)
	if err != nil {
		return nil, err.shifted(e.base)
	}
	return v, nil
}
