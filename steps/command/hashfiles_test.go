package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// digestOf is what hashFiles gives for files of these contents, in this order.
func digestOf(contents ...string) string {
	if len(contents) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, c := range contents {
		one := sha256.Sum256([]byte(c))
		sum.Write(one[:])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// project makes a workspace in which each file holds its own name.
func project(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSemantics24HashFiles(t *testing.T) {
	dir := project(t, "go.sum", "a/go.sum", "a.x/go.sum", "a/b/go.mod", "a/b/go.sum", ".hidden/go.sum", "b/x.txt", "{b}/y.txt", "b/[z].txt")
	for _, c := range []struct {
		patterns []string
		want     []string
	}{
		{[]string{"go.sum"}, []string{"go.sum"}},
		{[]string{"**/go.sum"}, []string{".hidden/go.sum", "a/b/go.sum", "a/go.sum", "a.x/go.sum", "go.sum"}},
		{[]string{"**/go.sum", "!a/**"}, []string{".hidden/go.sum", "a.x/go.sum", "go.sum"}},
		{[]string{"**/go.sum", "!a"}, []string{".hidden/go.sum", "a.x/go.sum", "go.sum"}},
		{[]string{"**/go.sum", "!**/go.sum", "a/go.sum"}, []string{"a/go.sum"}},
		{[]string{"!a/**", "**/go.sum"}, []string{".hidden/go.sum", "a/b/go.sum", "a/go.sum", "a.x/go.sum", "go.sum"}},
		{[]string{"b/x.txt", "a/b"}, []string{"b/x.txt", "a/b/go.mod", "a/b/go.sum"}},
		{[]string{"a/b/go.sum", "a"}, []string{"a/b/go.mod", "a/b/go.sum", "a/go.sum"}},
		{[]string{"a/b/"}, []string{"a/b/go.mod", "a/b/go.sum"}},
		{[]string{"go.sum/"}, nil},
		{[]string{"b/*.txt\n# comment\n!b/x.*"}, []string{"b/[z].txt"}},
		{[]string{"b/[[]z].txt"}, []string{"b/[z].txt"}},
		{[]string{"{b}/*"}, []string{"{b}/y.txt"}},
		{[]string{"{a,b}/x.txt"}, nil},
		{[]string{"./b/?.txt"}, []string{"b/x.txt"}},
		{[]string{filepath.Join(dir, "b/x.*")}, []string{"b/x.txt"}},
		{[]string{"/etc/passwd", "~/x"}, nil},
		{[]string{"nothing/**"}, nil}, {nil, nil}, {[]string{""}, nil},
	} {
		got, err := HashFiles(context.Background(), dir, c.patterns)
		if err != nil || got != digestOf(c.want...) {
			t.Errorf("%q: %q, %v; want that of %q", c.patterns, got, err, c.want)
		}
	}
}

func TestSemantics24HashFilesStaysInTheWorkspace(t *testing.T) {
	outside := project(t, "secret")
	dir := project(t, "real/x", "y")
	links := map[string]string{
		"out": filepath.Join(outside, "secret"), "outdir": outside, "broken": "nowhere", "real/loop": "..",
		"in": "y", "abs": filepath.Join(dir, "real/x"), "dir": "real",
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		patterns, want []string
	}{
		{[]string{"**"}, []string{"real/x", "y", "real/x", "y"}}, // abs, in, real/x, y
		{[]string{"outdir/secret", "out", "broken"}, nil},
		{[]string{"dir"}, nil},
		{[]string{"--follow-symbolic-links", "dir/x"}, []string{"real/x"}},
		{[]string{"--follow-symbolic-links", "dir", "!**/loop"}, []string{"real/x"}},
		{[]string{"--follow-symbolic-links", "outdir/**", "out"}, nil},
	} {
		got, err := HashFiles(context.Background(), dir, c.patterns)
		if err != nil || got != digestOf(c.want...) {
			t.Errorf("%q: %q, %v; want that of %q", c.patterns, got, err, c.want)
		}
	}
}

func TestHashFilesEndsInACycleOfLinks(t *testing.T) {
	dir := project(t, "a/x")
	if err := os.Symlink("..", filepath.Join(dir, "a/up")); err != nil {
		t.Fatal(err)
	}
	got, err := HashFiles(context.Background(), dir, []string{"--follow-symbolic-links", "**"})
	if err != nil || got != digestOf("a/x") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestHashFilesErrors(t *testing.T) {
	dir := project(t, "a")
	for _, c := range []struct{ pattern, message string }{
		{"../x", "relative pathing"}, {"a/./b", "relative pathing"}, {"--follow", "expected --follow-symbolic-links"},
	} {
		if _, err := HashFiles(context.Background(), dir, []string{c.pattern}); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v", c.pattern, err)
		}
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := HashFiles(cancelled, dir, []string{"**"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
