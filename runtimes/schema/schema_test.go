package schema

import (
	"strconv"
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
		{"nothing there", `{"properties":{"a":{"$ref":"#/$defs/a"}}}`, "/properties/a/$ref: nothing is at"},
		{"no such anchor", `{"$ref":"#a"}`, "nothing is called"},
		{"itself", `{"$ref":"#"}`, "leads back"},
		{"in a circle", `{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, "leads back"},
		{"bad pattern", `{"pattern":"("}`, "not a JSON Schema"},
		{"a pattern that goes back", `{"pattern":"(a)\\1"}`, "not a JSON Schema"},
		{"no number", `{"properties":{"a/b":{"minimum":"1"}}}`, "/properties/a~1b/minimum: expected a number"},
		{"below zero", `{"minLength":-1}`, "/minLength: expected a whole number"},
		{"no schema", `{"items":3}`, "/items: expected a schema"},
		{"another draft", `{"$schema":"https://example.com/mine"}`, "expected a draft"},
		{"dynamic", `{"$dynamicRef":"#a"}`, "not supported"},
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
		{`{"l":[1],"x":1}`, `additional property "x" is not allowed; /l/0: got integer, want string; missing property "n"`},
		{`{"n":1e999999999}`, "more digits"},
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

// What asks for too much ends in an error, soon.
func TestHostile(t *testing.T) {
	wide := strings.Repeat(`{"$ref":"#/$defs/next"},`, 20) + "true"
	levels := ""
	for i := range 20 {
		levels += strings.Replace(`"L":{"allOf":[`+strings.ReplaceAll(wide, "next", "l"+strconv.Itoa(i+1))+`]},`, "L", "l"+strconv.Itoa(i), 1)
	}
	tests := []struct{ name, schema, doc, err string }{
		{"exponential", `{"$ref":"#/$defs/l0","$defs":{` + levels + `"l20":{"type":"string"}}}`, `1`, "more than"},
		{"repetition in a pattern", `{"pattern":"^(a+)+$"}`, `"` + strings.Repeat("a", 100000) + `b"`, "pattern"},
		{"large enum", `{"items":{"enum":["` + strings.Repeat("x", 1000) + `"]}}`, `["` + strings.Repeat("y", 100000) + `"]`, "want"},
		{"deep", `{"items":{"$ref":"#"}}`, strings.Repeat("[", 9000) + strings.Repeat("]", 9000), ""},
		{"deep and wrong", `{"type":"array","items":{"$ref":"#"}}`, strings.Repeat("[", 9000) + "1" + strings.Repeat("]", 9000), "/0/0"},
		{"terminal", `{"additionalProperties":false}`, `{"\u001b[2J\n":1}`, `\x1b`},
	}
	for _, tt := range tests {
		s, err := Compile([]byte(tt.schema))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		err = s.Validate([]byte(tt.doc))
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %.300v, want %q", tt.name, err, tt.err)
		}
		if err != nil && (len(err.Error()) > maxText+10 || strings.ContainsAny(err.Error(), "\n\x1b")) {
			t.Errorf("%s: not one short line: %q", tt.name, err)
		}
	}
}
