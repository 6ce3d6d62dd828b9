package guests

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"
)

func TestWrite(t *testing.T) {
	from := fstest.MapFS{
		"embedded/linux-arm64":    {Data: []byte("an executable")},
		"embedded/linux-arm64.id": {Data: []byte("build 1")},
		"embedded/linux-noid":     {Data: []byte("an executable")},
	}
	dir := filepath.Join(t.TempDir(), "guests")
	name, err := write(from, dir, "arm64")
	if err != nil {
		t.Fatal(err)
	}
	complete := func() {
		t.Helper()
		b, err := os.ReadFile(name)
		if st, _ := os.Stat(name); err != nil || string(b) != "an executable" || st.Mode().Perm() != 0o755 {
			t.Errorf("got %q, %v", b, err)
		}
	}
	complete()
	if again, err := write(from, dir, "arm64"); err != nil || again != name {
		t.Errorf("the second time: %s, %v", again, err)
	}
	if err := os.Truncate(name, 3); err != nil {
		t.Fatal(err)
	}
	if again, err := write(from, dir, "arm64"); err != nil || again != name {
		t.Errorf("where a part of it is lost: %s, %v", again, err)
	}
	complete()
	if _, err := write(from, dir, "riscv64"); !errors.Is(err, ErrNone) {
		t.Errorf("an architecture it does not have: %v", err)
	}
	if _, err := write(from, dir, "noid"); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("one that nothing is known by: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

// TestOldVersionsGo: a new version removes those that nobody has used for weeks, and
// using one counts.
func TestOldVersionsGo(t *testing.T) {
	dir := t.TempDir()
	version := func(id string) string {
		t.Helper()
		name, err := write(fstest.MapFS{"embedded/linux-amd64": {Data: []byte("x")}, "embedded/linux-amd64.id": {Data: []byte(id)}}, dir, "amd64")
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	unused, used, recent := version("1"), version("2"), version("3")
	other := filepath.Join(dir, "notes")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * unusedFor)
	for _, name := range []string{unused, used, other} {
		if err := os.Chtimes(name, long, long); err != nil {
			t.Fatal(err)
		}
	}
	version("2")
	newest := version("4")
	for _, name := range []string{used, recent, newest, other} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(unused); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the version that nobody uses: %v", err)
	}
}
