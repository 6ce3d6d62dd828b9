package workflow

import (
	"bytes"
	"os"
	"testing"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// SEMANTICS 39: bad input never panics, and every problem has a place.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/ok/*.yml", "testdata/err/*.yml"} {
		for _, path := range mustGlob(f, pattern) {
			src, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		w, plan, ps := Validate("f.yml", src)
		if w == nil && !HasErrors(ps) {
			t.Fatal("neither a workflow nor an error")
		}
		for _, p := range ps {
			if p.Line < 1 || p.Column < 1 || p.Length < 1 || p.Message == "" {
				t.Fatalf("no place: %+v", p)
			}
		}
		var out bytes.Buffer
		if err := RenderText(&out, src, ps, true); err != nil {
			t.Fatal(err)
		}
		if plan != nil {
			if err := Graph(&out, plan, "mermaid"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// SEMANTICS 1, 5: a condition is true, false or an error at its place, whatever
// stands in it, and an error never means false.
func FuzzCondition(f *testing.F) {
	for _, text := range []string{
		"", "always()", "${{ failure() || github.x == 'a' }}", "success() && !cancelled()", "'success()'", "${{ a }} b", "!true",
		"github['a'].b.*.c[0] >= 0x1f", "contains(fromJSON('[1, null]'), null)", "case(true, 'a', 'b')", "''''", "1 < ", "\"x\"", "if",
		"hashFiles('**')", "${{ '}}' }}", "((((((1))))))", "toJSON(github)", "-.5e-3 == -0", "\u00a0success()\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, env := range []expr.Env{status(true, false, false), status(false, true, false), status(false, false, true)} {
			v := &Value{Text: text, Plain: text, Pos: Pos{1, 1}}
			ok, err := Condition(v, env)
			if err == nil {
				continue
			}
			e, placed := err.(*EvalError)
			if ok || !placed || e.Msg == "" || e.Pos.Line < 1 || e.Pos.Column < 1 {
				t.Fatalf("%v, %#v", ok, err)
			}
		}
	})
}
