package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// JSONSchema is a JSON Schema (draft 7, which every editor reads) of workflow
// files, indented and with a line break at its end.
func JSONSchema() []byte {
	definitions := expr.NewObject()
	definitions.Set("expression", object("type", "string", "pattern", `\$\{\{`,
		"description", "An expression: ${{ … }}"))
	var root *expr.Object
	for _, b := range blocks() {
		schema := b.schema()
		if b.name == "workflow" {
			root = schema
			continue
		}
		definitions.Set(definitionName(b.name), schema)
	}
	out := object("$schema", "http://json-schema.org/draft-07/schema#", "title", "herd-runner workflow",
		"description", "A workflow of GitHub Actions steps and coding agents.")
	for _, name := range root.Keys() {
		if v, _ := root.Get(name); name != "description" {
			out.Set(name, v)
		}
	}
	out.Set("definitions", definitions)
	var indented bytes.Buffer
	if err := json.Indent(&indented, expr.AppendJSON(nil, out), "", "  "); err != nil {
		panic(fmt.Sprintf("schema: %v", err)) // AppendJSON writes JSON
	}
	indented.WriteByte('\n')
	return indented.Bytes()
}

// object makes an object of names and values in turn.
func object(pairs ...any) *expr.Object {
	o := expr.NewObject()
	for i := 0; i+1 < len(pairs); i += 2 {
		o.Set(pairs[i].(string), pairs[i+1])
	}
	return o
}

func array[T any](items ...T) *expr.Array {
	a := &expr.Array{Items: make([]expr.Value, 0, len(items))}
	for _, item := range items {
		a.Items = append(a.Items, item)
	}
	return a
}

func definitionName(block string) string { return strings.ReplaceAll(block, " ", "-") }

func (b *block) schema() *expr.Object {
	o := object("type", "object")
	if b.doc != "" {
		o.Set("description", b.doc)
	}
	properties, required := expr.NewObject(), []string{}
	for _, k := range b.keys {
		properties.Set(k.name, k.schema())
		if k.required {
			required = append(required, k.name)
		}
	}
	o.Set("properties", properties)
	if len(required) > 0 {
		o.Set("required", array(required...))
	}
	if enough := enoughKeys(b.name); len(enough) > 0 {
		one := []*expr.Object{}
		for _, name := range enough {
			one = append(one, object("required", array(name)))
		}
		o.Set("anyOf", array(one...))
	}
	if b.free == nil {
		o.Set("additionalProperties", false)
	} else {
		o.Set("additionalProperties", b.free.schema(true))
	}
	return o
}

// enoughKeys lists, for a block that must have one of several keys, which.
func enoughKeys(block string) []string {
	switch block {
	case "step":
		return []string{"run", "prompt", "prompt-file", "uses", "wait", "wait-all", "cancel", "parallel"}
	case "job":
		return []string{"steps", "uses"}
	}
	return nil
}

func (k key) schema() *expr.Object {
	contexts := places()[k.place].contexts
	o := object("description", k.describe(contexts))
	s := k.shape.schema(len(contexts) > 0)
	for _, name := range s.Keys() {
		v, _ := s.Get(name)
		if name == "$ref" { // what stands beside a $ref is not read
			name, v = "anyOf", array(s)
		}
		o.Set(name, v)
	}
	return o
}

func (k key) describe(contexts []string) string {
	d := k.doc
	if k.ours {
		d += " Not a key of GitHub's."
	}
	if k.inert {
		d += " Checked, without effect here."
	}
	if len(contexts) > 0 {
		d += " Contexts: " + strings.Join(contexts, ", ") + "."
	}
	return d
}

// schema describes the shape; with expressions one may stand in its place.
func (s shape) schema(expressions bool) *expr.Object {
	var o *expr.Object
	switch s.kind {
	case anyShape:
		return expr.NewObject()
	case nullShape:
		return object("type", "null")
	case textShape:
		return object("type", array("string", "number", "boolean", "null"))
	case filledShape:
		return object("type", array("string", "number", "boolean"), "minLength", 1.0)
	case numberShape:
		o = object("type", "number")
	case booleanShape:
		o = object("type", "boolean")
	case enumShape:
		o = object("enum", array(s.names...))
	case listShape:
		o = object("type", "array", "items", s.of.schema(expressions))
		if s.least > 0 {
			o.Set("minItems", float64(s.least))
		}
	case mapShape:
		o = object("type", "object", "additionalProperties", s.of.schema(expressions))
		if s.least > 0 {
			o.Set("minProperties", float64(s.least))
		}
	case blockShape:
		o = object("$ref", "#/definitions/"+definitionName(s.block))
	case eitherShape:
		var one []*expr.Object
		for _, e := range s.either {
			one = append(one, e.schema(false))
			if e.kind == listShape || e.kind == mapShape {
				one[len(one)-1] = e.withExpressions(expressions)
			}
		}
		if expressions {
			one = append(one, expressionSchema())
		}
		return object("anyOf", array(one...))
	}
	if expressions {
		return object("anyOf", array(o, expressionSchema()))
	}
	return o
}

// withExpressions is a list or mapping in whose items expressions may stand.
func (s shape) withExpressions(expressions bool) *expr.Object {
	o := s.schema(false)
	if s.kind == listShape {
		o.Set("items", s.of.schema(expressions))
	} else {
		o.Set("additionalProperties", s.of.schema(expressions))
	}
	return o
}

func expressionSchema() *expr.Object { return object("$ref", "#/definitions/expression") }
