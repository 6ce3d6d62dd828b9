package follow

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/sandbox"
)

// got puts together what a Follower gives: the content of each file by its
// number, and a channel that tells of every piece.
type got struct {
	files map[int]string
	cut   bool
	piece chan sandbox.Followed
}

func follow(t *testing.T, events bool, files ...sandbox.Follow) (f *Follower, g *got) {
	t.Helper()
	g = &got{files: map[int]string{}, piece: make(chan sandbox.Followed, 1<<16)}
	give := func(f sandbox.Followed) {
		f.Data = append([]byte(nil), f.Data...)
		g.piece <- f
	}
	if events {
		f = New(files, give)
		if f.events == nil {
			t.Fatal("this machine gives no file events")
		}
	} else {
		f = start(files, give, nil)
	}
	t.Cleanup(f.Stop)
	return f, g
}

func (g *got) take(f sandbox.Followed) {
	if f.Fresh {
		g.files[f.File] = ""
	}
	g.files[f.File] += string(f.Data)
	g.cut = g.cut || f.Cut
}

// until waits for a file that holds text.
func (g *got) until(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		for _, content := range g.files {
			if content == text {
				return
			}
		}
		select {
		case f := <-g.piece:
			g.take(f)
		case <-deadline:
			t.Fatalf("no file was told to hold %q; told: %v", text, g.files)
		}
	}
}

func (g *got) rest() map[int]string {
	close(g.piece)
	for f := range g.piece {
		g.take(f)
	}
	return g.files
}

