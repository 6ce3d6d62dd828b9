package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTextIsWhatEncodingJSONReads(t *testing.T) {
	for _, raw := range []string{
		`""`, `"a"`, `"a\nb\t\"\\\/\b\f\r"`, `"\u00e9\u20AC"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ud83d\u0041"`,
		`"\ude00\ud83d"`, "\"a\xffb\"", "\"\\n\xff\"", `"\x"`, `"\u12"`, `"\u12zz"`, "\"a\nb\"", `"tail\\"`, `7`, `null`, `{}`, ``, `"`,
	} {
		var want string
		if json.Unmarshal([]byte(raw), &want) != nil {
			want = ""
		}
		if got := Text([]byte(raw)); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

func TestControlCharactersAreNotText(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			raw := []byte(`"` + strings.Repeat("x", at) + string([]byte{byte(c)}) + strings.Repeat("\u00e9", 5) + `"`)
			var want string
			if json.Unmarshal(raw, &want) != nil {
				want = ""
			}
			if got := Text(raw); c != '"' && got != want {
				t.Fatalf("%q: %q, want %q", raw, got, want)
			}
		}
	}
}

func TestObject(t *testing.T) {
	tests := []struct {
		in    string
		want  string // key=value pairs
		whole bool
	}{
		{`{}`, "", true},
		{`{"a":1,"b":"x,}\"","c":[{"a":2}],"d":null}`, `a=1 b="x,}\"" c=[{"a":2}] d=null`, true},
		{" { \"a\" :\t1 , \"b\" : 2 } ", "a=1 b=2", true},
		{`{"a":1}{"b":2}`, "a=1", false},
		{`{"a":1`, "a=1", false},
		{`{"a":"x`, "", false},
		{`{"a":{"b":1}`, `a={"b":1}`, false},
		{`{"a" 1}`, "", false},
		{`{a:1}`, "", false},
		{`{"a":}`, "", false},
		{`[1]`, "", false},
		{``, "", false},
	}
	for _, tt := range tests {
		var got []string
		whole := Object([]byte(tt.in), func(k, v []byte) { got = append(got, string(k)+"="+string(v)) })
		if s := strings.Join(got, " "); s != tt.want || whole != tt.whole {
			t.Errorf("%s: %s (whole %v)", tt.in, s, whole)
		}
	}
}

func TestDeepNestingCostsNoStack(t *testing.T) {
	deep := []byte(`{"a":` + strings.Repeat("[", 8<<20) + strings.Repeat("]", 8<<20) + `}`)
	seen := 0
	if !Object(deep, func(_, v []byte) { seen = len(v) }) || seen != 16<<20 {
		t.Errorf("saw %d bytes", seen)
	}
	if Clean(deep) != nil {
		t.Error("what encoding/json can not read is not clean")
	}
}

func FuzzScan(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"\u00e9"],"b":{"c":null}}`, `{"a":"\\"}`, `{"`, `["a",`, "{\"a\":\x00}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fields := map[string]string{}
		whole := Object(data, func(k, v []byte) {
			fields[string(k)] = string(v)
			Array(v, func(e []byte) { Text(e) })
		})
		var want map[string]json.RawMessage
		if !utf8.Valid(data) || json.Unmarshal(data, &want) != nil || want == nil {
			return // a run of invalid bytes is one U+FFFD here, several there
		}
		if !whole {
			t.Fatalf("encoding/json reads %q, Object does not", data)
		}
		for k, v := range want {
			if bytes.ContainsAny([]byte(k), "\\\uFFFD") {
				continue // keys are compared as they are written
			}
			if fields[k] != string(v) {
				t.Errorf("field %q is %q, want %q", k, fields[k], v)
			}
			var s string
			if json.Unmarshal(v, &s) == nil && Text([]byte(fields[k])) != s {
				t.Errorf("text of %s is %q, want %q", v, Text([]byte(fields[k])), s)
			}
		}
	})
}
