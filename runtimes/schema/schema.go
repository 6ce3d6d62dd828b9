// Package schema checks an agent's structured output against the JSON Schema
// the workflow gave. The runner never takes an agent's word for it: every
// runtime's decoder validates here, on the runner's side.
package schema

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// MaxSize is the largest schema in bytes. An argument of a Linux process can
// not be longer than 128 KiB.
const MaxSize = 96 << 10

// Schema is a compiled JSON Schema, safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema
}

// noLoader refuses every $ref that leaves the schema: a workflow file must not
// make the runner read files or fetch addresses.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("$ref to %q: only references inside the schema (#/$defs/…) are followed", url)
}

// Compile reads a JSON Schema (draft 2020-12 where it does not say).
func Compile(raw []byte) (*Schema, error) {
	if len(raw) > MaxSize {
		return nil, fmt.Errorf("the schema is %d bytes: expected at most %d", len(raw), MaxSize)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil, errors.New("expected an object such as {type: object, properties: {…}}")
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	const name = "output-schema.json"
	if err := c.AddResource(name, doc); err != nil {
		return nil, fmt.Errorf("not a JSON Schema: %w", err)
	}
	compiled, err := c.Compile(name)
	if err != nil {
		return nil, fmt.Errorf("not a JSON Schema: %s", oneLine(err))
	}
	return &Schema{compiled: compiled}, nil
}

// Validate reports where doc is not what the schema asks for.
func (s *Schema) Validate(doc []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if err := s.compiled.Validate(v); err != nil {
		return errors.New(oneLine(err))
	}
	return nil
}

// oneLine drops the library's headline and joins its list of places.
func oneLine(err error) string {
	var places []string
	for i, line := range strings.Split(err.Error(), "\n") {
		line = strings.TrimPrefix(strings.TrimSpace(line), "- ")
		if line == "" || i == 0 && strings.HasPrefix(line, "jsonschema validation failed") {
			continue
		}
		places = append(places, strings.TrimPrefix(line, "at '': "))
	}
	text := strings.Join(places, "; ")
	if len(text) > 600 {
		text = text[:600] + "…"
	}
	return text
}
