package workflow

import (
	"bytes"
	"os"
	"testing"
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
