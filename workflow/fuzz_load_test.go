package workflow

import (
	"bytes"
	"io/fs"
	"testing"

	"golang.org/x/tools/txtar"
)

// SEMANTICS 39: bad actions and called workflows never panic, and every problem
// in them has a place.
func FuzzLoad(f *testing.F) {
	for _, name := range mustGlob(f, "testdata/uses/*.txtar") {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range archive.Files {
			f.Add(file.Data)
		}
	}
	const src = "on: push\njobs: {a: {steps: [{id: s, uses: ./act, with: {who: x}}, {run: \"${{ steps.s.outputs.x }}\"}]}, b: {uses: ./w.yml, with: {to: x}, secrets: inherit}}\n"
	f.Fuzz(func(t *testing.T, used []byte) {
		w, plan, ps := Load("f.yml", []byte(src), func(name string) ([]byte, error) {
			if name == "act/action.yml" || name == "w.yml" {
				return used, nil
			}
			return nil, fs.ErrNotExist
		})
		for _, p := range ps {
			if p.File == "" || p.Line < 1 || p.Column < 1 || p.Length < 1 || p.Message == "" {
				t.Fatalf("no place: %+v", p)
			}
		}
		var out bytes.Buffer
		if err := w.RenderText(&out, ps, true); err != nil {
			t.Fatal(err)
		}
		if plan != nil {
			if err := Graph(&out, plan, "text"); err != nil {
				t.Fatal(err)
			}
		}
	})
}
