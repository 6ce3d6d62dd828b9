package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// node is one schema. The zero node takes everything.
type node struct {
	rules []rule
	same  []*node // the schemas that rules asks of the same value
}

// rule checks one keyword.
type rule func(c *check, v any, at *place)

// compiler turns the schema's document into nodes.
type compiler struct {
	root    map[string]any
	draft   int
	nodes   map[string]*node  // by JSON pointer
	anchors map[string]string // JSON pointers by name
}

var drafts = map[string]int{
	"http://json-schema.org/draft-04/schema":       4,
	"http://json-schema.org/draft-06/schema":       6,
	"http://json-schema.org/draft-07/schema":       7,
	"https://json-schema.org/draft/2019-09/schema": 2019,
	"https://json-schema.org/draft/2020-12/schema": 2020,
}

func compile(root map[string]any) (*node, error) {
	c := &compiler{root: root, draft: 2020, nodes: map[string]*node{}, anchors: map[string]string{}}
	if declared, ok := root["$schema"]; ok {
		name, _ := declared.(string)
		name = strings.TrimSuffix(strings.Replace(name, "https://json-schema.org/draft-", "http://json-schema.org/draft-", 1), "#")
		if c.draft, ok = drafts[name]; !ok {
			return nil, fmt.Errorf("$schema %v: expected a draft from http://json-schema.org/draft-04/schema to https://json-schema.org/draft/2020-12/schema", declared)
		}
	}
	c.findAnchors(root, "")
	n, err := c.schema(root, "")
	if err != nil {
		return nil, err
	}
	return n, c.refuseLoops()
}

// findAnchors looks at everything, schema or not: a name costs nothing.
func (c *compiler) findAnchors(v any, pointer string) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range []string{"$anchor", "$dynamicAnchor"} {
			if name, ok := v[key].(string); ok {
				c.anchors[name] = pointer
			}
		}
		for key, item := range v {
			c.findAnchors(item, pointer+"/"+escape(key))
		}
	case []any:
		for i, item := range v {
			c.findAnchors(item, pointer+"/"+strconv.Itoa(i))
		}
	}
}

// schema compiles what stands at pointer, once.
func (c *compiler) schema(v any, pointer string) (*node, error) {
	if n := c.nodes[pointer]; n != nil {
		return n, nil
	}
	n := &node{}
	c.nodes[pointer] = n // before its parts: they may refer to it
	switch v := v.(type) {
	case bool:
		if !v {
			n.rules = append(n.rules, func(c *check, v any, at *place) { c.problem(at, "nothing is allowed here") })
		}
		return n, nil
	case map[string]any:
		if ref, ok := v["$ref"]; ok && c.draft < 2019 {
			v = map[string]any{"$ref": ref} // what stands beside it does not count
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			k := &keyword{compiler: c, node: n, siblings: v, name: name, value: v[name], pointer: pointer + "/" + escape(name)}
			if err := k.compile(); err != nil {
				return nil, err
			}
		}
		return n, nil
	}
	return nil, fmt.Errorf("%s: expected a schema (an object, true or false), got %s", orRoot(pointer), typeOf(v))
}

// reference is the schema that a $ref names.
func (c *compiler) reference(ref, from string) (*node, error) {
	document, fragment, _ := strings.Cut(ref, "#")
	id, _ := c.root["$id"].(string)
	if document != "" && document != strings.TrimSuffix(id, "#") {
		return nil, fmt.Errorf("%s: %q: only references inside the schema (#/$defs/…) are followed", from, ref)
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return nil, fmt.Errorf("%s: %q is not a reference", from, ref)
	}
	pointer := fragment
	if fragment != "" && fragment[0] != '/' {
		ok := false
		if pointer, ok = c.anchors[fragment]; !ok {
			return nil, fmt.Errorf("%s: nothing is called %q", from, ref)
		}
	}
	target, canonical := any(c.root), ""
	for key := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		ok := false
		switch at := target.(type) {
		case map[string]any:
			target, ok = at[key]
		case []any:
			i, err := strconv.Atoi(key)
			if ok = err == nil && i >= 0 && i < len(at); ok {
				target = at[i]
			}
		}
		if !ok {
			return nil, fmt.Errorf("%s: nothing is at %q", from, ref)
		}
		canonical += "/" + escape(key)
	}
	return c.schema(target, canonical)
}

