package workflow

import "slices"

// maxInputs is GitHub's bound on the inputs of workflow_dispatch.
const maxInputs = 25

// inputs reads the inputs that event declares; known are those of an event
// read before, which may declare the same names again.
func (p *fileParser) inputs(e Entry, event string, known []*Input) []*Input {
	if isNull(e.Value) && event == "workflow_dispatch" {
		return nil
	}
	var inputs []*Input
	p.inside(e, func(e Entry) {
		in := p.input(e, event)
		if !slices.ContainsFunc(known, func(k *Input) bool { return k.Name == in.Name }) {
			inputs = append(inputs, in)
		}
	})
	if event == "workflow_dispatch" && len(e.Value.Entries) > maxInputs {
		p.errorf(e.Value.Entries[maxInputs].Key, "limit", "", "`workflow_dispatch` has %d inputs, at most %d are allowed", len(e.Value.Entries), maxInputs)
	}
	return inputs
}

func (p *fileParser) input(e Entry, event string) *Input {
	in := &Input{Name: e.Key.Text, Pos: e.Key.Pos, Type: "string"}
	if !isIdentifier(in.Name) {
		p.errorf(e.Key, "id", "start with a letter or `_`, go on with letters, digits, `-` and `_`", "%q is no input name", in.Name)
	}
	block, types := "dispatch input", []string{"string", "boolean", "number", "choice", "environment"}
	call := event == "workflow_call"
	if call {
		block, types = "call input", types[:3]
	} else if isNull(e.Value) {
		return in
	}
	p.inside(e, func(k Entry) {
		v := k.Value
		switch {
		case k.Key.Text == "description":
			if d := p.text(k); d != nil && !p.plainText(d, "`description`") {
				in.Description = d.Text
			}
		case k.Key.Text == "type":
			if v.Kind != Scalar || !slices.Contains(types, v.Text) {
				p.errorf(v, "input", suggest(v.Text, types), "unknown input type %s", describe(v))
				return
			}
			in.Type = v.Text
		case k.Key.Text == "required":
			in.Required = p.flag(k)
		case k.Key.Text == "default":
			if d := p.text(k); d != nil && (call || !p.plainText(d, "`default`")) {
				in.Default = d
			}
		case k.Key.Text == "options" && !call:
			in.Options = p.options(k)
		default:
			p.unknown(k.Key, block)
		}
	})
	if call && e.Value.Kind == Mapping {
		p.requireKey(e.Key, e.Value, "type", "input \""+in.Name+"\" of `workflow_call`")
	}
	return in
}

func (p *fileParser) options(e Entry) []string {
	if e.Value.Kind != Sequence || len(e.Value.Items) == 0 {
		p.errorf(e.Value, "input", "write a list with at least one option", "`options` must be a list of texts, found %s", describe(e.Value))
		return nil
	}
	var options []string
	for _, item := range e.Value.Items {
		if item.Kind != Scalar {
			p.errorf(item, "input", "", "an option must be a text, found %s", describe(item))
			continue
		}
		if !p.plainText(item, "`options`") {
			options = append(options, item.Text)
		}
	}
	return options
}

// callSecrets reads the secrets that workflow_call declares.
func (p *fileParser) callSecrets(e Entry) []*Value {
	var names []*Value
	p.inside(e, func(s Entry) {
		names = append(names, s.Key)
		if isNull(s.Value) {
			return
		}
		p.inside(s, func(k Entry) {
			switch k.Key.Text {
			case "description":
				if v := p.text(k); v != nil {
					p.plainText(v, "`description`")
				}
			case "required":
				p.flag(k)
			default:
				p.unknown(k.Key, "call secret")
			}
		})
	})
	return names
}

// callOutputs checks the outputs that workflow_call declares.
func (p *fileParser) callOutputs(e Entry) {
	p.inside(e, func(o Entry) {
		p.inside(o, func(k Entry) {
			switch k.Key.Text {
			case "description":
				if v := p.text(k); v != nil {
					p.plainText(v, "`description`")
				}
			case "value":
				p.text(k)
			default:
				p.unknown(k.Key, "call output")
			}
		})
		if o.Value.Kind == Mapping {
			p.requireKey(o.Key, o.Value, "value", "output \""+o.Key.Text+"\"")
		}
	})
}

// isIdentifier says whether s can name a job, a step or an input.
func isIdentifier(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return s != ""
}
