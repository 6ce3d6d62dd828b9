package expr

import "strings"

// Limits of one expression, as in GitHub's runner.
const (
	MaxLength = 21000 // UTF-16 units
	MaxDepth  = 50    // levels of the tree
)

// Expr is a parsed expression. It is immutable and safe for concurrent use.
type Expr struct {
	src  string
	base int
	root *node // nil for an empty expression, which is null
}

// Source returns the text of the expression.
func (e *Expr) Source() string { return e.src }

// Base returns where Source begins in the template it was parsed from, in
// bytes; 0 for what Parse returned.
func (e *Expr) Base() int { return e.base }

type operation int

const (
	opLiteral operation = iota
	opWildcard
	opContext
	opCall
	opIndex
	opNot
	opAnd
	opOr
	opEqual
	opNotEqual
	opLess
	opLessEqual
	opGreater
	opGreaterEqual
)

type node struct {
	op       operation
	value    Value  // of a literal
	name     string // lower-case: of a context or function
	folded   string // of a literal string as a key
	args     []*node
	builtin  builtinFunc // nil: the caller's
	start    int
	end      int
	depth    int
	isString bool
}

// Parse parses one expression, without the ${{ }}. The functions that depend on
// the run (success, failure, always, cancelled, hashFiles) are known to it;
// contexts are not checked. An empty expression is null.
func Parse(src string) (*Expr, error) { return ParseWith(src, Names{}) }

// ParseWith is Parse for a place where only certain names stand: an unknown
// context, and a function that is not built in and not in names, are errors
// wherever they are in the expression. With names.Function the functions that
// depend on the run are only those it gives.
func ParseWith(src string, names Names) (*Expr, error) {
	root, err := parse(src, names)
	if err != nil {
		return nil, err
	}
	return &Expr{src: src, root: root}, nil
}

func parse(src string, names Names) (*node, *Error) {
	if len(src) > MaxLength && utf16Len(src) > MaxLength {
		return nil, &Error{Message: "Exceeded max expression length 21000", Expression: src}
	}
	p := parser{lexer: lexer{src: src}, names: names}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.token.kind == tokenNone {
		return nil, nil
	}
	root, err := p.binary(0)
	if err != nil {
		return nil, err
	}
	if root.depth > MaxDepth {
		return nil, &Error{
			Message: "Exceeded max expression depth 50", Expression: src,
			Hint: "build it in parts: put one in env or in an output and use that",
		}
	}
	return root, nil
}

type parser struct {
	lexer
	names  Names
	token  token // the one to be looked at
	before token // the one before it
}

func (p *parser) advance() *Error {
	t, err := p.next()
	if err != nil {
		return err
	}
	p.before, p.token = p.token, t
	switch t.kind {
	case tokenFunction:
		return p.checkFunction(t)
	case tokenContext:
		return p.checkContext(t)
	}
	return nil
}

func (p *parser) text(t token) string { return p.src[t.start:t.end] }

func (p *parser) unexpectedEnd() *Error {
	t := p.before
	err := errorAt(p.src, t.start, t.end-t.start, "Unexpected end of expression: '%s'", p.text(t))
	if n := len(p.unclosed); n > 0 {
		err.Hint = "a " + map[tokenKind]string{
			tokenStartIndex: "[", tokenStartGroup: "(", tokenStartParameters: "(",
		}[p.unclosed[n-1]] + " is not closed"
	}
	return err
}

type binaryOperator struct {
	op         operation
	precedence int
}

func operatorOf(text string) binaryOperator {
	switch text {
	case "||":
		return binaryOperator{opOr, 1}
	case "&&":
		return binaryOperator{opAnd, 2}
	case "==":
		return binaryOperator{opEqual, 3}
	case "!=":
		return binaryOperator{opNotEqual, 3}
	case "<":
		return binaryOperator{opLess, 4}
	case "<=":
		return binaryOperator{opLessEqual, 4}
	case ">":
		return binaryOperator{opGreater, 4}
	case ">=":
		return binaryOperator{opGreaterEqual, 4}
	}
	return binaryOperator{}
}

