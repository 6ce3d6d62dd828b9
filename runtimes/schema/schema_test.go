package schema

import (
	"strings"
	"testing"
)

func TestCompile(t *testing.T) {
	tests := []struct{ name, schema, err string }{
		{"object", `{"type":"object"}`, ""},
		{"reference inside", `{"$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}`, ""},
		{"recursive", `{"type":"object","properties":{"next":{"$ref":"#"}}}`, ""},
		{"not JSON", `{"type":`, "not JSON"},
		{"no object", `[]`, "expected an object"},
		{"unknown type", `{"type":"wibble"}`, "not a JSON Schema"},
		{"a file", `{"$ref":"file:///etc/passwd"}`, "only references inside"},
		{"an address", `{"$ref":"http://127.0.0.1:1/x"}`, "only references inside"},
		{"another file", `{"$ref":"other.json"}`, "only references inside"},
		{"bad pattern", `{"pattern":"("}`, "not a JSON Schema"},
		{"too large", `{"description":"` + strings.Repeat("x", MaxSize) + `"}`, "bytes"},
	}
	for _, tt := range tests {
		_, err := Compile([]byte(tt.schema))
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
		}
	}
}

func TestValidateSaysWhere(t *testing.T) {
	s, err := Compile([]byte(`{"type":"object","properties":{"n":{"type":"integer","minimum":1},"l":{"type":"array","items":{"type":"string"}}},"required":["n"],"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ doc, err string }{
		{`{"n":1}`, ""},
		{`{"n":1,"l":["a"]}`, ""},
		{`{"n":9007199254740993}`, ""},
		{`{"n":0}`, "/n"},
		{`{"n":1.5}`, "/n"},
		{`{}`, "missing propert"},
		{`{"n":1,"l":["a",2]}`, "/l/1"},
		{`{"n":1,"x":1}`, "additional"},
		{`null`, "got null"},
		{`{"n":1`, "not JSON"},
		{`{"n":1} {}`, "not JSON"},
		{``, "not JSON"},
		{strings.Repeat("[", 20000), "not JSON"},
	}
	for _, tt := range tests {
		err := s.Validate([]byte(tt.doc))
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%.40s: %v, want %q", tt.doc, err, tt.err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40s: more than a line: %v", tt.doc, err)
		}
	}
}
