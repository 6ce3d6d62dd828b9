package expr

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestObject(t *testing.T) {
	o := NewObject()
	o.Set("Beta", 1.0)
	o.Set("alpha", 2.0)
	o.Set("BETA", 3.0)
	o.Set("Übung", 4.0)
	if v, ok := o.Get("üBUNG"); !ok || v != 4.0 {
		t.Error("a key with an umlaut is not found without regard to case", v)
	}
	if diff := cmp.Diff([]string{"Beta", "alpha", "Übung"}, o.Keys()); diff != "" {
		t.Error(diff)
	}
	keys := o.Keys()
	o.Delete("bETA")
	o.Delete("not there")
	if v, ok := o.Get("alpha"); !ok || v != 2.0 || o.Len() != 2 {
		t.Error("after Delete:", v, o.Len())
	}
	if _, ok := o.Get("beta"); ok || keys[0] != "Beta" {
		t.Error("Delete left the key or changed a slice that was given out")
	}
	var none *Object
	if _, ok := none.Get("x"); ok || none.Len() != 0 || none.Keys() != nil {
		t.Error("a nil Object is not empty")
	}
}

func TestCaseSensitiveObject(t *testing.T) {
	o := NewCaseSensitiveObject()
	o.Set("PATH", "a")
	o.Set("Path", "b")
	env := Env{Context: func(string) (Value, bool) { return o, true }}
	for src, want := range map[string]Value{"env.PATH": "a", "env.Path": "b", "env['path']": nil, "env[format('Pa{0}', 'th')]": "b"} {
		e, err := Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := e.Eval(env); err != nil || v != want {
			t.Errorf("%s = %v, %v", src, v, err)
		}
	}
}

func TestFromGo(t *testing.T) {
	type record struct {
		Name string `json:"name"`
	}
	shared := NewObject()
	for _, c := range []struct {
		in   any
		want string
	}{
		{nil, "null"}, {true, "true"}, {3, "3"}, {int64(4), "4"}, {uint8(5), "5"}, {float32(0.5), "0.5"}, {"x", `"x"`},
		{map[string]string{"b": "1", "a": "2"}, `{"a":"2","b":"1"}`}, {map[string]any{"z": []any{1, "a", nil}, "y": shared}, `{"y":{},"z":[1,"a",null]}`},
		{[]string{"p", "q"}, `["p","q"]`}, {json.RawMessage(`{"z":1,"a":2}`), `{"z":1,"a":2}`}, {record{"n"}, `{"name":"n"}`},
		{[]string(nil), `[]`}, {math.NaN(), `"NaN"`}, {(*Object)(nil), "null"}, {json.Number("12"), "12"},
	} {
		if got := string(AppendJSON(nil, FromGo(c.in))); got != c.want {
			t.Errorf("%#v = %s, want %s", c.in, got, c.want)
		}
	}
	if FromGo(shared) != Value(shared) {
		t.Error("an Object loses its identity")
	}
}

func TestAppendJSONIsJSON(t *testing.T) {
	v := FromGo(map[string]any{"inf": math.Inf(-1), "tiny": 1e-9, "big": 1e300, "bytes": "\xff\x00\u2028\"", "n": math.Copysign(0, -1)})
	data := AppendJSON(nil, v)
	if !json.Valid(data) {
		t.Errorf("%s is no JSON", data)
	}
}
