package codex

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/herd-runner/herd-runner/runtimes"
)

// strictSchema tightens a schema to what the vendor takes in its strict mode,
// which the CLI always asks for: objects have no further properties and all
// their properties are required. What fits the result fits raw as well.
func strictSchema(raw json.RawMessage) ([]byte, error) {
	var node any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&node); err != nil {
		return nil, runtimes.Refuse("output-schema", "", "output-schema: %v", err)
	}
	root, ok := node.(map[string]any)
	if !ok || root["type"] != "object" {
		return nil, runtimes.Refuse("output-schema", "", "output-schema: codex takes a schema of `type: object` only: put the value into a property")
	}
	tighten(root)
	out, err := json.Marshal(root)
	if err != nil {
		return nil, runtimes.Refuse("output-schema", "", "output-schema: %v", err)
	}
	return out, nil
}

func tighten(node any) {
	s, ok := node.(map[string]any)
	if !ok {
		return
	}
	if properties, ok := s["properties"].(map[string]any); ok {
		asked, _ := s["required"].([]any)
		if extra, given := s["additionalProperties"]; !given || extra == true {
			s["additionalProperties"] = false
		}
		names := slices.Sorted(maps.Keys(properties))
		s["required"] = names
		for _, other := range asked {
			if name, ok := other.(string); ok && !slices.Contains(names, name) {
				s["required"] = asked // no object can have it: the vendor says so
			}
		}
	}
	for _, key := range []string{"properties", "$defs", "definitions"} {
		if named, ok := s[key].(map[string]any); ok {
			for _, inner := range named {
				tighten(inner)
			}
		}
	}
	tighten(s["items"])
	if either, ok := s["anyOf"].([]any); ok {
		for _, inner := range either {
			tighten(inner)
		}
	}
}
