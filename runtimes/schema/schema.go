// Package schema checks an agent's structured output against the JSON Schema
// the workflow gave. The runner never takes an agent's word for it: every
// runtime's decoder validates here, on the runner's side.
//
// It is our own and no library, because of three needs together: the runner and
// the guest in every box pay for what a package sets up when they start; what
// does not fit goes to a model that has one chance to mend it, so all of it is
// said, with its place in the document; and the schema and the document may
// both be hostile, so every check is bounded.
//
// Known are the drafts 4 to 2020-12, without keywords that need other documents
// or notes of what was looked at: $dynamicRef, $recursiveRef, unevaluatedItems
// and unevaluatedProperties are refused. format is a note and not checked.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// MaxSize is the largest schema in bytes. An argument of a Linux process can
	// not be longer than 128 KiB.
	MaxSize = 96 << 10

	// maxText bounds what an error says, in bytes.
	maxText = 600
)

// Schema is a compiled JSON Schema, safe for concurrent use.
type Schema struct{ root *node }

// Compile reads a JSON Schema (draft 2020-12 where it does not say).
func Compile(raw []byte) (*Schema, error) {
	if len(raw) > MaxSize {
		return nil, fmt.Errorf("the schema is %d bytes: expected at most %d", len(raw), MaxSize)
	}
	doc, err := decode(raw)
	if err != nil {
		return nil, err
	}
	object, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New("expected an object such as {type: object, properties: {…}}")
	}
	root, err := compile(object)
	if err != nil {
		return nil, fmt.Errorf("not a JSON Schema: %s", cut(err.Error()))
	}
	return &Schema{root}, nil
}

// Validate reports all that is not what the schema asks for, each with the JSON
// pointer of its place, in one line of at most some 600 bytes.
func (s *Schema) Validate(doc []byte) error {
	v, err := decode(doc)
	if err != nil {
		return err
	}
	c := &check{left: maxSteps}
	s.root.check(c, v, nil)
	if c.left < 0 {
		return fmt.Errorf("checking takes more than %d steps: make the schema or the answer simpler", maxSteps)
	}
	if len(c.problems) == 0 {
		return nil
	}
	return errors.New(cut(strings.Join(c.problems, "; ")))
}

// decode reads one JSON value. Numbers keep all their digits.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("not JSON: more follows after its end")
	}
	return v, nil
}

func cut(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
