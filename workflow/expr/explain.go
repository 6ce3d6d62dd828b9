package expr

import (
	"fmt"
	"strings"
)

// Explanation is how a part of an expression came to its value.
type Explanation struct {
	Source string // of this part, as written
	// Value is written as in an expression: 'text', 1, true, null; of a mapping or
	// a long list, how much is in it. Empty where there was no value.
	Value  string
	Truthy bool
	// Skipped says that the part was not evaluated: the parts before it had
	// decided, or failed.
	Skipped bool
	Error   string // why it has no value
	// Parts are those whose values made this one. A literal is none, nor are the
	// steps of a path such as github.event.action.
	Parts []*Explanation
	// More counts the parts left out at the end.
	More int
}

// The bounds of an Explanation.
const (
	explainNodes = 100 // in the tree
	explainText  = 160 // characters of a source or value
)

// Explain evaluates the expression as Eval does, and tells how it came to its
// value. clean, where not nil, is given every text before it is cut, to take
// secrets out.
func Explain(e *Expr, env Env, clean func(string) string) (Value, *Explanation, error) {
	if clean == nil {
		clean = func(s string) string { return s }
	}
	x := explainer{src: e.src, clean: clean, values: map[*node]Value{}}
	v, err := e.evalTraced(env, x.values)
	if e.root == nil {
		return v, &Explanation{Value: x.show(v)}, nil
	}
	x.err = err
	tree := x.explain(e.root)
	if err != nil {
		return nil, tree, err
	}
	return v, tree, nil
}

type explainer struct {
	src    string
	clean  func(string) string
	values map[*node]Value // of what was evaluated without an error
	err    *Error
	nodes  int
}

func (x *explainer) explain(n *node) *Explanation {
	x.nodes++
	out := &Explanation{Source: x.text(x.source(n))}
	parts := n.parts(nil)
	for i, part := range parts {
		if x.nodes >= explainNodes {
			out.More = len(parts) - i
			break
		}
		out.Parts = append(out.Parts, x.explain(part))
	}
	v, ok := x.values[n]
	switch {
	case ok:
		out.Value, out.Truthy = x.show(v), Truthy(v)
	case x.err != nil && n.start <= x.err.Offset && x.err.Offset < n.end && !x.blamed(out.Parts):
		out.Error = x.text(x.err.Message)
	default:
		out.Skipped = !x.blamed(out.Parts)
	}
	return out
}

// source is the text of n. A node knows nothing of the parentheses around its
// outermost operands: "(a || b) && c" begins at a.
func (x *explainer) source(n *node) string {
	start, end := n.start, n.end
	opened, closed := unmatched(x.src[start:end])
	for at := end; opened > 0 && at < len(x.src); at++ {
		if x.src[at] == ')' {
			end, opened = at+1, opened-1
		}
	}
	for at := start - 1; closed > 0 && at >= 0; at-- {
		if x.src[at] == '(' {
			start, closed = at, closed-1
		}
	}
	return x.src[start:end]
}

// unmatched counts the parentheses without their other half, outside of strings.
func unmatched(text string) (opened, closed int) {
	quoted := false
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '(':
			opened++
		case c == ')' && opened > 0:
			opened--
		case c == ')':
			closed++
		}
	}
	return opened, closed
}

// blamed says whether the error is that of one of the parts.
func (x *explainer) blamed(parts []*Explanation) bool {
	for _, p := range parts {
		if p.Error != "" || x.blamed(p.Parts) {
			return true
		}
	}
	return false
}

// parts are the nodes below n that are worth a line of their own.
func (n *node) parts(found []*node) []*node {
	for _, a := range n.args {
		switch {
		case a.op == opLiteral, a.op == opWildcard:
		case n.op == opIndex && (a.op == opContext || a.op == opIndex) && a == n.args[0]:
			found = a.parts(found) // the path up to here
		default:
			found = append(found, a)
		}
	}
	return found
}

func (x *explainer) show(v Value) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "'" + strings.ReplaceAll(x.text(v), "'", "''") + "'"
	case *Array:
		return x.list(v)
	case *Object:
		return fmt.Sprintf("a mapping of %d", v.Len())
	}
	return x.text(String(v))
}

// list writes a short list out, such as that of needs.*.result.
func (x *explainer) list(v *Array) string {
	const most = 10
	items := make([]string, 0, most)
	for _, item := range v.Items {
		if len(items) == most || !isPrimitive(item) {
			return fmt.Sprintf("a list of %d", len(v.Items))
		}
		items = append(items, x.show(item))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// text is s on one line and not too long. It is cleaned first: half a secret
// would not be found.
func (x *explainer) text(s string) string {
	s = strings.Join(strings.Fields(x.clean(s)), " ")
	if r := []rune(s); len(r) > explainText {
		return string(r[:explainText-1]) + "…"
	}
	return s
}
