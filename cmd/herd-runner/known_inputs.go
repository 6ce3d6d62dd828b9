package main

import (
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// knownInputs are the inputs of an action or of a called workflow as far as
// they are known before the run. The zero value knows none.
type knownInputs struct {
	values  *expr.Object // nil: none is known
	unknown []string     // lower-case names of those that depend on the run
}

// cover says whether all inputs that v uses are known.
func (k knownInputs) cover(v *workflow.Value) bool {
	for _, ref := range v.References() {
		if ref.Name != "inputs" {
			continue
		}
		if k.values == nil || len(k.unknown) > 0 && (len(ref.Path) == 0 || slices.Contains(k.unknown, strings.ToLower(ref.Path[0]))) {
			return false
		}
	}
	return true
}

// scopes are the inputs by the file whose expressions see them.
type scopes map[string]knownInputs

// with is s and one more file.
func (s scopes) with(file string, k knownInputs) scopes {
	inner := scopes{file: k}
	for name, known := range s {
		if name != file {
			inner[name] = known
		}
	}
	return inner
}

// handed evaluates what `with` gives to the declared inputs; value makes an
// input of what was given, or of its default.
func handed(declared []*workflow.Input, with *workflow.Value, eval func(*workflow.Value) (expr.Value, error), value func(*workflow.Input, expr.Value) expr.Value) knownInputs {
	given := map[string]*workflow.Value{}
	if with != nil {
		if with.Kind != workflow.Mapping {
			return knownInputs{}
		}
		for _, e := range with.Entries {
			if strings.Contains(e.Key.Text, "${{") {
				return knownInputs{}
			}
			given[strings.ToLower(e.Key.Text)] = e.Value
		}
	}
	k := knownInputs{values: expr.NewObject()}
	for _, in := range declared {
		name := strings.ToLower(in.Name)
		from, ok := given[name]
		if !ok {
			from = in.Default
		}
		x, err := eval(from)
		if err != nil {
			k.unknown = append(k.unknown, name)
			continue
		}
		k.values.Set(in.Name, value(in, x))
	}
	return k
}

// textInput is an input of an action: all of them are texts.
func textInput(_ *workflow.Input, x expr.Value) expr.Value { return expr.String(x) }

// typedInput is an input of a called workflow; one that nothing gives is false,
// 0 or empty.
func typedInput(in *workflow.Input, x expr.Value) expr.Value {
	switch {
	case x != nil:
		return x
	case in.Type == "boolean":
		return false
	case in.Type == "number":
		return 0.0
	}
	return ""
}