// refuseLoops finds a schema that asks itself of the same value, for ever.
func (c *compiler) refuseLoops() error {
	const open, done = 1, 2
	state := map[*node]int{}
	var visit func(n *node) bool
	visit = func(n *node) bool {
		switch state[n] {
		case open:
			return false
		case done:
			return true
		}
		state[n] = open
		for _, next := range n.same {
			if !visit(next) {
				return false
			}
		}
		state[n] = done
		return true
	}
	for _, pointer := range slices.Sorted(maps.Keys(c.nodes)) {
		if !visit(c.nodes[pointer]) {
			return fmt.Errorf("%s: a $ref leads back to where it stands", orRoot(pointer))
		}
	}
	return nil
}

// keyword is one entry of a schema that is being compiled.
type keyword struct {
	*compiler
	node     *node
	siblings map[string]any
	name     string
	value    any
	pointer  string
}

func (k *keyword) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %s", k.pointer, fmt.Sprintf(format, args...))
}

func (k *keyword) rule(r rule) { k.node.rules = append(k.node.rules, r) }

// on adds a rule for values of one type; others pass.
func on[T any](k *keyword, r func(c *check, v T, at *place)) {
	k.rule(func(c *check, v any, at *place) {
		if v, ok := v.(T); ok {
			r(c, v, at)
		}
	})
}

// compile adds the keyword's rule to its node. A keyword that is none is a note.
func (k *keyword) compile() error {
	switch k.name {
	case "$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties":
		return k.errorf("%s is not supported: use $ref, additionalProperties or items", k.name)
	case "$id":
		if k.pointer != "/$id" {
			return k.errorf("a $id inside the schema is not supported: use $defs and $ref")
		}
	case "$defs", "definitions":
		_, err := k.schemas()
		return err
	case "$ref":
		ref, ok := k.value.(string)
		if !ok {
			return k.errorf("expected text, got %s", typeOf(k.value))
		}
		target, err := k.reference(ref, k.pointer)
		if err != nil {
			return err
		}
		k.inPlace(target)
		k.rule(target.check)
	case "type":
		return k.types()
	case "enum":
		values, ok := k.value.([]any)
		if !ok {
			return k.errorf("expected a list, got %s", typeOf(k.value))
		}
		k.oneOfValues(values)
	case "const":
		k.oneOfValues([]any{k.value})
	case "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return k.number()
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return k.size()
	case "pattern":
		return k.pattern()
	case "required":
		names, err := k.names(k.value)
		if err != nil {
			return err
		}
		on(k, func(c *check, v map[string]any, at *place) { c.required(v, names, at) })
	case "uniqueItems":
		return k.uniqueItems()
	case "items", "prefixItems", "additionalItems":
		return k.items()
	case "contains":
		return k.contains()
	case "properties", "patternProperties", "additionalProperties":
		return k.properties()
	case "propertyNames":
		n, err := k.schema(k.value, k.pointer)
		if err != nil {
			return err
		}
		on(k, func(c *check, v map[string]any, at *place) {
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if problems := c.try(n, name, at); len(problems) > 0 {
					c.problem(at, "the property name %s: %s", quote(name), problems[0])
				}
			}
		})
	case "dependentRequired", "dependentSchemas", "dependencies":
		return k.dependencies()
	case "allOf", "anyOf", "oneOf":
		return k.combination()
	case "not":
		n, err := k.schema(k.value, k.pointer)
		if err != nil {
			return err
		}
		k.inPlace(n)
		k.rule(func(c *check, v any, at *place) {
			if len(c.try(n, v, at)) == 0 {
				c.problem(at, "it is what `not` excludes")
			}
		})
	case "if":
		return k.condition()
	}
	return nil
}

func (k *keyword) inPlace(n *node) { k.node.same = append(k.node.same, n) }

// schemas compiles an object of schemas by name.
func (k *keyword) schemas() (map[string]*node, error) {
	object, ok := k.value.(map[string]any)
	if !ok {
		return nil, k.errorf("expected an object, got %s", typeOf(k.value))
	}
	out := make(map[string]*node, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		n, err := k.schema(object[name], k.pointer+"/"+escape(name))
		if err != nil {
			return nil, err
		}
		out[name] = n
	}
	return out, nil
}

