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
		p.event(&t, v, nil)
	case Sequence:
		for _, item := range v.Items {
			if item.Kind != Scalar {
				p.errorf(item, "type", "", "an event must be a name, found %s", describe(item))
				continue
			}
			p.event(&t, item, nil)
		}
	case Mapping:
		for _, e := range v.Entries {
			p.event(&t, e.Key, e.Value)
		}
	}
	if len(t.Events) == 0 && len(v.Items) == 0 && v.Kind != Scalar {
		p.errorf(v, "missing-key", "name at least one event, for example `workflow_dispatch`", "`on` names no event")
	}
	return t
}

func (p *fileParser) event(t *Triggers, name, filters *Value) {
	events := eventFilters()
	allowed, known := events[name.Text]
	if !known {
		names := make([]string, 0, len(events))
		for e := range events {
			names = append(names, e)
		}
		slices.Sort(names)
		p.errorf(name, "event", suggest(name.Text, names), "unknown event %s", describe(name))
		return
	}
	t.Events = append(t.Events, Trigger{Name: name.Text, Pos: name.Pos, Filters: filters})
	if name.Text == "schedule" {
		p.schedule(name, filters)
		return
	}
	if isNull(filters) {
		return
	}
	if filters.Kind != Mapping {
		p.errorf(filters, "type", "", "the filters of %q must be a mapping, found %s", name.Text, describe(filters))
		return
	}
	p.filters(t, name.Text, filters, strings.Fields(allowed))
}

func (p *fileParser) filters(t *Triggers, event string, filters *Value, allowed []string) {
	at := map[string]*Value{}
	for _, e := range filters.Entries {
		if !slices.Contains(allowed, e.Key.Text) {
			p.unknown(e.Key, "event `"+event+"`", allowed)
			continue
		}
		at[e.Key.Text] = e.Key
		switch e.Key.Text {
		case "inputs":
			t.Inputs = append(t.Inputs, p.inputs(e, t.Inputs)...)
		case "secrets":
			if !isNull(e.Value) && e.Value.Kind != Mapping {
				p.errorf(e.Value, "type", "", "`secrets` must be a mapping, found %s", describe(e.Value))
				continue
			}
			for _, s := range e.Value.Entries {
				t.Secrets = append(t.Secrets, s.Key)
			}
		case "outputs":
			p.prepare(e.Value)
		default:
			p.patterns(e)
		}
	}
	for _, k := range []string{"branches", "tags", "paths"} {
		if at[k] != nil && at[k+"-ignore"] != nil {
			p.errorf(at[k+"-ignore"], "event", "write the exceptions into `"+k+"` as patterns that start with `!`", "`%s` and `%s-ignore` cannot stand together", k, k)
		}
	}
}

func (p *fileParser) patterns(e Entry) {
	if p.empty(e) {
		return
	}
	switch e.Value.Kind {
	case Mapping:
		p.errorf(e.Value, "type", "", "`%s` must be a text or a list of texts, found a mapping", e.Key.Text)
	case Sequence:
		for _, item := range e.Value.Items {
			if item.Kind != Scalar || item.Text == "" {
				p.errorf(item, "type", "", "an entry of `%s` must be a text, found %s", e.Key.Text, describe(item))
			}
		}
	}
}

func (p *fileParser) schedule(name, v *Value) {
	if isNull(v) || v.Kind != Sequence || len(v.Items) == 0 {
		at := name
		if !isNull(v) {
			at = v
		}
		p.errorf(at, "event", "write `schedule: [{cron: \"0 3 * * *\"}]`", "`schedule` must be a list of mappings with `cron`")
		return
	}
	for _, item := range v.Items {
		if item.Kind != Mapping {
			p.errorf(item, "event", "write `- cron: \"0 3 * * *\"`", "an entry of `schedule` must be a mapping with `cron`, found %s", describe(item))
			continue
		}
		cron := false
		for _, e := range item.Entries {
			switch e.Key.Text {
			case "cron":
				cron = true
				if v := p.scalar(e); v != nil && !isCron(v.Text) {
					p.errorf(v, "event", "five fields: minute hour day month weekday, for example \"0 3 * * *\"", "%s is no cron line", describe(v))
				}
			case "timezone":
				p.scalar(e)
			default:
				p.unknown(e.Key, "an entry of `schedule`", []string{"cron", "timezone"})
			}
		}
		if !cron {
			p.errorf(item, "event", "", "an entry of `schedule` has no `cron`")
		}
	}
}

func isCron(s string) bool {
	fields := strings.Fields(s)
	if len(fields) != 5 {
		return false
	}
	for _, f := range fields {
		if strings.Trim(f, "0123456789*/,-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != "" {
			return false
		}
	}
	return true
}

// eventFilters maps each event of GitHub's to the filters it takes.
func eventFilters() map[string]string {
	m := map[string]string{
		"push":              "branches branches-ignore tags tags-ignore paths paths-ignore",
		"workflow_dispatch": "inputs",
		"workflow_call":     "inputs secrets outputs",
		"workflow_run":      "types workflows branches branches-ignore",
		"schedule":          "",
		"image_version":     "names versions",
		"merge_group":       "types branches branches-ignore",
	}
	for _, e := range []string{"pull_request", "pull_request_target"} {
		m[e] = "types branches branches-ignore paths paths-ignore"
	}
	for _, e := range []string{"create", "delete", "deployment", "deployment_status", "fork", "gollum", "page_build", "public", "status"} {
		m[e] = ""
	}
	for _, e := range []string{"branch_protection_rule", "check_run", "check_suite", "discussion", "discussion_comment", "issue_comment",
		"issues", "label", "milestone", "project", "project_card", "project_column", "pull_request_comment", "pull_request_review",
		"pull_request_review_comment", "registry_package", "release", "repository_dispatch", "watch"} {
		m[e] = "types"
	}
	return m
}
