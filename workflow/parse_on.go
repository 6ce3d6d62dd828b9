package workflow

import (
	"slices"
	"strings"
)

// triggers reads `on:` in its three forms: a name, a list of names, a mapping.
func (p *fileParser) triggers(v *Value) Triggers {
	t := Triggers{Pos: v.Pos}
	switch v.Kind {
	case Scalar:
		p.event(&t, v)
	case Sequence:
		for _, item := range v.Items {
			if item.Kind != Scalar {
				p.errorf(item, "type", "", "an event must be a name, found %s", describe(item))
				continue
			}
			p.event(&t, item)
		}
	case Mapping:
		for _, e := range v.Entries {
			if known, ok := p.event(&t, e.Key); ok {
				p.eventFilters(&t, known, e)
			}
		}
	}
	if len(v.Items) == 0 && len(v.Entries) == 0 && v.Kind != Scalar {
		p.errorf(v, "missing-key", "name at least one event, for example `workflow_dispatch`", "`on` names no event")
	}
	return t
}

func (p *fileParser) event(t *Triggers, name *Value) (event, bool) {
	if p.plainText(name, "`on`") {
		return event{}, false
	}
	e, known := findEvent(name.Text)
	if !known {
		p.errorf(name, "event", suggest(name.Text, eventNames()), "unknown event %s", describe(name))
		return e, false
	}
	t.Events = append(t.Events, Trigger{Name: name.Text, Pos: name.Pos})
	return e, true
}

// eventFilters reads what stands below an event's name.
func (p *fileParser) eventFilters(t *Triggers, e event, at Entry) {
	v := at.Value
	if e.name == "schedule" {
		p.schedule(at)
		return
	}
	if isNull(v) {
		return
	}
	allowed := e.filterKeys()
	switch {
	case len(allowed) == 0:
		p.errorf(v, "type", "write `"+e.name+":` alone", "event %q takes no filters, found %s", e.name, describe(v))
		return
	case v.Kind != Mapping:
		p.errorf(v, "type", "", "the filters of %q must be a mapping, found %s", e.name, describe(v))
		return
	}
	t.Events[len(t.Events)-1].Filters = v
	keys := map[string]*Value{}
	for _, f := range v.Entries {
		if !slices.Contains(allowed, f.Key.Text) {
			p.errorf(f.Key, "unknown-key", suggest(f.Key.Text, allowed), "unknown key %q in event `%s`", f.Key.Text, e.name)
			continue
		}
		keys[f.Key.Text] = f.Key
		p.filter(t, e, f)
	}
	for _, k := range []string{"branches", "tags", "paths"} {
		if ignore := keys[k+"-ignore"]; keys[k] != nil && ignore != nil {
			p.add(SeverityWarning, "event", ignore.Pos, ignore.width(), "write the exceptions into `"+k+"` as patterns that start with `!`",
				"GitHub does not run a workflow with both `"+k+"` and `"+k+"-ignore`")
		}
	}
}

func (p *fileParser) filter(t *Triggers, e event, f Entry) {
	switch f.Key.Text {
	case "inputs":
		t.Inputs = append(t.Inputs, p.inputs(f, e.name, t.Inputs)...)
	case "secrets":
		t.Secrets = append(t.Secrets, p.callSecrets(f)...)
	case "outputs":
		p.callOutputs(f)
	case "types":
		p.activities(e, f)
	default:
		p.patterns(f)
	}
}

// patterns reads a text or a list of texts, none of them empty.
func (p *fileParser) patterns(e Entry) []*Value {
	if p.empty(e) {
		return nil
	}
	items := []*Value{e.Value}
	switch e.Value.Kind {
	case Mapping:
		p.errorf(e.Value, "type", "", "`%s` must be a text or a list of texts, found a mapping", e.Key.Text)
		return nil
	case Sequence:
		items = e.Value.Items
	}
	var good []*Value
	for _, item := range items {
		switch {
		case item.Kind != Scalar || item.Text == "":
			p.errorf(item, "type", "", "an entry of `%s` must be a text, found %s", e.Key.Text, describe(item))
		case p.plainText(item, "`"+e.Key.Text+"`"):
		default:
			good = append(good, item)
		}
	}
	return good
}

func (p *fileParser) activities(e event, f Entry) {
	if e.types == "*" && !isNull(f.Value) && f.Value.Kind == Scalar {
		p.errorf(f.Value, "type", "write a list: ["+f.Value.Text+"]", "`types` of %q must be a list, found %s", e.name, describe(f.Value))
		return
	}
	known := strings.Fields(e.types)
	for _, item := range p.patterns(f) {
		if e.types != "*" && !slices.Contains(known, item.Text) {
			p.errorf(item, "event", suggest(item.Text, known), "event %q has no activity %s", e.name, describe(item))
		}
	}
}

func (p *fileParser) schedule(at Entry) {
	v := at.Value
	if isNull(v) || v.Kind != Sequence || len(v.Items) == 0 {
		if isNull(v) {
			v = at.Key
		}
		p.errorf(v, "event", "write `schedule: [{cron: \"0 3 * * *\"}]`", "`schedule` must be a list of mappings with `cron`")
		return
	}
	for _, item := range v.Items {
		if item.Kind != Mapping {
			p.errorf(item, "event", "write `- cron: \"0 3 * * *\"`", "an entry of `schedule` must be a mapping with `cron`, found %s", describe(item))
			continue
		}
		for _, e := range item.Entries {
			switch e.Key.Text {
			case "cron":
				p.cron(e)
			case "timezone":
				p.timezone(e)
			default:
				p.unknown(e.Key, "schedule")
			}
		}
		if item.Get("cron") == nil {
			p.errorf(item, "event", "", "an entry of `schedule` has no `cron`")
		}
	}
}

func (p *fileParser) cron(e Entry) {
	v := p.filled(e)
	if v == nil || p.plainText(v, "`cron`") {
		return
	}
	if problem := cronProblem(v.Text); problem != "" {
		p.errorf(v, "event", "five fields: minute hour day month weekday, for example \"0 3 * * 1-5\"", "%s is no cron line: %s", describe(v), problem)
	}
}

// timezoneName is the form of a name in the IANA database; whether there is
// such a zone only the machine that starts the schedule knows.
var timezoneName = pattern(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$`)

func (p *fileParser) timezone(e Entry) {
	v := p.filled(e)
	if v == nil || p.plainText(v, "`timezone`") {
		return
	}
	if !timezoneName().MatchString(v.Text) {
		p.errorf(v, "event", "write a name of the IANA database, for example Europe/Berlin", "%s is no time zone", describe(v))
	}
}
