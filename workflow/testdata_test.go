package workflow

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func updateGolden() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the golden files anew")
	flag.Parse()
	os.Exit(m.Run())
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if updateGolden() {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func mustGlob(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files match %s: %v", pattern, err)
	}
	return paths
}

// SEMANTICS 38: what is wrong in a file is reported at once, under the exact text.
func TestBadFilesAreReported(t *testing.T) {
	for _, path := range mustGlob(t, "testdata/err/*.yml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, plan, ps := Validate(filepath.Base(path), src)
			if len(ps) == 0 {
				t.Error("nothing was reported")
			}
			if HasErrors(ps) && plan != nil {
				t.Error("there is a plan although there are errors")
			}
			var out bytes.Buffer
			if err := RenderText(&out, src, ps, false); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(path, ".yml")+".txt", out.Bytes())
		})
	}
}

func TestGoodFilesHaveNoProblems(t *testing.T) {
	for _, path := range mustGlob(t, "testdata/ok/*.yml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, plan, ps := Validate(filepath.Base(path), src)
			for _, p := range ps {
				if p.Severity != SeverityNote {
					t.Errorf("%+v", p)
				}
			}
			if plan == nil {
				t.Fatal("no plan")
			}
			var out bytes.Buffer
			for _, format := range []string{"text", "mermaid", "dot"} {
				out.WriteString("== " + format + "\n")
				if err := Graph(&out, plan, format); err != nil {
					t.Fatal(err)
				}
			}
			golden(t, strings.TrimSuffix(path, ".yml")+".txt", out.Bytes())
		})
	}
}
