package expr

import (
	"slices"
	"strings"
)

// Names says which names there are beside the built-in functions. A nil field
// leaves its kind unchecked until evaluation.
type Names struct {
	// Context reports whether there is a context of this lower-case name.
	Context func(name string) bool
	// Function gives the argument counts of a function by lower-case name;
	// maximum < 0: no limit.
	Function func(name string) (minimum, maximum int, ok bool)
}

func (p *parser) checkFunction(t token) *Error {
	if _, _, ok := p.arity(strings.ToLower(p.text(t))); ok {
		return nil
	}
	err := errorAt(p.src, t.start, t.end-t.start, "Unrecognized function: '%s'", p.text(t))
	if near := nearest(p.text(t), functionNames()); near != "" {
		err.Hint = "did you mean " + near + "?"
	} else {
		err.Hint = "the functions are " + strings.Join(functionNames(), ", ")
	}
	return err
}

func (p *parser) checkContext(t token) *Error {
	if p.names.Context == nil || p.names.Context(strings.ToLower(p.text(t))) {
		return nil
	}
	return unknownContext(p.src, t.start, t.end, p.names.Context)
}

func unknownContext(src string, start, end int, known func(string) bool) *Error {
	name := src[start:end]
	err := errorAt(src, start, end-start, "Unrecognized named-value: '%s'", name)
	contexts := slices.DeleteFunc(contextNames(), func(c string) bool { return !known(c) })
	if near := nearest(name, contexts); near != "" {
		err.Hint = "did you mean " + near + "?"
	} else if len(contexts) > 0 {
		err.Hint = "the contexts here are " + strings.Join(contexts, ", ") + "; a text is written in single quotes"
	}
	return err
}

func contextNames() []string {
	return []string{"github", "env", "vars", "job", "jobs", "steps", "runner", "secrets", "strategy", "matrix", "needs", "inputs", "budget"}
}

// arity returns the argument counts of a function by lower-case name.
func (p *parser) arity(name string) (minimum, maximum int, ok bool) {
	if b := builtins(name); b.call != nil {
		return b.minimum, b.maximum, true
	}
	if p.names.Function != nil {
		return p.names.Function(name)
	}
	return runFunctionArity(name)
}

func (p *parser) checkArguments(name token, count int) *Error {
	lower := strings.ToLower(p.text(name))
	minimum, maximum, _ := p.arity(lower)
	problem := ""
	switch {
	case count < minimum:
		problem = "Too few parameters supplied"
	case maximum >= 0 && count > maximum:
		problem = "Too many parameters supplied"
	case lower == "case" && count%2 == 0:
		problem = "Even number of parameters supplied, requires an odd number of parameters"
	default:
		return nil
	}
	err := errorAt(p.src, name.start, name.end-name.start, "%s: '%s'", problem, p.text(name))
	err.Hint = usage(lower)
	return err
}
