package workspace

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// contents are the files and links below dir, with what they hold.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		if !d.Type().IsRegular() {
			all[rel] = d.Type().String()
			return nil
		}
		b, err := os.ReadFile(name)
		all[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func put(t *testing.T, text string, parts ...string) {
	t.Helper()
	name := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestCopySession (DOCKER-04): only what makes up the session is taken, in place
// of what was there.
func TestCopySession(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	put(t, "one", from, ".agent/projects/a/1.jsonl")
	put(t, "settings", from, ".agent/settings.json")
	put(t, "notes", from, "notes.txt")
	put(t, "old", to, ".agent/projects/b/0.jsonl")
	put(t, "mine", to, ".agent/settings.json")
	if found, err := CopySession(from, to, []string{".agent/projects", ".other"}); err != nil || !found {
		t.Fatal(found, err)
	}
	want := map[string]string{".agent/projects/a/1.jsonl": "one", ".agent/settings.json": "mine"}
	if diff := cmp.Diff(want, contents(t, to)); diff != "" {
		t.Error(diff)
	}
	put(t, "db", from, ".agent/share/a.db")
	put(t, "wal", from, ".agent/share/a.db-wal")
	put(t, "plugin", from, ".agent/share/plugin.js")
	if found, err := CopySession(from, to, []string{".agent/share/a.db*"}); err != nil || !found {
		t.Fatal(found, err)
	}
	want[".agent/share/a.db"], want[".agent/share/a.db-wal"] = "db", "wal"
	if diff := cmp.Diff(want, contents(t, to)); diff != "" {
		t.Error(diff)
	}
	if found, err := CopySession(from, to, []string{".other"}); err != nil || found {
		t.Errorf("found %t, %v", found, err)
	}
}

// TestCopySessionStaysInside (THREATS 16): what an agent has left in its HOME
// leads neither the reading nor the writing out of it, and nothing hangs.
func TestCopySessionStaysInside(t *testing.T) {
	from, to, outside := t.TempDir(), t.TempDir(), t.TempDir()
	put(t, "secret", outside, "secret")
	put(t, "precious", outside, "projects/a/precious")
	put(t, "one", from, "s/projects/a/1.jsonl")
	dir := filepath.Join(from, "s/projects/a")
	for name, target := range map[string]string{"link": filepath.Join(outside, "secret"), "dir": outside, "up": "../../../.."} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := CopySession(from, to, []string{"s/projects"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"s/projects/a/1.jsonl": "one"}, contents(t, to)); diff != "" {
		t.Error(diff)
	}

	// A HOME whose directories are links.
	led := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(led, "s")); err != nil {
		t.Fatal(err)
	}
	if _, err := CopySession(from, led, []string{"s/projects"}); err == nil || !strings.Contains(err.Error(), "escapes") {
		t.Errorf("written through a link: %v", err)
	}
	if found, err := CopySession(led, t.TempDir(), []string{"s/projects"}); err == nil && found {
		t.Error("read through a link")
	}
	if diff := cmp.Diff(map[string]string{"secret": "secret", "projects/a/precious": "precious"}, contents(t, outside)); diff != "" {
		t.Error(diff)
	}
}
