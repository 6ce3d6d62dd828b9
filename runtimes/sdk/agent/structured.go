package agent

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/herd-runner/herd-runner/runtimes/schema"
)

const structuredDescription = "Give your final answer. Call it once, alone, when everything else is done. Nothing you write outside it reaches the workflow."

// structured is the output the workflow asked for. The APIs take only schemas
// of objects for a tool's input; another schema is wrapped in {"value": …}.
type structured struct {
	schema  *schema.Schema
	input   json.RawMessage // the tool's input schema
	wrapped bool
}

func newStructured(raw json.RawMessage) (*structured, error) {
	compiled, err := schema.Compile(raw)
	if err != nil {
		return nil, fmt.Errorf("output-schema: %w", err)
	}
	s := &structured{schema: compiled, input: raw}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("output-schema: %w", err)
	}
	if string(fields["type"]) == `"object"` {
		return s, nil
	}
	s.wrapped = true
	wrapper := map[string]any{"type": "object", "required": []string{"value"}}
	for _, key := range []string{"$schema", "$defs", "definitions"} { // "#/$defs/…" must still be found
		if def, ok := fields[key]; ok {
			wrapper[key] = def
			delete(fields, key)
		}
	}
	wrapper["properties"] = map[string]any{"value": fields}
	s.input, err = json.Marshal(wrapper)
	return s, err
}

// check returns the value the model gave where it fits.
func (s *structured) check(input json.RawMessage) (json.RawMessage, error) {
	value := input
	if s.wrapped {
		var w map[string]json.RawMessage
		if err := json.Unmarshal(input, &w); err != nil || w["value"] == nil {
			return nil, errors.New(`expected an object with "value"`)
		}
		value = w["value"]
	}
	if err := s.schema.Validate(value); err != nil {
		return nil, err
	}
	return value, nil
}
