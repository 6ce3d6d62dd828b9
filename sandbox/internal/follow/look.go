package follow

import (
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/fsnotify/fsnotify"

	"github.com/herd-runner/herd-runner/sandbox"
)

const (
	// chunk is the size of a piece in bytes.
	chunk = 32 << 10
	// maxNames bounds the names of one directory that are looked at, maxDirs the
	// directories watched.
	maxNames = 1000
	maxDirs  = 256
)

// look finds the files, and what is new in them. Not safe for concurrent use.
type look struct {
	wanted []sandbox.Follow
	give   func(sandbox.Followed)
	watch  func(dir string) bool

	known   map[at]*file
	watched map[string]bool
	numbers int
	total   int64 // bytes given
	over    bool  // Cut was said
	buf     []byte
	first   bool // nothing has been started yet
}

// at is a file: the index of its Follow, and its name below the root.
type at struct {
	of   int
	name string
}

type file struct {
	*os.File
	info   fs.FileInfo
	number int
	off    int64
	told   bool // its beginning was given, or is not wanted
}

func newLook(wanted []sandbox.Follow, give func(sandbox.Followed), watch func(dir string) bool) *look {
	return &look{wanted: wanted, give: give, watch: watch, known: map[at]*file{}, watched: map[string]bool{}}
}

// begin takes note of what is there before the writer starts: of that only what
// is wanted whole will be given.
func (l *look) begin() {
	l.first = true
	l.find()
	l.first = false
}

func (l *look) close() {
	for _, f := range l.known {
		_ = f.Close()
	}
}

// take gives what is new, at most most bytes of it. found says that there was
// something, more that there is more.
func (l *look) take(most int) (found, more bool) {
	if l.over {
		return false, false
	}
	for _, f := range l.find() {
		n, rest := l.read(f.at, f.file, most)
		found = found || n > 0
		if most -= n; rest || l.over {
			return found, rest && !l.over
		}
	}
	return found, false
}

type located struct {
	at
	*file
}

// find gives the files there are, in the order of what is wanted and of their
// names. One that is gone or was replaced comes first: what it still holds is
// read before it is let go.
func (l *look) find() []located {
	seen := map[at]bool{}
	var gone, here []located
	for i, w := range l.wanted {
		root, err := os.OpenRoot(w.Root)
		if err != nil {
			continue
		}
		l.enter(root, w.Root, ".")
		l.walk(root, w, i, ".", strings.Split(w.Pattern, "/"), func(a at, info fs.FileInfo) {
			seen[a] = true
			known := l.known[a]
			if known != nil && !os.SameFile(known.info, info) {
				gone = append(gone, located{a, known})
				delete(l.known, a)
				known = nil
			}
			if known == nil {
				known = l.open(root, a, info)
			}
			if known != nil {
				here = append(here, located{a, known})
			}
		})
		_ = root.Close()
	}
	for a, f := range l.known {
		if !seen[a] {
			gone = append(gone, located{a, f})
			delete(l.known, a)
		}
	}
	slices.SortFunc(gone, func(a, b located) int { return a.number - b.number })
	for _, f := range gone {
		l.read(f.at, f.file, lastLook)
		_ = f.Close()
	}
	return here
}

// walk calls found for each file that the rest of a pattern names below dir.
func (l *look) walk(root *os.Root, w sandbox.Follow, of int, dir string, rest []string, found func(at, fs.FileInfo)) {
	for _, name := range l.names(root, dir, rest[0]) {
		name = path.Join(dir, name)
		info, err := root.Lstat(name)
		switch {
		case err != nil:
		case len(rest) == 1:
			if info.Mode().IsRegular() {
				found(at{of, name}, info)
			}
		case info.IsDir():
			l.enter(root, w.Root, name)
			l.walk(root, w, of, name, rest[1:], found)
		}
	}
}

// names are those of a directory that an element of a pattern matches.
func (l *look) names(root *os.Root, dir, element string) []string {
	if !strings.ContainsAny(element, `*?[\`) {
		return []string{element}
	}
	d, err := root.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	all, _ := d.Readdirnames(maxNames)
	all = slices.DeleteFunc(all, func(name string) bool {
		ok, err := path.Match(element, name)
		return err != nil || !ok
	})
	slices.Sort(all)
	return all
}

// enter asks for the events of a directory, once.
func (l *look) enter(root *os.Root, base, name string) {
	dir := filepath.Join(base, name)
	if l.watched[dir] || len(l.watched) >= maxDirs {
		return
	}
	if st, err := root.Lstat(name); err == nil && st.IsDir() && l.watch(dir) {
		l.watched[dir] = true
	}
}

// unwatch forgets a directory that is gone, for one of that name that may come.
func (l *look) unwatch(e fsnotify.Event) {
	if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		delete(l.watched, e.Name)
	}
}

func (l *look) open(root *os.Root, a at, info fs.FileInfo) *file {
	if l.numbers >= sandbox.MaxFollowedFiles {
		return nil
	}
	// Something else may be there by now, such as a pipe that would hang.
	f, err := root.OpenFile(a.name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	if st, err := f.Stat(); err != nil || !os.SameFile(st, info) || !st.Mode().IsRegular() {
		_ = f.Close()
		return nil
	}
	known := &file{File: f, info: info, number: l.numbers}
	l.numbers++
	if l.first && !l.wanted[a.of].Whole {
		known.off, known.told = info.Size(), true
	}
	l.known[a] = known
	return known
}

// read gives what is new in a file, at most most bytes. more says that there is
// more.
func (l *look) read(a at, f *file, most int) (n int, more bool) {
	st, err := f.Stat()
	if err != nil || l.over {
		return 0, false
	}
	if st.Size() < f.off { // cut, to be written anew
		f.off, f.told = 0, false
	}
	if l.buf == nil {
		l.buf = make([]byte, chunk)
	}
	for f.off < st.Size() {
		if n >= most {
			return n, true
		}
		got, err := f.ReadAt(l.buf[:min(chunk, most-n, int(min(st.Size()-f.off, chunk)))], f.off)
		if l.total += int64(got); l.total > sandbox.MaxFollowedBytes {
			l.over = true
			l.give(sandbox.Followed{Cut: true})
			return n, false
		}
		if got > 0 {
			l.give(sandbox.Followed{Of: a.of, File: f.number, Fresh: !f.told, Data: l.buf[:got]})
			f.off, f.told = f.off+int64(got), true
			n += got
		}
		if err != nil && err != io.EOF || got == 0 {
			break
		}
	}
	return n, false
}
