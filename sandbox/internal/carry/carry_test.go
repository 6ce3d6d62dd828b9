package carry

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// side is one of the two copies of a tree.
type side struct {
	t     *testing.T
	dir   string
	root  *os.Root
	known Stamps
}

func newSide(t *testing.T, files map[string]string) *side {
	t.Helper()
	s := &side{t: t, dir: t.TempDir(), known: Stamps{}}
	var err error
	if s.root, err = os.OpenRoot(s.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.root.Close() })
	for name, content := range files {
		s.write(name, content)
	}
	return s
}

func (s *side) path(name string) string { return filepath.Join(s.dir, name) }

func (s *side) write(name, content string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.path(name), []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *side) do(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// send brings what was changed here to the other side, and gives what was sent.
func (s *side) send(to *side) (sent, notices []string) {
	s.t.Helper()
	c, err := Look(s.root, ".", s.known, Default)
	s.do(err)
	var b bytes.Buffer
	s.do(c.Send(&b))
	notices, err = Receive(&b, to.root, ".", to.known, Default)
	s.do(err)
	s.known = c.Now()
	for _, name := range c.gone {
		sent = append(sent, "-"+name)
	}
	return append(sent, c.changed...), notices
}

// holds tells everything in the tree.
func (s *side) holds() map[string]string {
	s.t.Helper()
	m := map[string]string{}
	s.do(filepath.WalkDir(s.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == s.dir {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(s.dir, name)
		m[rel] = fmt.Sprint(st.Mode())
		switch {
		case st.Mode().IsRegular():
			b, err := os.ReadFile(name)
			m[rel] += " " + st.ModTime().Format(time.RFC3339Nano) + " " + string(b)
			return err
		case st.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			m[rel] += " " + target
			return err
		}
		return nil
	}))
	return m
}

func TestBothSidesBecomeTheSame(t *testing.T) {
	a := newSide(t, map[string]string{"a": "one", "d/b": "two", "d/e/c": "three", "gone/x": "", "new\nline": "n", "-rf/-x": "dash", "bad\xff": "b"})
	b := newSide(t, nil)
	a.do(os.Symlink("/etc/passwd", a.path("out")))
	a.do(os.Symlink("d", a.path("in")))
	a.do(os.Chmod(a.path("a"), 0o755))
	a.do(os.Chmod(a.path("d/e"), 0o500))
	t.Cleanup(func() {
		for _, s := range []*side{a, b} {
			_ = os.Chmod(s.path("d/e"), 0o700)
		}
	})
	same := func(when string) {
		t.Helper()
		if diff := cmp.Diff(a.holds(), b.holds()); diff != "" {
			t.Errorf("%s: they differ (-a +b):\n%s", when, diff)
		}
	}
	a.send(b)
	same("at first")
	if sent, _ := a.send(b); len(sent) > 0 {
		t.Errorf("a sends %q again", sent)
	}
	if sent, _ := b.send(a); len(sent) > 0 {
		t.Errorf("b sends %q back", sent)
	}
	// What b does, with times that do not show it.
	st, err := os.Stat(b.path("d/b"))
	b.do(err)
	b.write("d/b", "2wo")
	b.do(os.Chtimes(b.path("d/b"), st.ModTime(), st.ModTime()))
	b.do(os.RemoveAll(b.path("gone")))
	b.do(os.Remove(b.path("in")))
	b.write("in/now/a/directory", "x")
	b.do(os.Chmod(b.path("d/e"), 0o700))
	b.write("d/e/c", "thr")
	b.do(os.Chmod(b.path("d/e"), 0o500))
	sent, _ := b.send(a)
	if diff := cmp.Diff([]string{"-gone/x", "-gone", "d/b", "d/e/c", "in", "in/now", "in/now/a", "in/now/a/directory"}, sent); diff != "" {
		t.Errorf("b sent (-want +got):\n%s", diff)
	}
	same("after b's changes")
	if sent, _ := a.send(b); len(sent) > 0 {
		t.Errorf("a sends %q back", sent)
	}
}

// A file that was changed a moment ago is sent once: what is done to it on the other
// side then, while somebody else's box starts, stays.
func TestFreshFilesAreSentOnce(t *testing.T) {
	a, b := newSide(t, map[string]string{"a": "one"}), newSide(t, nil)
	if sent, _ := a.send(b); !cmp.Equal(sent, []string{".", "a"}) {
		t.Errorf("sent %q", sent)
	}
	b.write("a", "two")
	if sent, _ := a.send(b); len(sent) > 0 {
		t.Errorf("then sent %q", sent)
	}
	if sent, _ := b.send(a); !cmp.Equal(sent, []string{"a"}) {
		t.Errorf("back came %q", sent)
	}
}

// While a file is replaced who reads it finds the old one or the new one, whole.
func TestFilesAreReplacedInOneStep(t *testing.T) {
	contents := []string{strings.Repeat("one", 10_000), strings.Repeat("two", 10_000)}
	stream := func(content string) []byte {
		var b bytes.Buffer
		a := newSide(t, map[string]string{"a": content})
		c, err := Look(a.root, "a", nil, Default)
		a.do(err)
		a.do(c.Send(&b))
		return b.Bytes()
	}
	streams := [][]byte{stream(contents[0]), stream(contents[1])}
	b := newSide(t, map[string]string{"a": contents[0]})
	var over atomic.Bool
	received := make(chan error, 1)
	go func() {
		defer over.Store(true)
		for i := range 300 {
			if _, err := Receive(bytes.NewReader(streams[i%2]), b.root, "a", b.known, Default); err != nil {
				received <- err
				return
			}
		}
		received <- nil
	}()
	for !over.Load() {
		if got, err := os.ReadFile(b.path("a")); err != nil || !slices.Contains(contents, string(got)) {
			t.Errorf("%d bytes, %v", len(got), err)
			break
		}
	}
	b.do(<-received)
	if left, err := os.ReadDir(b.dir); err != nil || len(left) != 1 {
		t.Errorf("there are %v, %v", left, err)
	}
}

func TestOtherKindsAreTold(t *testing.T) {
	a, b := newSide(t, map[string]string{"was": "file"}), newSide(t, nil)
	a.send(b)
	a.do(os.Remove(a.path("was")))
	for _, name := range []string{"was", "pipe"} {
		a.do(syscall.Mkfifo(a.path(name), 0o600))
	}
	sent, notices := a.send(b)
	if !cmp.Equal(sent, []string{"-was"}) || len(notices) != 2 || !strings.Contains(notices[0], `"pipe": it is neither`) {
		t.Errorf("sent %q, told %q", sent, notices)
	}
	if sent, notices := a.send(b); len(sent)+len(notices) > 0 {
		t.Errorf("then sent %q, told %q", sent, notices)
	}
}

func TestASingleFile(t *testing.T) {
	a, b := newSide(t, map[string]string{"file": "one"}), newSide(t, nil)
	known, there := Stamps{}, Stamps{}
	for _, content := range []string{"one", "three"} {
		a.write("file", content)
		c, err := Look(a.root, "file", known, Default)
		a.do(err)
		var buf bytes.Buffer
		a.do(c.Send(&buf))
		_, err = Receive(&buf, b.root, "7", there, Default)
		b.do(err)
		known = c.Now()
		if got, err := os.ReadFile(b.path("7")); err != nil || string(got) != content {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

// What something is mounted over is never replaced or removed.
func TestFixedNames(t *testing.T) {
	a, b := newSide(t, map[string]string{".git": "gitdir: x", ".herd/log": "secret"}), newSide(t, nil)
	l := Default
	l.Fixed = func(name string) bool { return name == ".git" || name == ".herd" }
	known := Stamps{}
	for _, change := range []func(){func() {}, func() { a.write(".git", "gitdir: y") }, func() { a.do(os.Remove(a.path(".git"))) }} {
		change()
		c, err := Look(a.root, ".", known, l)
		a.do(err)
		var buf bytes.Buffer
		a.do(c.Send(&buf))
		_, err = Receive(&buf, b.root, ".", b.known, Default)
		b.do(err)
		known = c.Now()
		if got := slicesOf(b.holds()); !cmp.Equal(got, []string{".git", ".herd"}) {
			t.Errorf("b holds %q", got)
		}
		if got, _ := os.ReadFile(b.path(".git")); string(got) != "gitdir: x" {
			t.Errorf(".git is %q", got)
		}
	}
}

func slicesOf(m map[string]string) []string {
	var names []string
	for _, name := range []string{".git", ".herd", ".herd/log"} {
		if _, ok := m[name]; ok {
			names = append(names, name)
		}
	}
	return names
}

// THREATS 16: a stream that wants more than to change the tree is refused, and
// nothing outside is touched.
func TestHostileStreams(t *testing.T) {
	file := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o4777, Size: 4}
	}
	link := func(name, target string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
	}
	small := Limits{Bytes: 100, Entries: 6}
	for name, tc := range map[string]struct {
		entries []tar.Header
		want    string // of the error; empty: none
	}{
		"up":                      {[]tar.Header{file("../x")}, "no path in the tree"},
		"up inside":               {[]tar.Header{file("d/../../x")}, "no path in the tree"},
		"absolute":                {[]tar.Header{file("/x")}, "no path in the tree"},
		"not clean":               {[]tar.Header{file("d//x")}, "no path in the tree"},
		"empty":                   {[]tar.Header{file("")}, "no path in the tree"},
		"through a link in":       {[]tar.Header{link("l", "d"), file("l/x")}, "no directory"},
		"through a link out":      {[]tar.Header{link("l", "/tmp"), file("l/x")}, "no directory"},
		"through a link there is": {[]tar.Header{file("door/x")}, "no directory"},
		"over a link there is":    {[]tar.Header{file("door")}, ""},
		"through a file":          {[]tar.Header{file("f/x")}, "no directory"},
		"hard link":               {[]tar.Header{{Typeflag: tar.TypeLink, Name: "h", Linkname: "f"}}, "entry of type"},
		"hard link out":           {[]tar.Header{{Typeflag: tar.TypeLink, Name: "h", Linkname: "/etc/shadow"}}, "entry of type"},
		"device":                  {[]tar.Header{{Typeflag: tar.TypeChar, Name: "c", Devmajor: 1, Devminor: 3}}, "entry of type"},
		"pipe":                    {[]tar.Header{{Typeflag: tar.TypeFifo, Name: "p"}}, "entry of type"},
		"unknown":                 {[]tar.Header{{Typeflag: tar.TypeReg, Name: "f", PAXRecords: map[string]string{recordIs: "x"}, Format: tar.FormatPAX}}, "unknown kind"},
		"remove the tree":         {[]tar.Header{{Typeflag: tar.TypeReg, Name: ".", PAXRecords: map[string]string{recordIs: isGone}, Format: tar.FormatPAX}}, "the tree itself"},
		"remove outside":          {[]tar.Header{{Typeflag: tar.TypeReg, Name: "../beside", PAXRecords: map[string]string{recordIs: isGone}, Format: tar.FormatPAX}}, "no path in the tree"},
		"remove through a link":   {[]tar.Header{{Typeflag: tar.TypeReg, Name: "door/beside", PAXRecords: map[string]string{recordIs: isGone}, Format: tar.FormatPAX}}, ""},
		"a link is the tree":      {[]tar.Header{link(".", "/tmp")}, "entry of type"},
		"too large":               {[]tar.Header{{Typeflag: tar.TypeReg, Name: "big", Size: 101}}, "more than 0 MiB"},
		"too many bytes":          {[]tar.Header{{Typeflag: tar.TypeReg, Name: "x", Size: 60}, {Typeflag: tar.TypeReg, Name: "y", Size: 60}}, "more than 0 MiB"},
		"too many":                {[]tar.Header{file("1"), file("2"), file("3"), file("4"), file("5"), file("6"), file("7")}, "more than 6"},
		"deep":                    {[]tar.Header{file(strings.Repeat("d/", maxDepth+1) + "x")}, "no path in the tree"},
	} {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			s := &side{t: t, dir: filepath.Join(outer, "tree"), known: Stamps{}}
			s.do(os.Mkdir(s.dir, 0o755))
			s.do(os.WriteFile(filepath.Join(outer, "beside"), []byte("beside"), 0o644))
			s.write("f", "f")
			s.write("d/f", "f")
			s.do(os.Symlink("..", s.path("door")))
			root, err := os.OpenRoot(s.dir)
			s.do(err)
			defer root.Close()
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for _, h := range tc.entries {
				s.do(w.WriteHeader(&h))
				_, err := w.Write(make([]byte, h.Size))
				s.do(err)
			}
			s.do(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: ".", PAXRecords: map[string]string{recordIs: isEnd}, Format: tar.FormatPAX}))
			s.do(w.Close())
			_, err = Receive(&b, root, ".", s.known, small)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			outside, err := os.ReadDir(outer)
			s.do(err)
			if len(outside) != 2 {
				t.Errorf("outside is now %v", outside)
			}
			if got, err := os.ReadFile(filepath.Join(outer, "beside")); err != nil || string(got) != "beside" {
				t.Errorf("beside is %q, %v", got, err)
			}
			if st, err := os.Lstat(s.path("1")); err == nil && st.Mode() != 0o777 {
				t.Errorf("a file has mode %v", st.Mode())
			}
		})
	}
}

