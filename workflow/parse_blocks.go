package workflow

import "slices"

// dockerBlock spells out `docker: IMAGE`; `docker: false` stays as it is and
// `docker: true` asks for a box with nothing else said.
func (p *fileParser) dockerBlock(e Entry) *Value {
	if p.empty(e) {
		return nil
	}
	v := e.Value
	switch v.Kind {
	case Sequence:
		p.errorf(v, "type", "write an image, false, or a mapping", "`docker` must be an image, false or a mapping, found a list")
		return nil
	case Scalar:
		switch plain := v.Plain.(type) {
		case bool:
			if plain {
				return &Value{Kind: Mapping, Pos: v.Pos, EndLine: v.EndLine, src: v.src}
			}
			return v
		case float64:
			p.errorf(v, "type", "write an image, false, or a mapping", "`docker` must be an image, false or a mapping, found %s", describe(v))
			return nil
		}
		return p.prepare(wrap("image", v))
	}
	return p.prepare(p.known(v, "docker"))
}

// runtimeBlock spells out `runtime: sdk`.
func (p *fileParser) runtimeBlock(e Entry) *Value {
	if p.empty(e) {
		return nil
	}
	v := e.Value
	switch v.Kind {
	case Sequence:
		p.errorf(v, "type", "write `runtime: sdk` or `runtime: {type: cli, engine: claude}`", "`runtime` must be a type or a mapping, found a list")
		return nil
	case Scalar:
		return p.prepare(wrap("type", v))
	}
	return p.prepare(p.known(v, "runtime"))
}

// workspaceBlock takes a mode or a mapping.
func (p *fileParser) workspaceBlock(e Entry) *Value {
	if p.empty(e) {
		return nil
	}
	switch e.Value.Kind {
	case Sequence:
		p.errorf(e.Value, "type", "write `workspace: isolated` or `workspace: {mode: isolated, merge: [JOB]}`", "`workspace` must be a mode or a mapping, found a list")
		return nil
	case Mapping:
		return p.prepare(p.known(e.Value, "workspace"))
	}
	return p.prepare(e.Value)
}

// known keeps the entries of a block that may stand there, so that merging costs
// no more than a block can hold.
func (p *fileParser) known(v *Value, name string) *Value {
	allowed := keyNames(name)
	kept := *v
	kept.Entries = nil
	for _, e := range v.Entries {
		if !slices.Contains(allowed, e.Key.Text) {
			p.unknown(e.Key, name)
			continue
		}
		if k := e.Key.Text; (k == "env" || k == "labels") && len(e.Value.Entries) > maxNames {
			p.errorf(e.Key, "limit", "", "`%s` has %d names, at most %d are allowed", k, len(e.Value.Entries), maxNames)
			continue
		}
		kept.Entries = append(kept.Entries, e)
	}
	return &kept
}

// maxNames bounds the variables and labels of a block, which merge name by name.
const maxNames = 200

// wrap makes the mapping {key: v}.
func wrap(key string, v *Value) *Value {
	k := &Value{Pos: v.Pos, EndLine: v.Pos.Line, Text: key, Plain: key, size: 1}
	return &Value{Kind: Mapping, Pos: v.Pos, EndLine: v.EndLine, Entries: []Entry{{k, v}}, src: v.src, size: v.size + 1}
}

// Merge lays values over each other, the nearest (last) winning: mappings merge
// key by key, `env` and `labels` in them too; everything else, a network's
// mapping among it, is replaced. A scalar (`docker: false`) replaces what lies
// below it, and a mapping above it starts afresh. Values are never changed.
func Merge(values ...*Value) *Value {
	var merged *Value
	for _, v := range values {
		switch {
		case v == nil:
		case merged == nil || merged.Kind != Mapping || v.Kind != Mapping:
			merged = v
		default:
			merged = overlay(merged, v)
		}
	}
	return merged
}

func overlay(below, above *Value) *Value {
	m := &Value{Kind: Mapping, Pos: above.Pos, EndLine: above.EndLine, src: above.src}
	m.Entries = append(m.Entries, below.Entries...)
next:
	for _, e := range above.Entries {
		for i, old := range m.Entries {
			if old.Key.Text != e.Key.Text {
				continue
			}
			if k := e.Key.Text; k == "env" || k == "labels" {
				e.Value = Merge(old.Value, e.Value)
			}
			m.Entries[i] = e
			continue next
		}
		m.Entries = append(m.Entries, e)
	}
	for _, e := range m.Entries {
		m.size += e.Value.size
	}
	m.size++
	return m
}

// Get gives the value of key in a mapping; nil where there is none.
func (v *Value) Get(key string) *Value {
	if v == nil {
		return nil
	}
	for _, e := range v.Entries {
		if e.Key.Text == key {
			return e.Value
		}
	}
	return nil
}
