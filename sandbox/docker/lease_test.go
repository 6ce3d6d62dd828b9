package docker

import (
	"os"
	"testing"
)

// THREATS 13.
func TestALeaseDiesWithItsHolder(t *testing.T) {
	dir := t.TempDir()
	a, err := takeLease(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := takeLease(dir)
	if err != nil {
		t.Fatal(err)
	}
	if a.host != b.host || a.id == b.id {
		t.Errorf("host ids %q %q, lease ids %q %q", a.host, b.host, a.id, b.id)
	}
	if b.dead(a.id) || b.dead(b.id) || a.dead(b.id) {
		t.Error("a live lease is called dead")
	}
	// As when the process is killed: the file stays, the lock goes.
	if err := a.file.Close(); err != nil {
		t.Fatal(err)
	}
	if !b.dead(a.id) || !b.dead("never-was") {
		t.Error("a dead lease is called alive")
	}
	b.sweep()
	if _, err := os.Stat(a.path(a.id)); !os.IsNotExist(err) {
		t.Errorf("the dead lease's file is still there: %v", err)
	}
	if _, err := os.Stat(b.path(b.id)); err != nil {
		t.Errorf("the live lease's file is gone: %v", err)
	}
	b.release()
	if left, _ := os.ReadDir(b.dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestLabelsOfOthersAreNoPaths(t *testing.T) {
	l, err := takeLease(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer l.release()
	for _, id := range []string{"", "../host-id", "a/b"} {
		if !l.dead(id) {
			t.Errorf("%q is called alive", id)
		}
	}
}
