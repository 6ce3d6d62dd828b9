package images_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/images"
)

func TestParseEngines(t *testing.T) {
	tests := []struct{ list, tag, err string }{
		{"claude", "herd-runner/agent:claude", ""},
		{"codex, claude,codex", "herd-runner/agent:claude-codex", ""},
		{"all", "herd-runner/agent:claude-codex-gemini-opencode", ""},
		{"", "", "no engine is named"},
		{",", "", "no engine is named"},
		{"claude,cursor", "", `unknown engine "cursor": expected some of claude, codex, gemini, opencode, or all`},
	}
	for _, tt := range tests {
		engines, err := images.ParseEngines(tt.list)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: %v, want %q", tt.list, err, tt.err)
			}
			continue
		}
		if got := images.Tag(engines); err != nil || got != tt.tag {
			t.Errorf("%q: %s, %v", tt.list, got, err)
		}
	}
}

func TestLacks(t *testing.T) {
	labels := map[string]string{images.LabelEngines: "claude,codex"}
	for engine, want := range map[string]bool{"claude": false, "codex": false, "gemini": true, "anthropic": false} {
		if _, lacks := images.Lacks(labels, engine); lacks != want {
			t.Errorf("%s: %v", engine, lacks)
		}
	}
	if _, lacks := images.Lacks(nil, "gemini"); lacks {
		t.Error("an image without labels may have anything")
	}
}

// TestUnpack compares with the directory itself, and the engines of the script
// with ours.
func TestUnpack(t *testing.T) {
	dir := t.TempDir()
	if err := images.Unpack(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{images.BuildScript, "Dockerfile", "versions.env", "stage-engine.sh", "extra-ca/README.md"} {
		want, err := os.ReadFile(filepath.Join("agent", name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
	st, err := os.Stat(filepath.Join(dir, images.BuildScript))
	if err != nil || st.Mode().Perm()&0o100 == 0 {
		t.Errorf("the script can not be started: %v, %v", st, err)
	}
	script, err := os.ReadFile(filepath.Join(dir, images.BuildScript))
	if err != nil {
		t.Fatal(err)
	}
	known := `known="` + strings.Join(images.Engines(), " ") + `"`
	if !slices.Contains(strings.Split(string(script), "\n"), known) {
		t.Errorf("%s has no line %s", images.BuildScript, known)
	}
}
