package workflow

import "slices"

// inputs reads the declared inputs; known are those of an event read before,
// which may declare the same names again.
func (p *fileParser) inputs(e Entry, known []*Input) []*Input {
	if isNull(e.Value) {
		return nil
	}
	if e.Value.Kind != Mapping {
		p.errorf(e.Value, "type", "", "`inputs` must be a mapping, found %s", describe(e.Value))
		return nil
	}
	var inputs []*Input
	for _, e := range e.Value.Entries {
		in := p.input(e)
		if !slices.ContainsFunc(known, func(k *Input) bool { return k.Name == in.Name }) {
			inputs = append(inputs, in)
		}
	}
	return inputs
}

func (p *fileParser) input(e Entry) *Input {
	in := &Input{Name: e.Key.Text, Pos: e.Key.Pos, Type: "string"}
	if !isIdentifier(in.Name) {
		p.errorf(e.Key, "id", "start with a letter or `_`, go on with letters, digits, `-` and `_`", "%q is no input name", in.Name)
	}
	if isNull(e.Value) {
		return in
	}
	if e.Value.Kind != Mapping {
		p.errorf(e.Value, "type", "", "input %q must be a mapping, found %s", in.Name, describe(e.Value))
		return in
	}
	types := []string{"string", "boolean", "number", "choice", "environment"}
	for _, e := range e.Value.Entries {
		v := e.Value
		switch e.Key.Text {
		case "description", "deprecationMessage":
			if v.Kind != Scalar {
				p.errorf(v, "type", "", "`%s` must be a text, found %s", e.Key.Text, describe(v))
			} else if e.Key.Text == "description" {
				in.Description = v.Text
			}
		case "type":
			if v.Kind != Scalar || !slices.Contains(types, v.Text) {
				p.errorf(v, "input", suggest(v.Text, types), "unknown input type %s", describe(v))
				continue
			}
			in.Type = v.Text
		case "required":
			required, ok := v.Plain.(bool)
			if v.Kind != Scalar || !ok {
				p.errorf(v, "type", "write true or false", "`required` must be a boolean, found %s", describe(v))
			}
			in.Required = required
		case "default":
			if !isNull(v) {
				in.Default = p.scalar(e)
			}
		case "options":
			in.Options = p.options(e)
		default:
			p.unknown(e.Key, "an input", []string{"description", "type", "required", "default", "options", "deprecationMessage"})
		}
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
		options = append(options, item.Text)
	}
	return options
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
