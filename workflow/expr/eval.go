package expr

import (
	"errors"
	"math"
)

// Eval evaluates the expression. An error is an *Error whose offset counts from
// the beginning of Source.
func (e *Expr) Eval(env Env) (Value, error) {
	v, err := e.eval(env)
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (e *Expr) eval(env Env) (Value, *Error) { return e.evalTraced(env, nil) }

// evalTraced also notes the value of each node in trace, where that is not nil.
func (e *Expr) evalTraced(env Env, trace map[*node]Value) (Value, *Error) {
	if e.root == nil {
		return nil, nil
	}
	limit := env.MaxBytes
	if limit == 0 {
		limit = defaultMaxBytes
	}
	run := evaluation{src: e.src, env: &env, memory: memory{limit: limit}, trace: trace}
	return run.eval(e.root, 0)
}

type evaluation struct {
	src    string
	env    *Env
	memory memory
	trace  map[*node]Value
}

func (e *evaluation) fail(n *node, format string, args ...any) *Error {
	return errorAt(e.src, n.start, n.end-n.start, format, args...)
}

func (e *evaluation) outOfMemory(n *node) *Error {
	return e.fail(n, "The maximum allowed memory size was exceeded while evaluating the following expression: %s", e.src[n.start:n.end])
}

// eval evaluates n, which is level steps below the root.
func (e *evaluation) eval(n *node, level int) (Value, *Error) {
	v, err := e.evalCore(n, level)
	if err != nil {
		return nil, err
	}
	if !e.memory.account(level, v) {
		return nil, e.outOfMemory(n)
	}
	if e.trace != nil {
		e.trace[n] = v
	}
	return v, nil
}

func (e *evaluation) evalCore(n *node, level int) (Value, *Error) {
	switch n.op {
	case opLiteral, opWildcard:
		return n.value, nil
	case opContext:
		return e.context(n)
	case opCall:
		if n.builtin != nil {
			return n.builtin(e, n, level)
		}
		return e.call(n, level)
	case opIndex:
		return e.index(n, level)
	case opNot:
		v, err := e.eval(n.args[0], level+1)
		return !Truthy(v), err
	case opAnd, opOr:
		return e.chain(n, level)
	}
	left, err := e.eval(n.args[0], level+1)
	if err != nil {
		return nil, err
	}
	right, err := e.eval(n.args[1], level+1)
	if err != nil {
		return nil, err
	}
	switch n.op {
	case opEqual:
		return Equal(left, right), nil
	case opNotEqual:
		return !Equal(left, right), nil
	case opLess:
		return less(left, right), nil
	case opLessEqual:
		return Equal(left, right) || less(left, right), nil
	case opGreater:
		return less(right, left), nil
	default:
		return Equal(left, right) || less(right, left), nil
	}
}

// chain gives the first operand that decides, or the last.
func (e *evaluation) chain(n *node, level int) (v Value, err *Error) {
	for _, operand := range n.args {
		v, err = e.eval(operand, level+1)
		if err != nil || Truthy(v) == (n.op == opOr) {
			return v, err
		}
	}
	return v, nil
}

func (e *evaluation) context(n *node) (Value, *Error) {
	if e.env.Context != nil {
		if v, ok := e.env.Context(n.name); ok {
			return v, nil
		}
	}
	known := func(name string) bool {
		if e.env.Context == nil {
			return false
		}
		_, ok := e.env.Context(name)
		return ok
	}
	return nil, unknownContext(e.src, n.start, n.end, known)
}

func (e *evaluation) call(n *node, level int) (Value, *Error) {
	var f Func
	ok := false
	if e.env.Function != nil {
		f, ok = e.env.Function(n.name)
	}
	at := &node{start: n.start, end: n.start + len(n.name)}
	if !ok {
		err := e.fail(at, "Unrecognized function: '%s'", e.src[at.start:at.end])
		err.Hint = "it can not be called here"
		return nil, err
	}
	switch count := len(n.args); {
	case count < f.Min:
		return nil, e.fail(at, "Too few parameters supplied: '%s'", e.src[at.start:at.end])
	case f.Max >= 0 && count > f.Max:
		return nil, e.fail(at, "Too many parameters supplied: '%s'", e.src[at.start:at.end])
	}
	args := make([]Value, len(n.args))
	for i, a := range n.args {
		v, err := e.eval(a, level+1)
		if err != nil {
			return nil, err
		}
		args[i] = v
	}
	v, err := f.Call(args)
	if err != nil {
		var own *Error
		if errors.As(err, &own) {
			return nil, e.fail(n, "%s", own.Message)
		}
		return nil, e.fail(n, "%s", err)
	}
	return v, nil
}

// index applies [ ] or a dot. What is no collection gives null, or an empty list
// for a wildcard, and the index is then not evaluated.
func (e *evaluation) index(n *node, level int) (Value, *Error) {
	left, err := e.eval(n.args[0], level+1)
	if err != nil {
		return nil, err
	}
	of := n.args[1]
	if isPrimitive(left) {
		if of.op == opWildcard {
			return &Array{filtered: true}, nil
		}
		return nil, nil
	}
	if of.op == opWildcard {
		return e.wildcard(n, left)
	}
	if object, ok := left.(*Object); ok && of.isString {
		return object.literal(of), nil
	}
	key, err := e.eval(of, level+1)
	if err != nil {
		return nil, err
	}
	if list, ok := left.(*Array); ok && list.filtered {
		out := &Array{filtered: true}
		for _, item := range list.Items {
			if v, ok := element(item, key); ok {
				out.Items = append(out.Items, v)
			}
		}
		return out, nil
	}
	v, _ := element(left, key)
	return v, nil
}

// literal finds the value of a key that was folded when it was parsed.
func (o *Object) literal(key *node) Value {
	var v Value
	if o.sensitive {
		v, _ = o.getFolded(key.value.(string))
	} else {
		v, _ = o.getFolded(key.folded)
	}
	return v
}

// wildcard gives all values of a collection; of what a wildcard gave, those of
// each of its collections.
func (e *evaluation) wildcard(n *node, left Value) (Value, *Error) {
	out := &Array{filtered: true}
	take := func(v Value) {
		switch v := v.(type) {
		case *Object:
			out.Items = append(out.Items, v.values...)
		case *Array:
			out.Items = append(out.Items, v.Items...)
		}
	}
	list, ok := left.(*Array)
	if !ok || !list.filtered {
		take(left)
		return out, nil
	}
	for _, item := range list.Items {
		take(item)
		if len(out.Items)*pointerBytes > e.memory.limit {
			return nil, e.outOfMemory(n)
		}
	}
	return out, nil
}

// element finds one value of a collection: by name in a mapping, by number in a
// list.
func element(of, key Value) (Value, bool) {
	switch of := of.(type) {
	case *Object:
		if isPrimitive(key) {
			return of.Get(String(key))
		}
	case *Array:
		f := Number(key)
		if f >= 0 && f < math.MaxInt32 && int(f) < len(of.Items) {
			return of.Items[int(f)], true
		}
	}
	return nil, false
}

const (
	defaultMaxBytes = 10 << 20
	objectBytes     = 24
	stringOverhead  = 26
	pointerBytes    = 8
)

// memory counts what the values of one evaluation take, level by level: when a
// level has its value, what the levels below it held is free again.
type memory struct {
	limit, total, deepest int
	level                 [MaxDepth + 1]int
}

func (m *memory) account(level int, v Value) (ok bool) {
	if isPrimitive(v) {
		for ; m.deepest > level; m.deepest-- {
			m.total -= m.level[m.deepest]
			m.level[m.deepest] = 0
		}
	}
	m.deepest = max(m.deepest, level)
	size := objectBytes
	switch v := v.(type) {
	case string:
		size = stringBytes(v)
	case *Array:
		if v.filtered {
			size += pointerBytes * len(v.Items)
		}
	}
	m.level[level] += size
	m.total += size
	return m.total <= m.limit
}

func stringBytes(s string) int {
	units := len(s)
	if units > 4096 { // below, the difference to UTF-16 decides nothing
		units = utf16Len(s)
	}
	return stringOverhead + 2*units
}
