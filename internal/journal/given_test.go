package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGiven(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, "20260101-000000-abcd")
	if err != nil {
		t.Fatal(err)
	}
	want := Given{
		Workflow: "w.yml", Job: "build", EventName: "push", Payload: []byte(`{"a":[1,"ä"]}`), InputsEvent: "push",
		Inputs: map[string]string{"a": "1\n\x00"}, Vars: map[string]string{"v": ""}, GitHub: []byte(`{"sha":"x"}`),
		Secrets: []string{"K"}, Env: []string{"E"},
		Files: map[string]*File{
			"w.yml":       NewFile([]byte("on: push\n"), true),
			"secret.yml":  NewFile([]byte("hidden"), false),
			"invalid.yml": NewFile([]byte("\xff"), true),
		},
	}
	w.WriteGiven(want)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir, "latest")
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Given()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if f := got.Files["secret.yml"]; f.Text != nil || !f.Is([]byte("hidden")) || f.Is([]byte("other")) {
		t.Errorf("a text that must not be kept: %+v", f)
	}
	if f := got.Files["invalid.yml"]; f.Text != nil {
		t.Errorf("what JSON cannot hold was kept: %+v", f)
	}
}

// What a killed runner, an older one or somebody's hand has left is an error for
// people, and no panic.
func TestGivenThatCanNotBeUsed(t *testing.T) {
	const sum = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" // of "test"
	for _, c := range []struct{ name, text, want string }{
		{"cut off", `{"workflow":"w.yml","fil`, "can not be read"},
		{"empty", ``, "can not be read"},
		{"another kind", `[]`, "can not be read"},
		{"deep", strings.Repeat("[", 100_000), "can not be read"},
		{"without its workflow", `{"workflow":"w.yml","files":{}}`, `does not hold the workflow "w.yml"`},
		{"a file of nothing", `{"workflow":"w.yml","files":{"w.yml":{"sha256":"` + sum + `","text":"test"},"b":null}}`, `the text of "b"`},
		{"another text", `{"workflow":"w.yml","files":{"w.yml":{"sha256":"` + sum + `","text":"changed"}}}`, "is not the one that the run has read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Reader{ID: "x", Dir: t.TempDir()}
			if err := os.WriteFile(filepath.Join(r.Dir, givenName), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Given(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	var none *NoGivenError
	if _, err := (&Reader{ID: "x", Dir: t.TempDir()}).Given(); !errors.As(err, &none) || none.Hint() == "" {
		t.Errorf("of a run without one: %v", err)
	}
}
