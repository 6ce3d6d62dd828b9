package expr

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// FromGo turns a Go value into a Value: strings, bools, all numbers, slices,
// maps with string keys (sorted) and json.RawMessage; Values are kept as they
// are. Anything else goes through its JSON form, and is its fmt text where it
// has none.
func FromGo(v any) Value {
	switch v := v.(type) {
	case nil, bool, float64, string:
		return v
	case *Array:
		if v == nil {
			return nil
		}
		return v
	case *Object:
		if v == nil {
			return nil
		}
		return v
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case map[string]string:
		return objectOf(v)
	case map[string]any:
		return objectOf(v)
	case []string:
		return arrayOf(v)
	case []any:
		return arrayOf(v)
	}
	data, err := json.Marshal(v)
	if err == nil {
		if out, err := FromJSON(data); err == nil {
			return out
		}
	}
	return fmt.Sprint(v)
}

func objectOf[T any](m map[string]T) *Object {
	o := NewObject()
	for _, key := range slices.Sorted(maps.Keys(m)) {
		o.Set(key, FromGo(m[key]))
	}
	return o
}

func arrayOf[T any](items []T) *Array {
	a := &Array{Items: make([]Value, len(items))}
	for i, item := range items {
		a.Items[i] = FromGo(item)
	}
	return a
}
