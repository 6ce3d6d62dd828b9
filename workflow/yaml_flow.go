package workflow

import (
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// joinFlowScalars puts plain scalars such as ./cache:/cache:ro and 8080:80 back
// together that the library splits at the colon inside of {}. In YAML 1.2 a
// colon with no space after it belongs to a plain scalar.
func joinFlowScalars(tokens token.Tokens) token.Tokens {
	joined := make([]*token.Token, 0, len(tokens))
	flow := 0
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.MappingValueType:
			if flow > 0 && len(joined) > 0 && i+1 < len(tokens) {
				before, after := joined[len(joined)-1], tokens[i+1]
				if isPlain(before) && isPlain(after) && touches(before, t) && touches(t, after) {
					joined[len(joined)-1] = token.New(before.Value+":"+after.Value, before.Origin+":"+after.Origin, before.Position)
					i++
					continue
				}
			}
		}
		joined = append(joined, t)
	}
	if len(joined) == len(tokens) {
		return tokens
	}
	var linked token.Tokens
	linked.Add(joined...)
	return linked
}

func isPlain(t *token.Token) bool {
	switch t.Type {
	case token.StringType, token.IntegerType, token.FloatType, token.BoolType, token.NullType, token.InfinityType, token.NanType,
		token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType:
		return t.Value != ""
	}
	return false
}

// touches says whether b begins where a ends.
func touches(a, b *token.Token) bool {
	return a.Position.Line == b.Position.Line && a.Position.Column+utf8.RuneCountInString(a.Value) == b.Position.Column
}

func endsValue(t *token.Token) bool {
	switch t.Type {
	case token.CollectEntryType, token.MappingEndType, token.SequenceEndType:
		return true
	}
	return false
}

// dropNullTags leaves out a !!null that nothing follows: the library
// wants a value there, and there is none.
func dropNullTags(tokens token.Tokens) token.Tokens {
	kept := make([]*token.Token, 0, len(tokens))
	for i, t := range tokens {
		null := t.Type == token.TagType && (t.Value == "!!null" || t.Value == "!<tag:yaml.org,2002:null>")
		if null && (i+1 == len(tokens) || tokens[i+1].Position.Line > t.Position.Line || endsValue(tokens[i+1])) {
			continue
		}
		kept = append(kept, t)
	}
	if len(kept) == len(tokens) {
		return tokens
	}
	var linked token.Tokens
	linked.Add(kept...)
	return linked
}
