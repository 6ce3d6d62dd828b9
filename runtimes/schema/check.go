package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxSteps bounds one validation, a second or two of it: a rule is a step, as
	// are bytesAStep that are compared.
	maxSteps   = 10_000_000
	bytesAStep = 8
	// maxProblems is how many are kept; their text is cut anyway.
	maxProblems = 20
)

// check is one validation.
type check struct {
	left     int // steps; below 0: given up
	problems []string
}

func (n *node) check(c *check, v any, at *place) {
	for _, r := range n.rules {
		if c.left--; c.left < 0 {
			return
		}
		r(c, v, at)
	}
}

func (c *check) compared(bytes int) { c.left -= bytes / bytesAStep }

// try is what n finds wrong with v, without it counting.
func (c *check) try(n *node, v any, at *place) []string {
	before := c.problems
	c.problems = nil
	n.check(c, v, at)
	found := c.problems
	c.problems = before
	return found
}

func (c *check) problem(at *place, format string, args ...any) {
	if len(c.problems) >= maxProblems {
		return
	}
	text := fmt.Sprintf(format, args...)
	if pointer := at.String(); pointer != "" {
		c.compared(len(pointer))
		text = pointer + ": " + text
	}
	c.problems = append(c.problems, text)
}

func (c *check) required(v map[string]any, names []string, at *place) {
	for _, name := range names {
		if _, ok := v[name]; !ok {
			c.problem(at, "missing property %s", quote(name))
		}
	}
}

// place is where in the document a value stands; nil is its root.
type place struct {
	up   *place
	name string
	i    int // of an item; -1: name is a property's
}

func (p *place) property(name string) *place { return &place{up: p, name: name, i: -1} }
func (p *place) item(i int) *place           { return &place{up: p, i: i} }

// String is the place as a JSON pointer.
func (p *place) String() string {
	if p == nil {
		return ""
	}
	name := p.name
	if p.i >= 0 {
		name = strconv.Itoa(p.i)
	}
	return p.up.String() + "/" + escape(name)
}

func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func orRoot(pointer string) string {
	if pointer == "" {
		return "the schema"
	}
	return pointer
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case json.Number:
		if r, err := rational(v); err == nil && r.IsInt() {
			return "integer"
		}
	}
	return "number"
}

// canonical appends v's form: equal values have the same.
func canonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case json.Number:
		if r, err := rational(v); err == nil {
			return append(b, r.RatString()...)
		}
		return append(b, v...)
	case string:
		return strconv.AppendQuote(b, v)
	case []any:
		b = append(b, '[')
		for _, item := range v {
			b = append(canonical(b, item), ',')
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = append(strconv.AppendQuote(b, name), ':')
			b = append(canonical(b, v[name]), ',')
		}
		return append(b, '}')
	}
	return fmt.Appendf(b, "%v", v) // null, true, false
}

// quote shows a name or text, cut.
func quote(text string) string {
	const most = 80
	if len(text) > most {
		text = text[:most]
		for !utf8.ValidString(text) && len(text) > most-utf8.UTFMax {
			text = text[:len(text)-1]
		}
		return strconv.Quote(text) + "…"
	}
	return strconv.Quote(text)
}

// short shows a value: a scalar itself, of others the type.
func short(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case json.Number:
		if len(v) > 40 {
			return string(v[:40]) + "…"
		}
		return string(v)
	case nil, bool:
		return string(canonical(nil, v))
	}
	return "an " + typeOf(v)
}
