package expr

// Ref is a use of a context. Its path goes as far as it is written out: a
// wildcard is "*", and an index that has to be evaluated ends it.
type Ref struct {
	Name   string // lower-case
	Path   []string
	Offset int // bytes from the beginning of the expression's Source
	Length int // bytes, of the name and the path
}

// Call is a call of a function.
type Call struct {
	Name   string // lower-case
	Args   int
	Offset int // bytes from the beginning of the expression's Source
	Length int // bytes, of the name
}

// Refs lists the uses of contexts in the order they are written.
func (e *Expr) Refs() []Ref {
	var refs []Ref
	e.root.refs(&refs)
	return refs
}

func (n *node) refs(refs *[]Ref) {
	if n == nil {
		return
	}
	var chain []*node // the indexes from n down to what is indexed
	for at := n; ; at = at.args[0] {
		if at.op == opContext {
			*refs = append(*refs, refOf(at, chain))
			break
		}
		if at.op != opIndex {
			for _, a := range at.args {
				a.refs(refs)
			}
			break
		}
		chain = append(chain, at)
	}
	for i := len(chain) - 1; i >= 0; i-- {
		chain[i].args[1].refs(refs)
	}
}

func refOf(context *node, chain []*node) Ref {
	r := Ref{Name: context.name, Offset: context.start, Length: context.end - context.start}
	for i := len(chain) - 1; i >= 0; i-- {
		index := chain[i].args[1]
		if index.op != opLiteral && index.op != opWildcard {
			break
		}
		r.Path = append(r.Path, String(index.value))
		r.Length = chain[i].end - context.start
	}
	return r
}

// Calls lists the calls of functions in the order they are written.
func (e *Expr) Calls() []Call {
	var calls []Call
	e.root.walk(func(n *node) {
		if n.op == opCall {
			calls = append(calls, Call{Name: n.name, Args: len(n.args), Offset: n.start, Length: len(n.name)})
		}
	})
	return calls
}

// UsesStatus reports whether the expression calls success, failure, always or
// cancelled anywhere, so that no success() is to be put before it.
func (e *Expr) UsesStatus() bool {
	uses := false
	e.root.walk(func(n *node) {
		if n.op == opCall {
			switch n.name {
			case "success", "failure", "always", "cancelled":
				uses = true
			}
		}
	})
	return uses
}

func (n *node) walk(visit func(*node)) {
	if n == nil {
		return
	}
	visit(n)
	for _, a := range n.args {
		a.walk(visit)
	}
}

// IsString reports whether the expression is one string literal and nothing
// else.
func (e *Expr) IsString() bool {
	if e.root == nil || e.root.op != opLiteral {
		return false
	}
	_, ok := e.root.value.(string)
	return ok
}