// A stream that ends early is no change, wherever it does.
func TestCutStreams(t *testing.T) {
	a := newSide(t, map[string]string{"a": "one", "b": strings.Repeat("two", 1000)})
	c, err := Look(a.root, ".", nil, Default)
	a.do(err)
	var whole bytes.Buffer
	a.do(c.Send(&whole))
	for n := 0; n < whole.Len()-1024; n += 256 {
		b := newSide(t, nil)
		if _, err := Receive(bytes.NewReader(whole.Bytes()[:n]), b.root, ".", b.known, Default); err == nil {
			t.Errorf("%d of %d bytes are no error", n, whole.Len())
		}
	}
}

func TestLookIsBounded(t *testing.T) {
	a := newSide(t, map[string]string{"a": "one", "b": "two"})
	for want, l := range map[string]Limits{
		"more than 2 files": {Bytes: 100, Entries: 2},
		"MiB of files":      {Bytes: 5, Entries: 100},
	} {
		var large *TooLarge
		if _, err := Look(a.root, ".", nil, l); !errors.As(err, &large) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// What this side knows is not changed by a look.
func TestLookOnlyLooks(t *testing.T) {
	a := newSide(t, map[string]string{"a": "one"})
	c, err := Look(a.root, ".", nil, Default)
	a.do(err)
	known := c.Now()
	before := maps.Clone(known)
	a.write("b", "two")
	if _, err := Look(a.root, ".", known, Default); err != nil || !maps.Equal(known, before) {
		t.Errorf("%v, known is %v", err, known)
	}
}
