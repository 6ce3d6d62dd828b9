package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// peer is another validator's word on schema and doc.
func peer(schema, doc []byte) (compiles, fits bool) {
	read := func(raw []byte) any {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			panic(err)
		}
		return v
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	if err := c.AddResource("s.json", read(schema)); err != nil {
		return false, false
	}
	s, err := c.Compile("s.json")
	if err != nil {
		return false, false
	}
	return true, s.Validate(read(doc)) == nil
}

type nowhere struct{}

func (nowhere) Load(string) (any, error) { return nil, errors.New("not followed") }

// invent makes schemas out of all keywords, and documents, so small that they
// meet: a random schema says something of a random document.
type invent struct{ *rand.Rand }

func (r invent) value(depth int) any {
	scalars := []any{nil, true, false, 0, 1, 2, -1, 1.5, json.Number("1.0"), json.Number("1e2"), "", "a", "ab", "b", "é"}
	switch n := r.IntN(10); {
	case depth > 0 && n < 3:
		list := []any{}
		for range r.IntN(4) {
			list = append(list, r.value(depth-1))
		}
		return list
	case depth > 0 && n < 7:
		object := map[string]any{}
		for range r.IntN(4) {
			object[r.name()] = r.value(depth - 1)
		}
		return object
	}
	return scalars[r.IntN(len(scalars))]
}

func (r invent) name() string { return []string{"a", "b", "ab", "c/d", "e~f"}[r.IntN(5)] }

func (r invent) schemas(depth int) []any {
	list := []any{}
	for range 1 + r.IntN(3) {
		list = append(list, r.schema(depth-1))
	}
	return list
}

func (r invent) named(depth int) map[string]any {
	object := map[string]any{}
	for range r.IntN(3) {
		object[r.name()] = r.schema(depth - 1)
	}
	return object
}

func (r invent) schema(depth int) any {
	if depth <= 0 {
		return []any{true, false, map[string]any{"type": "string"}, map[string]any{"minimum": 1}, map[string]any{"$ref": "#/$defs/x"}}[r.IntN(5)]
	}
	s := map[string]any{}
	for range 1 + r.IntN(3) {
		types := []any{"null", "boolean", "integer", "number", "string", "array", "object"}
		patterns := []string{"^a", "b$", "a|b", "^.$"}
		keywords := []func(){
			func() { s["type"] = types[r.IntN(7)] },
			func() { s["type"] = types[r.IntN(3):5] },
			func() { s["enum"] = []any{r.value(1), "\x00 another", "\x00 a third"} },
			func() { s["const"] = r.value(2) },
			func() { s["multipleOf"] = []any{1, 2, 0.5, json.Number("1e-3")}[r.IntN(4)] },
			func() { s["minimum"], s["exclusiveMaximum"] = r.IntN(3), r.IntN(4) },
			func() { s["maximum"], s["exclusiveMinimum"] = r.IntN(3), r.IntN(3)-2 },
			func() { s["minLength"], s["maxLength"] = r.IntN(2), r.IntN(3) },
			func() { s["minItems"], s["maxItems"] = r.IntN(2), r.IntN(4) },
			func() { s["minProperties"], s["maxProperties"] = r.IntN(2), json.Number("3.0") },
			func() { s["pattern"] = patterns[r.IntN(4)] },
			func() { s["required"] = []string{r.name()} },
			func() { s["uniqueItems"] = r.IntN(4) > 0 },
			func() { s["prefixItems"] = r.schemas(depth) },
			func() { s["items"] = r.schema(depth - 1) },
			func() {
				s["contains"], s["minContains"], s["maxContains"] = r.schema(depth-1), r.IntN(2), 1+r.IntN(3)
			},
			func() { s["contains"] = r.schema(depth - 1) },
			func() { s["properties"] = r.named(depth) },
			func() { s["patternProperties"] = map[string]any{patterns[r.IntN(4)]: r.schema(depth - 1)} },
			func() { s["additionalProperties"] = r.schema(depth - 1) },
			func() { s["propertyNames"] = r.schema(depth - 1) },
			func() { s["dependentRequired"] = map[string]any{r.name(): []string{r.name()}} },
			func() { s["dependentSchemas"] = r.named(depth) },
			func() { s["allOf"] = r.schemas(depth) },
			func() { s["anyOf"] = r.schemas(depth) },
			func() { s["oneOf"] = r.schemas(depth) },
			func() { s["not"] = r.schema(depth - 1) },
			func() { s["if"], s["then"] = r.schema(depth-1), r.schema(depth-1) },
			func() { s["if"], s["else"] = r.schema(depth-1), r.schema(depth-1) },
			func() { s["format"], s["title"], s["x-own"] = "email", "t", 3 },
		}
		keywords[r.IntN(len(keywords))]()
	}
	return s
}

// The library that once did this and our code say the same of everything.
func TestAgreesWithAPeer(t *testing.T) {
	r := invent{rand.New(rand.NewPCG(1, 2))}
	took, refused := 0, 0
	for i := range 3000 {
		s := map[string]any{"allOf": []any{r.schema(3)}, "$defs": map[string]any{"x": r.schema(1)}}
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := json.Marshal(r.value(3))
		if err != nil {
			t.Fatal(err)
		}
		compiles, fits := peer(raw, doc)
		ours, err := Compile(raw)
		if compiles != (err == nil) && !selfish(err) {
			t.Fatalf("%d: %s\nours: %v, the peer takes it: %v", i, raw, err, compiles)
		}
		if err != nil {
			continue
		}
		if err := ours.Validate(doc); (err == nil) != fits {
			t.Fatalf("%d: %s\n%s\nours: %v, the peer takes it: %v", i, raw, doc, err, fits)
		}
		if fits {
			took++
		} else {
			refused++
		}
	}
	if took < 500 || refused < 500 {
		t.Errorf("%d fit and %d do not: expected many of both", took, refused)
	}
}

// selfish is a schema that asks itself: ours says so when it is read, the peer
// when it is used.
func selfish(err error) bool {
	return err != nil && bytes.Contains([]byte(err.Error()), []byte("leads back"))
}
