package workflow

import (
	"slices"
	"strings"
)

// note says once in a file that a key has no effect.
func (p *fileParser) note(key *Value, why string) {
	if p.noted[key.Text] {
		return
	}
	if p.noted == nil {
		p.noted = map[string]bool{}
	}
	p.noted[key.Text] = true
	p.add(SeverityNote, "no-effect", key.Pos, key.width(), "", "`"+key.Text+"` has no effect here: "+why)
}

// runsOn takes a label, a list of labels, or a group with labels.
func (p *fileParser) runsOn(e Entry) *Value {
	if p.empty(e) {
		return nil
	}
	v := p.prepare(e.Value)
	if v.Kind == Mapping {
		for _, k := range v.Entries {
			switch k.Key.Text {
			case "group":
				p.runnerGroup(k)
			case "labels":
				p.labels(k)
			default:
				p.unknown(k.Key, "runs-on")
			}
		}
		return v
	}
	p.labels(e)
	return v
}

func (p *fileParser) labels(e Entry) {
	if p.empty(e) {
		return
	}
	items := []*Value{e.Value}
	if e.Value.Kind == Sequence {
		items = e.Value.Items
	}
	for _, item := range items {
		switch {
		case item.Kind != Scalar || item.Text == "":
			p.errorf(item, "type", "", "a label of `%s` must be a text, found %s", e.Key.Text, describe(item))
		case strings.HasPrefix(item.Text, "windows-") || strings.HasPrefix(item.Text, "macos-"):
			p.note(&Value{Pos: item.Pos, Text: "runs-on", src: item.src}, "a job runs in Linux boxes of this machine, or on the machine itself")
		}
	}
}

func (p *fileParser) runnerGroup(e Entry) {
	v := p.filled(e)
	if v == nil || v.template() != nil {
		return
	}
	scope, name, scoped := strings.Cut(v.Text, "/")
	scopes := []string{"org", "organization", "ent", "enterprise"}
	if scoped && (!slices.Contains(scopes, scope) || name == "" || strings.Contains(name, "/")) {
		p.errorf(v, "type", "write NAME, organization/NAME or enterprise/NAME", "%s is no runner group", describe(v))
	}
}

// deployment takes the `environment` of a job.
func (p *fileParser) deployment(e Entry) *Value {
	if p.empty(e) {
		return nil
	}
	p.note(e.Key, "deployments are GitHub's")
	switch e.Value.Kind {
	case Sequence:
		p.errorf(e.Value, "type", "", "`environment` must be a name or a mapping, found a list")
	case Mapping:
		for _, k := range e.Value.Entries {
			switch k.Key.Text {
			case "name", "url":
				p.text(k)
			case "deployment":
				p.boolean(k)
			default:
				p.unknown(k.Key, "environment")
			}
		}
		p.requireKey(e.Key, e.Value, "name", "`environment`")
	}
	return p.prepare(e.Value)
}

// permissions are those of GitHub's token.
func (p *fileParser) permissions(e Entry) *Value {
	if p.empty(e) {
		return nil
	}
	p.note(e.Key, "there is no GitHub token whose permissions it could set")
	v := e.Value
	all := []string{"read-all", "write-all"}
	switch v.Kind {
	case Sequence:
		p.errorf(v, "type", "", "`permissions` must be a mapping, read-all or write-all, found a list")
	case Scalar:
		if !slices.Contains(all, v.Text) && !p.plainText(v, "`permissions`") {
			p.errorf(v, "type", suggest(v.Text, all), "`permissions` must be a mapping, read-all or write-all, found %s", describe(v))
		}
	case Mapping:
		scopes := permissionLevels()
		for _, k := range v.Entries {
			levels, known := scopes[k.Key.Text]
			switch {
			case !known:
				p.unknown(k.Key, "permissions")
			case k.Value.Kind != Scalar || !p.plainText(k.Value, "`permissions`") && !slices.Contains(levels, k.Value.Text):
				p.errorf(k.Value, "type", suggest(k.Value.Text, levels), "permission %q must be %s, found %s", k.Key.Text, orList(levels), describe(k.Value))
			}
		}
	}
	return v
}

// orList writes a, b or c.
func orList(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

func (p *fileParser) snapshot(job *Job, e Entry) {
	if p.empty(e) {
		return
	}
	p.note(e.Key, "GitHub makes runner images, herd-runner does not")
	if e.Value.Kind == Scalar {
		p.plainText(e.Value, "`snapshot`")
		return
	}
	p.inside(e, func(k Entry) {
		switch k.Key.Text {
		case "image-name", "version":
			if v := p.filled(k); v != nil {
				p.plainText(v, "`"+k.Key.Text+"`")
			}
		case "if":
			job.inert = append(job.inert, inert{"snapshot.if", p.condition(k)})
		default:
			p.unknown(k.Key, "snapshot")
		}
	})
	if e.Value.Kind == Mapping {
		p.requireKey(e.Key, e.Value, "image-name", "`snapshot`")
	}
}

// concurrency takes a group, or a mapping with one.
func (p *fileParser) concurrency(e Entry) *Value {
	if p.empty(e) {
		return nil
	}
	v := p.prepare(e.Value)
	if v.Kind == Scalar {
		return p.filled(e)
	}
	var cancel, queue *Value
	p.inside(e, func(k Entry) {
		switch k.Key.Text {
		case "group":
			p.filled(k)
		case "cancel-in-progress":
			cancel = p.boolean(k)
		case "queue":
			queue = p.choice(k, queues()...)
		default:
			p.unknown(k.Key, "concurrency")
		}
	})
	if v.Kind != Mapping {
		return nil
	}
	p.requireKey(e.Key, v, "group", "`concurrency`")
	if queue != nil && queue.Text == queueMax && cancel != nil && cancel.Plain == true {
		p.errorf(queue, "type", "keep one of them", "`queue: max` and `cancel-in-progress: true` cannot stand together")
	}
	return v
}
