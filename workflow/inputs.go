package workflow

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// ResolveInputs checks the inputs given for a run against those declared, and
// gives the `inputs` context: booleans are bool, numbers float64, the rest
// string; an input that is neither given nor has a default is false, 0 or "".
// The inputs apply to the events workflow_dispatch and workflow_call; for
// others the context is empty and no input may be given. Problems stand where
// the input is declared, at the event, or at `on:`; their File is empty.
func ResolveInputs(t Triggers, event string, given map[string]string) (*expr.Object, []Problem) {
	c := &collector{}
	o := expr.NewObject()
	declared := t.Inputs
	if event != "workflow_dispatch" && event != "workflow_call" {
		declared = nil
	}
	at, length := t.Pos, len("on")
	for _, e := range t.Events {
		if e.Name == event {
			at, length = e.Pos, len(e.Name)
		}
	}
	names := make([]string, len(declared))
	byName := make(map[string]string, len(given))
	for i, in := range declared {
		names[i] = in.Name
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !containsFold(names, name) {
			hint := suggest(name, names)
			message := fmt.Sprintf("there is no input %q", name)
			switch {
			case len(t.Inputs) > 0 && len(names) == 0:
				message += ": the event " + event + " has none"
				hint = "inputs are those of workflow_dispatch"
			case len(names) == 0:
				message += ": the workflow has none"
				hint = "declare it under `on.workflow_dispatch.inputs`"
			}
			c.add(SeverityError, "input", at, length, hint, message)
			continue
		}
		byName[strings.ToLower(name)] = given[name]
	}
	for _, in := range declared {
		text, ok := byName[strings.ToLower(in.Name)]
		if !ok && in.Default != nil {
			text, ok = expr.String(in.Default.Plain), true
		}
		if (!ok || text == "") && in.Required {
			c.named(Name{in.Name, in.Pos}, "input", "give it with -i "+in.Name+"=VALUE", "input %q is required", in.Name)
			continue
		}
		if !ok {
			o.Set(in.Name, zeroInput(in.Type))
			continue
		}
		x, problem, hint := inputValue(in, text)
		if problem != "" {
			c.named(Name{in.Name, in.Pos}, "input", hint, "input %q %s", in.Name, problem)
			continue
		}
		o.Set(in.Name, x)
	}
	return o, sortProblems(c.problems)
}

func zeroInput(typ string) expr.Value {
	switch typ {
	case "boolean":
		return false
	case "number":
		return 0.0
	}
	return ""
}

// inputValue gives the typed value of an input's text, or what is wrong.
func inputValue(in *Input, text string) (x expr.Value, problem, hint string) {
	switch in.Type {
	case "boolean":
		switch text {
		case "true":
			return true, "", ""
		case "false":
			return false, "", ""
		}
		return nil, fmt.Sprintf("must be true or false, found %q", text), "write true or false"
	case "number":
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, fmt.Sprintf("must be a number, found %q", text), "write a number such as 3 or 0.5"
		}
		return n, "", ""
	case "choice":
		if !slices.Contains(in.Options, text) {
			return nil, fmt.Sprintf("cannot be %q", text), suggest(text, in.Options)
		}
	}
	return text, "", ""
}
