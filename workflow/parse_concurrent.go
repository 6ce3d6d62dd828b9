package workflow

import "strconv"

// appendStep adds one step of a job; nil where item is none.
func (p *fileParser) appendStep(job *Job, item *Value) *Step {
	i := len(job.Steps)
	step := &Step{ID: "step-" + strconv.Itoa(i+1), Index: i, File: p.file, Pos: item.Pos}
	if item.Kind != Mapping {
		p.errorf(item, "type", "write `- run: …` or `- prompt: …`", "a step must be a mapping, found %s", describe(item))
		return nil
	}
	job.Steps = append(job.Steps, step)
	p.step(job, step, item)
	return step
}

// parallel lowers a group of steps into background steps and a wait for them.
func (p *fileParser) parallel(job *Job, group *Value) {
	wait := &Step{File: p.file, Pos: group.Pos}
	var items *Value
	for _, e := range group.Entries {
		switch e.Key.Text {
		case "parallel":
			items = e.Value
		case "name":
			wait.Name = p.scalar(e)
		case "id":
			if id := p.scalar(e); id != nil {
				wait.ID, wait.Declared, wait.idAt = id.Text, true, id
			}
		default:
			p.errorf(e.Key, "unknown-key", "it has `parallel`, `name` and `id`", "unknown key %q in a `parallel` group", e.Key.Text)
		}
	}
	if items.Kind != Sequence || len(items.Items) == 0 {
		p.errorf(items, "type", "write `parallel:` and below it `- run: …`", "`parallel` must be a list with at least one step, found %s", describe(items))
		return
	}
	for _, item := range items.Items {
		if item.Kind == Mapping && item.Get("parallel") != nil {
			p.errorf(item.Get("parallel"), "step", "put its steps into the outer group", "a `parallel` group cannot hold another one")
			continue
		}
		step := p.appendStep(job, item)
		if step == nil {
			continue
		}
		if step.IsControl() || step.Background || step.HasNeeds {
			p.named(Name{step.ID, step.Pos}, "step", "the group starts its steps together and waits for them", "a step of a `parallel` group cannot have `background`, `needs`, `wait`, `wait-all` or `cancel`")
			step.reported = true
		}
		step.Background = true
		wait.Wait = append(wait.Wait, Name{step.ID, step.Pos})
	}
	wait.Index = len(job.Steps)
	if !wait.Declared {
		wait.ID = "step-" + strconv.Itoa(wait.Index+1)
	}
	wait.reported = len(wait.Wait) == 0
	job.Steps = append(job.Steps, wait)
}

// names reads an id or a list of ids.
func (p *fileParser) names(e Entry) []Name {
	items := []*Value{e.Value}
	if e.Value.Kind == Sequence {
		items = e.Value.Items
	}
	var names []Name
	for _, v := range items {
		if v.Kind != Scalar || v.Text == "" {
			p.errorf(v, "type", "write the id of a step, or a list of ids", "`%s` cannot hold %s", e.Key.Text, describe(v))
			continue
		}
		names = append(names, Name{v.Text, v.Pos})
	}
	return names
}

// flag reads true or false as it is written.
func (p *fileParser) flag(e Entry) bool {
	b, ok := e.Value.Plain.(bool)
	if e.Value.Kind != Scalar || !ok {
		p.errorf(e.Value, "type", "write true or false", "`%s` must be true or false, found %s", e.Key.Text, describe(e.Value))
	}
	return b
}