// list compiles a list of schemas.
func (k *keyword) list() ([]*node, error) {
	list, ok := k.value.([]any)
	if !ok || len(list) == 0 {
		return nil, k.errorf("expected a list of schemas, got %s", typeOf(k.value))
	}
	out := make([]*node, len(list))
	for i := range list {
		var err error
		if out[i], err = k.schema(list[i], k.pointer+"/"+strconv.Itoa(i)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (k *keyword) names(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, k.errorf("expected a list of names, got %s", typeOf(v))
	}
	names := make([]string, len(list))
	for i := range list {
		if names[i], ok = list[i].(string); !ok {
			return nil, k.errorf("expected names, got %s", typeOf(list[i]))
		}
	}
	return names, nil
}

// count is a whole number from 0 on.
func (k *keyword) count(v any) (int, error) {
	n, ok := v.(json.Number)
	if ok {
		if r, err := rational(n); err == nil && r.IsInt() && r.Sign() >= 0 && r.Num().IsInt64() {
			return int(r.Num().Int64()), nil
		}
	}
	return 0, k.errorf("expected a whole number from 0 on, got %s", short(v))
}

func (k *keyword) types() error {
	names := []string{}
	if name, ok := k.value.(string); ok {
		names = append(names, name)
	} else {
		var err error
		if names, err = k.names(k.value); err != nil {
			return err
		}
	}
	known := []string{"null", "boolean", "integer", "number", "string", "array", "object"}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return k.errorf("unknown type %q: expected one of %s", name, strings.Join(known, ", "))
		}
	}
	k.rule(func(c *check, v any, at *place) {
		got := typeOf(v)
		if !slices.Contains(names, got) && !(got == "integer" && slices.Contains(names, "number")) {
			c.problem(at, "got %s, want %s", got, strings.Join(names, " or "))
		}
	})
	return nil
}

func (k *keyword) oneOfValues(values []any) {
	wanted, shown := map[string]bool{}, []string{}
	for _, v := range values {
		wanted[string(canonical(nil, v))] = true
		shown = append(shown, short(v))
	}
	k.rule(func(c *check, v any, at *place) {
		form := canonical(nil, v)
		c.compared(len(form))
		if wanted[string(form)] {
			return
		}
		if len(shown) == 1 {
			c.problem(at, "got %s, want %s", short(v), shown[0])
			return
		}
		c.problem(at, "got %s, want one of %s", short(v), strings.Join(shown, ", "))
	})
}

func (k *keyword) pattern() error {
	text, ok := k.value.(string)
	if !ok {
		return k.errorf("expected text, got %s", typeOf(k.value))
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return k.errorf("%v", err)
	}
	on(k, func(c *check, v string, at *place) {
		c.compared(len(v))
		if !re.MatchString(v) {
			c.problem(at, "%s does not match the pattern %s", short(v), quote(text))
		}
	})
	return nil
}

func (k *keyword) condition() error {
	cond, err := k.schema(k.value, k.pointer)
	if err != nil {
		return err
	}
	k.inPlace(cond)
	branch := func(name string) (*node, error) {
		v, ok := k.siblings[name]
		if !ok {
			return &node{}, nil
		}
		return k.schema(v, strings.TrimSuffix(k.pointer, "if")+name)
	}
	then, err1 := branch("then")
	otherwise, err2 := branch("else")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	k.inPlace(then)
	k.inPlace(otherwise)
	k.rule(func(c *check, v any, at *place) {
		if len(c.try(cond, v, at)) == 0 {
			then.check(c, v, at)
		} else {
			otherwise.check(c, v, at)
		}
	})
	return nil
}

func (k *keyword) combination() error {
	nodes, err := k.list()
	if err != nil {
		return err
	}
	k.node.same = append(k.node.same, nodes...)
	if k.name == "allOf" {
		for _, n := range nodes {
			k.rule(n.check)
		}
		return nil
	}
	one := k.name == "oneOf"
	k.rule(func(c *check, v any, at *place) {
		var fit []string
		var why []string
		for i, n := range nodes {
			problems := c.try(n, v, at)
			if len(problems) == 0 {
				fit = append(fit, strconv.Itoa(i))
			} else {
				why = append(why, problems[0])
			}
		}
		switch {
		case len(fit) == 0:
			c.problem(at, "it fits none of %s (%s)", k.name, strings.Join(slices.Compact(why), ", or "))
		case one && len(fit) > 1:
			c.problem(at, "it fits alternatives %s of oneOf, want exactly one", strings.Join(fit, " and "))
		}
	})
	return nil
}
