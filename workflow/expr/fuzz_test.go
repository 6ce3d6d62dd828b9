package expr

import (
	"errors"
	"testing"
)

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "1", "github.ref == 'refs/heads/main' && !cancelled()", "a.*.b[0]['x']", "format('{0}{{', 1)", "((1)", "0x1g", "'😀",
		"case(true, 1, 2)", "fromJSON('[1,{\"a\":null}]').*", "a[*].b", "!!!1", "1 <= 'x'", "..a", "toJSON(a)",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, src string) {
		env, _ := contextEnv(t, contexts)
		e, err := Parse(src)
		if err == nil {
			for _, r := range e.Refs() {
				_ = src[r.Offset : r.Offset+r.Length]
			}
			for _, c := range e.Calls() {
				_ = src[c.Offset : c.Offset+c.Length]
			}
			var v Value
			if v, err = e.Eval(env); err == nil {
				if _, err := FromJSON(AppendJSON(nil, v)); err != nil {
					t.Fatalf("%q gives what is no JSON: %v", src, err)
				}
				return
			}
		}
		var own *Error
		if !errors.As(err, &own) || own.Message == "" || own.Offset < 0 || own.Offset+own.Length > len(src) {
			t.Fatalf("%q: %#v", src, err)
		}
	})
}

func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"", "a ${{ 1 }} b", "${{ '}}' }}", "${{", "${{}}", "${{ 'a", "$${{ x }}}}", "${{ a.b }}${{ c }}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, src string) {
		env, _ := contextEnv(t, contexts)
		tmpl, err := ParseTemplate(src)
		if err == nil {
			var v Value
			if v, err = tmpl.Eval(env); err == nil {
				if tmpl.Static() && v != src {
					t.Fatalf("%q became %q", src, v)
				}
				return
			}
		}
		var own *Error
		if !errors.As(err, &own) || own.Offset < 0 || own.Offset+own.Length > len(src) {
			t.Fatalf("%q: %#v", src, err)
		}
	})
}
