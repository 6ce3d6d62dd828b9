package expr

import "strings"

// builtinFunc evaluates a call of a built-in function; it evaluates the
// arguments itself, since some of them are evaluated only when needed.
type builtinFunc func(e *evaluation, n *node, level int) (Value, *Error)

type builtin struct {
	minimum, maximum int
	call             builtinFunc
}

const maxArguments = 255

// builtins returns the function of a lower-case name; its call is nil when there
// is none.
func builtins(name string) builtin {
	switch name {
	case "case":
		return builtin{3, maxArguments, callCase}
	case "contains":
		return builtin{2, 2, callContains}
	case "endswith":
		return builtin{2, 2, callEndsWith}
	case "format":
		return builtin{1, maxArguments, callFormat}
	case "fromjson":
		return builtin{1, 1, callFromJSON}
	case "join":
		return builtin{1, 2, callJoin}
	case "startswith":
		return builtin{2, 2, callStartsWith}
	case "tojson":
		return builtin{1, 1, callToJSON}
	}
	return builtin{}
}

// runFunctionArity knows the functions that depend on the run. A job's if may
// name jobs in success and failure.
func runFunctionArity(name string) (minimum, maximum int, ok bool) {
	switch name {
	case "always", "cancelled":
		return 0, 0, true
	case "success", "failure":
		return 0, -1, true
	case "hashfiles":
		return 1, maxArguments, true
	}
	return 0, 0, false
}

func functionNames() []string {
	return []string{
		"contains", "startsWith", "endsWith", "format", "join", "toJSON", "fromJSON", "hashFiles",
		"case", "success", "failure", "always", "cancelled",
	}
}

func usage(name string) string {
	switch name {
	case "case":
		return "write case(condition, value, …, default)"
	case "contains":
		return "write contains(list or text, item)"
	case "startswith":
		return "write startsWith(text, beginning)"
	case "endswith":
		return "write endsWith(text, end)"
	case "format":
		return "write format('{0} {1}', a, b)"
	case "fromjson":
		return "write fromJSON(text)"
	case "tojson":
		return "write toJSON(value)"
	case "join":
		return "write join(list, separator)"
	case "hashfiles":
		return "write hashFiles('pattern', …)"
	}
	return "write " + name + "()"
}

func callContains(e *evaluation, n *node, level int) (Value, *Error) {
	left, err := e.eval(n.args[0], level+1)
	if err != nil {
		return nil, err
	}
	list, isList := left.(*Array)
	if isList && len(list.Items) == 0 || !isList && !isPrimitive(left) {
		return false, nil
	}
	right, err := e.eval(n.args[1], level+1)
	if err != nil {
		return nil, err
	}
	if !isList {
		return isPrimitive(right) && containsFold(String(left), String(right)), nil
	}
	for _, item := range list.Items {
		if Equal(right, item) {
			return true, nil
		}
	}
	return false, nil
}

func callStartsWith(e *evaluation, n *node, level int) (Value, *Error) {
	return e.affix(n, level, hasPrefixFold)
}

func callEndsWith(e *evaluation, n *node, level int) (Value, *Error) {
	return e.affix(n, level, hasSuffixFold)
}

func (e *evaluation) affix(n *node, level int, has func(s, affix string) bool) (Value, *Error) {
	left, err := e.eval(n.args[0], level+1)
	if err != nil {
		return nil, err
	}
	if !isPrimitive(left) {
		return false, nil
	}
	right, err := e.eval(n.args[1], level+1)
	if err != nil {
		return nil, err
	}
	return isPrimitive(right) && has(String(left), String(right)), nil
}

func callJoin(e *evaluation, n *node, level int) (Value, *Error) {
	items, err := e.eval(n.args[0], level+1)
	if err != nil {
		return nil, err
	}
	list, ok := items.(*Array)
	if !ok {
		if isPrimitive(items) {
			return String(items), nil
		}
		return "", nil
	}
	separator := ","
	if len(list.Items) > 1 && len(n.args) > 1 {
		v, err := e.eval(n.args[1], level+1)
		if err != nil {
			return nil, err
		}
		if isPrimitive(v) {
			separator = String(v)
		}
	}
	out := e.builder(n)
	for i, item := range list.Items {
		if i > 0 {
			out.add(separator)
		}
		out.add(String(item))
	}
	return out.result()
}

func callCase(e *evaluation, n *node, level int) (Value, *Error) {
	last := len(n.args) - 1
	for i := 0; i < last; i += 2 {
		predicate, err := e.eval(n.args[i], level+1)
		if err != nil {
			return nil, err
		}
		met, ok := predicate.(bool)
		if !ok {
			err := e.fail(n.args[i], "case predicate must evaluate to a boolean value")
			err.Hint = "this one is of kind " + kindOf(predicate).String() + "; compare it with something"
			return nil, err
		}
		if met {
			return e.eval(n.args[i+1], level+1)
		}
	}
	return e.eval(n.args[last], level+1)
}

func callToJSON(e *evaluation, n *node, level int) (Value, *Error) {
	v, err := e.eval(n.args[0], level+1)
	if err != nil {
		return nil, err
	}
	out := e.builder(n)
	writeJSON(out, v, 0)
	return out.result()
}

func callFromJSON(e *evaluation, n *node, level int) (Value, *Error) {
	v, err := e.eval(n.args[0], level+1)
	if err != nil {
		return nil, err
	}
	out, jsonErr := parseJSON(String(v))
	if jsonErr != nil {
		err := e.fail(n, "Error parsing fromJson: %s", jsonErr)
		if v == nil || v == "" {
			err.Hint = "the text is empty: does the output or input it comes from exist?"
		}
		return nil, err
	}
	return out, nil
}

// builder makes a string and stops growing when the evaluation's memory is used
// up, so that a small expression can not make a huge text.
type builder struct {
	strings.Builder
	e      *evaluation
	node   *node
	used   int
	failed bool
}

func (e *evaluation) builder(n *node) *builder { return &builder{e: e, node: n} }

func (b *builder) add(s string) {
	b.used += stringBytes(s)
	if b.failed || b.used > b.e.memory.limit {
		b.failed = true
		return
	}
	b.WriteString(s)
}

func (b *builder) result() (Value, *Error) {
	if b.failed {
		return nil, b.e.outOfMemory(b.node)
	}
	return b.String(), nil
}