func write(t *testing.T, name, text string, flags int) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|flags, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, parts ...string) string {
	t.Helper()
	dir := filepath.Join(parts...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestFilesAreFollowed (RUNTIME-06), with events and without.
func TestFilesAreFollowed(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(t *testing.T, dir string, f *Follower, g *got){
		"a directory and a file that come late": func(t *testing.T, dir string, _ *Follower, g *got) {
			late := mkdir(t, dir, "a", "b")
			write(t, filepath.Join(late, "s.jsonl"), "one\n", 0)
			g.until(t, "one\n")
			write(t, filepath.Join(late, "s.jsonl"), "two", os.O_APPEND)
			g.until(t, "one\ntwo")
		},
		"a directory that is made anew": func(t *testing.T, dir string, _ *Follower, g *got) {
			write(t, filepath.Join(mkdir(t, dir, "a", "b"), "s.jsonl"), "one\n", 0)
			g.until(t, "one\n")
			if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(mkdir(t, dir, "a", "b"), "s.jsonl"), "again\n", 0)
			g.until(t, "again\n")
		},
		"a file that is cut": func(t *testing.T, dir string, _ *Follower, g *got) {
			file := filepath.Join(mkdir(t, dir, "a", "b"), "s.jsonl")
			write(t, file, "one\ntwo\n", 0)
			g.until(t, "one\ntwo\n")
			write(t, file, "new\n", os.O_TRUNC)
			g.until(t, "new\n")
		},
		"a file that is replaced": func(t *testing.T, dir string, f *Follower, g *got) {
			file := filepath.Join(mkdir(t, dir, "a", "b"), "s.jsonl")
			write(t, file, "one\n", 0)
			g.until(t, "one\n")
			write(t, file, "two\n", os.O_APPEND)
			if err := os.Rename(file, file+".1"); err != nil {
				t.Fatal(err)
			}
			write(t, file, "three\n", 0)
			g.until(t, "three\n")
			g.until(t, "one\ntwo\n")
		},
		"what is written before the end": func(t *testing.T, dir string, f *Follower, g *got) {
			file := filepath.Join(mkdir(t, dir, "a", "b"), "s.jsonl")
			text := strings.Repeat("0123456789abcdef\n", 300_000) // over several looks
			write(t, file, text, 0)
			f.Stop()
			if all := g.rest(); len(all) != 1 || all[0] != text {
				t.Errorf("%d files, %d bytes of %d", len(all), len(all[0]), len(text))
			}
		},
	} {
		for _, events := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, events %t", name, events), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				f, g := follow(t, events, sandbox.Follow{Root: dir, Pattern: "a/*/*.jsonl"})
				run(t, dir, f, g)
			})
		}
	}
}

// TestNothingIsLostOrDoubled writes many files in pieces of any size while they
// are followed.
func TestNothingIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, g := follow(t, true, sandbox.Follow{Root: dir, Pattern: "*/s-*.jsonl"})
	want := map[string]bool{}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 8 {
		text := fmt.Sprintf("%d ", i) + strings.Repeat("é\n", 1000+random.IntN(20_000))
		want[text] = true
		for sub := mkdir(t, dir, fmt.Sprint("d", i)); text != ""; {
			n := min(len(text), 1+random.IntN(4000))
			write(t, filepath.Join(sub, "s-1.jsonl"), text[:n], os.O_APPEND)
			text = text[n:]
		}
	}
	f.Stop()
	for _, text := range g.rest() {
		if !want[text] {
			t.Errorf("a file of %d bytes that nobody has written", len(text))
		}
		delete(want, text)
	}
	if len(want) > 0 {
		t.Errorf("%d files were not told whole", len(want))
	}
}

// TestEventsThatDoNotCome: what a look finds without an event makes looks come
// often.
func TestEventsThatDoNotCome(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, g := follow(t, true, sandbox.Follow{Root: dir, Pattern: "s.jsonl"})
	for _, watched := range f.events.WatchList() {
		if err := f.events.Remove(watched); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "s.jsonl"), "one\n", 0)
	g.until(t, "one\n")
	write(t, filepath.Join(dir, "s.jsonl"), "two\n", os.O_APPEND)
	g.until(t, "one\ntwo\n")
}

// TestWhatIsFollowedIsBounded (THREATS 18): files without end, and no end of files.
func TestWhatIsFollowedIsBounded(t *testing.T) {
	t.Parallel()
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		dir, total, cut := t.TempDir(), 0, false
		l := newLook([]sandbox.Follow{{Root: dir, Pattern: "*"}}, func(f sandbox.Followed) {
			total, cut = total+len(f.Data), cut || f.Cut
			if len(f.Data) > chunk {
				t.Errorf("a piece of %d bytes", len(f.Data))
			}
		}, func(string) bool { return true })
		defer l.close()
		l.begin()
		write(t, filepath.Join(dir, "big"), "", 0)
		if err := os.Truncate(filepath.Join(dir, "big"), 1<<40); err != nil {
			t.Fatal(err)
		}
		before := total
		for more := true; more; before = total {
			if _, more = l.take(perLook); total-before > perLook {
				t.Fatalf("%d bytes in one look", total-before)
			}
		}
		if !cut || total > sandbox.MaxFollowedBytes || total < sandbox.MaxFollowedBytes-perLook {
			t.Errorf("%d bytes, cut %t", total, cut)
		}
	})
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		dir, highest := t.TempDir(), 0
		l := newLook([]sandbox.Follow{{Root: dir, Pattern: "*/*"}}, func(f sandbox.Followed) { highest = max(highest, f.File) }, func(string) bool { return true })
		defer l.close()
		l.begin()
		for d := range 10 {
			for i := range 100 {
				write(t, filepath.Join(mkdir(t, dir, fmt.Sprint(d)), fmt.Sprint(i)), "x", 0)
			}
		}
		l.take(perLook)
		if highest != sandbox.MaxFollowedFiles-1 || len(l.known) > sandbox.MaxFollowedFiles {
			t.Errorf("%d files are open, the highest number is %d", len(l.known), highest)
		}
	})
}

// TestLinksAreNotFollowed: neither as a file nor as a directory on the way.
func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "s.jsonl"), "secret\n", 0)
	for name, to := range map[string]string{"d/s.jsonl": filepath.Join(outside, "s.jsonl"), "linked": outside, "inner": "d"} {
		mkdir(t, dir, "d")
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	f, g := follow(t, true, sandbox.Follow{Root: dir, Pattern: "*/s.jsonl", Whole: true}, sandbox.Follow{Root: dir, Pattern: "linked/s.jsonl", Whole: true})
	write(t, filepath.Join(dir, "d/k.jsonl"), "no\n", 0)
	f.Stop()
	if all := g.rest(); len(all) > 0 {
		t.Errorf("followed %v", all)
	}
}

// TestAFollowerLeavesNothing: no descriptor is left open.
func TestAFollowerLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	before := descriptors(t)
	for range 3 {
		f, _ := follow(t, true, sandbox.Follow{Root: dir, Pattern: "*"})
		write(t, filepath.Join(dir, "a"), "x", os.O_APPEND)
		f.Stop()
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd/")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
