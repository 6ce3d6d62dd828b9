package guests

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

func TestWrite(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte("an executable")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	from := fstest.MapFS{
		"embedded/linux-arm64.gz": {Data: packed.Bytes()},
		"embedded/linux-cut.gz":   {Data: packed.Bytes()[:packed.Len()-6]},
	}
	dir := filepath.Join(t.TempDir(), "guests")
	name, err := write(from, dir, "arm64")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if st, _ := os.Stat(name); err != nil || string(b) != "an executable" || st.Mode().Perm() != 0o755 {
		t.Errorf("got %q, %v", b, err)
	}
	if again, err := write(from, dir, "arm64"); err != nil || again != name {
		t.Errorf("the second time: %s, %v", again, err)
	}
	if _, err := write(from, dir, "riscv64"); !errors.Is(err, ErrNone) {
		t.Errorf("an architecture it does not have: %v", err)
	}
	if _, err := write(from, dir, "cut"); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("half an executable: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}