// binary parses operators that bind tighter than the given precedence; all are
// left-associative.
func (p *parser) binary(above int) (*node, *Error) {
	left, err := p.unary()
	if err != nil {
		return nil, err
	}
	for p.token.kind == tokenOperator {
		operator := operatorOf(p.text(p.token))
		if operator.precedence <= above {
			break
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
		right, err := p.binary(operator.precedence)
		if err != nil {
			return nil, err
		}
		left = combine(operator.op, left, right)
	}
	return left, nil
}

// combine makes one level of a chain of && or of ||, also through parentheses,
// which is what the depth limit counts.
func combine(op operation, left, right *node) *node {
	var args []*node
	for _, side := range []*node{left, right} {
		if (op == opAnd || op == opOr) && side.op == op {
			args = append(args, side.args...)
		} else {
			args = append(args, side)
		}
	}
	return newNode(op, left.start, right.end, args...)
}

func newNode(op operation, start, end int, args ...*node) *node {
	n := &node{op: op, start: start, end: end, args: args}
	n.measure()
	return n
}

func (n *node) measure() {
	n.depth = 1
	for _, a := range n.args {
		n.depth = max(n.depth, a.depth+1)
	}
}

func (p *parser) unary() (*node, *Error) {
	if p.token.kind != tokenOperator { // only "!" may stand here
		return p.postfix()
	}
	start := p.token.start
	if err := p.advance(); err != nil {
		return nil, err
	}
	operand, err := p.unary()
	if err != nil {
		return nil, err
	}
	return newNode(opNot, start, operand.end, operand), nil
}

func (p *parser) postfix() (*node, *Error) {
	left, err := p.primary()
	if err != nil {
		return nil, err
	}
	for {
		bracket := p.token.kind == tokenStartIndex
		if !bracket && p.token.kind != tokenDereference {
			return left, nil
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
		var index *node
		if bracket {
			index, err = p.binary(0)
		} else {
			index, err = p.primary()
		}
		if err != nil {
			return nil, err
		}
		end := index.end
		if bracket {
			end = p.token.end
			if err := p.close(); err != nil {
				return nil, err
			}
		}
		left = newNode(opIndex, left.start, end, left, index)
	}
}

// close passes the closing token that the lexer has found legal, if there is
// one.
func (p *parser) close() *Error {
	if p.token.kind == tokenNone {
		return p.unexpectedEnd()
	}
	return p.advance()
}

func (p *parser) primary() (*node, *Error) {
	t := p.token
	switch t.kind {
	case tokenNone:
		return nil, p.unexpectedEnd()
	case tokenStartGroup:
		if err := p.advance(); err != nil {
			return nil, err
		}
		inner, err := p.binary(0)
		if err != nil {
			return nil, err
		}
		if err := p.close(); err != nil {
			return nil, err
		}
		return inner, nil
	case tokenFunction:
		return p.call()
	}
	n := newNode(opLiteral, t.start, t.end)
	switch t.kind {
	case tokenLiteral:
		n.value = t.value
	case tokenProperty:
		n.value = p.text(t)
	case tokenContext:
		n.op, n.name = opContext, strings.ToLower(p.text(t))
	case tokenWildcard:
		n.op, n.value = opWildcard, "*"
	}
	if s, ok := n.value.(string); ok {
		n.folded, n.isString = foldKey(s), n.op == opLiteral
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	return n, nil
}

func (p *parser) call() (*node, *Error) {
	name := p.token
	if err := p.advance(); err != nil { // to the "(" that made it a function
		return nil, err
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	n := newNode(opCall, name.start, name.end)
	n.name = strings.ToLower(p.text(name))
	for p.token.kind != tokenEndParameters {
		arg, err := p.binary(0)
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, arg)
		switch p.token.kind {
		case tokenNone:
			return nil, p.unexpectedEnd()
		case tokenSeparator:
			if err := p.advance(); err != nil {
				return nil, err
			}
		}
	}
	if err := p.checkArguments(name, len(n.args)); err != nil {
		return nil, err
	}
	n.builtin = builtins(n.name).call
	n.end = p.token.end
	n.measure()
	if err := p.advance(); err != nil {
		return nil, err
	}
	return n, nil
}
