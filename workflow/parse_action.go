package workflow

import "slices"

// isAction says whether a file is an action: it has `runs` and nothing that a
// workflow must have.
func isAction(root *Value) bool {
	return root.Kind == Mapping && root.Get("runs") != nil && root.Get("on") == nil && root.Get("jobs") == nil
}

// action shapes the content of an action.yml that the step s uses.
func (p *fileParser) action(a *Action, root *Value, s *Step) {
	if root.Kind != Mapping {
		p.errorf(root, "syntax", "start with `name:` and `runs:`", "an action is a mapping, found %s", describe(root))
		return
	}
	keys := []string{"name", "author", "description", "inputs", "outputs", "runs", "branding"}
	var runs *Value
	for _, e := range root.Entries {
		switch e.Key.Text {
		case "name", "author", "description":
			p.text(e)
		case "inputs":
			p.optional(e, func(in Entry) { a.Inputs = append(a.Inputs, p.actionInput(in)) })
		case "outputs":
			p.optional(e, func(out Entry) { p.actionOutput(a, out) })
		case "runs":
			runs = e.Value
		case "branding":
		default:
			p.ignored(e.Key, "an action", keys)
		}
	}
	if runs == nil {
		p.errorf(root, "missing-key", "add `runs: {using: composite, steps: […]}`", "the action has no `runs`")
		return
	}
	p.actionRuns(a, runs, s)
}

// optional is inside for a mapping that may be left empty.
func (p *fileParser) optional(e Entry, read func(Entry)) {
	if !isNull(e.Value) {
		p.inside(e, read)
	}
}

// ignored warns of a key that GitHub passes over.
func (p *fileParser) ignored(key *Value, where string, known []string) {
	if !p.full() {
		p.add(SeverityWarning, "unknown-key", key.Pos, key.width(), suggest(key.Text, known), "unknown key \""+key.Text+"\" in "+where)
	}
}

// actionInput reads an input of an action; all of them are texts.
func (p *fileParser) actionInput(e Entry) *Input {
	in := &Input{Name: e.Key.Text, Pos: e.Key.Pos, Type: "string"}
	p.optional(e, func(k Entry) {
		switch k.Key.Text {
		case "description", "deprecationMessage":
			p.text(k)
		case "required":
			required, _ := k.Value.Plain.(bool)
			in.Required = required || k.Value.Text == "true"
		case "default":
			in.Default = p.text(k)
		default:
			p.ignored(k.Key, "an action's input", []string{"description", "required", "default", "deprecationMessage"})
		}
	})
	return in
}

func (p *fileParser) actionOutput(a *Action, e Entry) {
	var value *Value
	p.inside(e, func(k Entry) {
		switch k.Key.Text {
		case "description":
			p.text(k)
		case "value":
			value = p.text(k)
		default:
			p.errorf(k.Key, "unknown-key", suggest(k.Key.Text, []string{"description", "value"}), "unknown key %q in an action's output", k.Key.Text)
		}
	})
	if e.Value.Kind == Mapping {
		p.requireKey(e.Key, e.Value, "value", "output \""+e.Key.Text+"\"")
	}
	a.Outputs = append(a.Outputs, Output{Name{e.Key.Text, e.Key.Pos}, value})
}

func (p *fileParser) actionRuns(a *Action, runs *Value, s *Step) {
	if runs.Kind != Mapping {
		p.errorf(runs, "type", "write `runs: {using: composite, steps: […]}`", "`runs` must be a mapping, found %s", describe(runs))
		return
	}
	using := runs.Get("using")
	switch {
	case using == nil:
		p.errorf(runs, "missing-key", "add `using: composite`", "`runs` has no `using`")
		return
	case using.Kind != Scalar || using.Text != "composite":
		p.errorf(using, "unsupported", "do its work in a `run:`", "only composite actions are there yet, found %s", describe(using))
		return
	}
	var steps *Value
	for _, e := range runs.Entries {
		switch e.Key.Text {
		case "using":
		case "steps":
			steps = e.Value
		default:
			p.errorf(e.Key, "unknown-key", suggest(e.Key.Text, []string{"using", "steps"}), "unknown key %q in `runs` of a composite action", e.Key.Text)
		}
	}
	if isNull(steps) || steps.Kind != Sequence || len(steps.Items) == 0 {
		p.errorf(runs, "missing-key", "write `steps:` and below it `- run: …`", "a composite action needs `steps` with at least one step")
		return
	}
	a.job.inherited = Defaults{Runtime: s.Runtime, Docker: s.Docker, Workspace: s.Workspace}
	for _, item := range steps.Items {
		p.actionStep(a, item)
	}
	a.Steps = a.job.Steps
}

// actionStep reads a step of an action. They run one after the other.
func (p *fileParser) actionStep(a *Action, item *Value) {
	if item.Kind == Mapping {
		kept := *item
		kept.Entries = nil
		for _, e := range item.Entries {
			if slices.Contains([]string{"needs", "background", "wait", "wait-all", "cancel", "parallel"}, e.Key.Text) {
				p.errorf(e.Key, "step", "remove it; a step of the workflow itself can have it", "`%s` does not work inside an action: its steps run one after the other", e.Key.Text)
				continue
			}
			kept.Entries = append(kept.Entries, e)
		}
		if len(kept.Entries) == 0 && len(item.Entries) > 0 {
			return
		}
		item = &kept
	}
	step := p.appendStep(a.job, item)
	if step != nil && step.Run != nil && step.Shell == nil {
		p.add(SeverityError, "missing-key", step.Pos, 1, "add `shell: bash`", "a `run` step of an action needs `shell`")
	}
}
