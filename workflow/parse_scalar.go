package workflow

import "strings"

func (p *fileParser) empty(e Entry) bool {
	if !isNull(e.Value) {
		return false
	}
	p.errorf(e.Key, "type", "give it a value or remove the key", "`%s` is empty", e.Key.Text)
	return true
}

// scalar takes a text, number, boolean or expression.
func (p *fileParser) scalar(e Entry) *Value {
	if p.empty(e) {
		return nil
	}
	if e.Value.Kind != Scalar {
		p.errorf(e.Value, "type", "", "`%s` must be a text, found %s", e.Key.Text, describe(e.Value))
		return nil
	}
	return p.prepare(e.Value)
}

// text takes a text; nothing at all is the empty text, which is as good as no
// key.
func (p *fileParser) text(e Entry) *Value {
	if isNull(e.Value) {
		return nil
	}
	return p.scalar(e)
}

// script takes a text that may be empty.
func (p *fileParser) script(e Entry) *Value {
	if !isNull(e.Value) {
		return p.scalar(e)
	}
	v := *e.Value
	v.Plain, v.Quoted = "", true
	return p.prepare(&v)
}

// filled takes a text that is not empty.
func (p *fileParser) filled(e Entry) *Value {
	v := p.scalar(e)
	if v != nil && v.Text == "" {
		p.errorf(v, "type", "give it a value or remove the key", "`%s` is empty", e.Key.Text)
		return nil
	}
	return v
}

// number takes a number or an expression. A number in quotes is a text.
func (p *fileParser) number(e Entry) *Value {
	v := p.scalar(e)
	if v == nil || v.template() != nil {
		return v
	}
	if _, ok := v.Plain.(float64); !ok || v.Quoted {
		p.errorf(v, "type", hintWithoutQuotes(v, "write a number"), "`%s` must be a number, found %s", e.Key.Text, describe(v))
		return nil
	}
	return v
}

// boolean takes true, false or an expression. A boolean in quotes is a text.
func (p *fileParser) boolean(e Entry) *Value {
	v := p.scalar(e)
	if v == nil || v.template() != nil {
		return v
	}
	if _, ok := v.Plain.(bool); !ok || v.Quoted {
		p.errorf(v, "type", hintWithoutQuotes(v, "write true or false"), "`%s` must be true or false, found %s", e.Key.Text, describe(v))
		return nil
	}
	return v
}

func hintWithoutQuotes(v *Value, hint string) string {
	switch coreScalar(v.Text).(type) {
	case float64, bool:
		if v.Quoted {
			return hint + ", without quotes"
		}
	}
	return hint
}

// choice takes one of names, or an expression where there may be one.
func (p *fileParser) choice(e Entry, names ...string) *Value {
	v := p.scalar(e)
	if v == nil || v.template() != nil {
		return v
	}
	for _, n := range names {
		if n == v.Text {
			return v
		}
	}
	p.errorf(v, "type", suggest(v.Text, names), "`%s` cannot be %s", e.Key.Text, describe(v))
	return nil
}

// plainText reports an expression where none may stand.
func (p *fileParser) plainText(v *Value, where string) bool {
	at := strings.Index(v.Text, "${{")
	if v.Kind != Scalar || at < 0 {
		return false
	}
	pos, n := v.span(at, len(v.Text)-at)
	p.add(SeverityError, "expression", pos, n, "write the text itself", "expressions cannot stand in "+where)
	return true
}

// inside calls read for each entry of a mapping; anything else is reported as
// no mapping.
func (p *fileParser) inside(e Entry, read func(Entry)) {
	if p.empty(e) {
		return
	}
	if e.Value.Kind != Mapping {
		p.errorf(e.Value, "type", "", "`%s` must be a mapping, found %s", e.Key.Text, describe(e.Value))
		return
	}
	for _, entry := range e.Value.Entries {
		read(entry)
	}
}

// requireKey reports that a mapping lacks a key.
func (p *fileParser) requireKey(at *Value, v *Value, key, where string) {
	if v.Get(key) == nil {
		p.errorf(at, "missing-key", "add `"+key+":`", "%s has no `%s`", where, key)
	}
}
