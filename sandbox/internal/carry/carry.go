// Package carry keeps two copies of a directory tree, or of a single file, on
// different machines the same: each side looks what was changed in its copy
// since the two last met, and sends that as a tar stream. Package docker uses it
// for engines that have other files than this machine. What is received is
// untrusted on both sides.
package carry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Limits bound a tree.
type Limits struct {
	Bytes   int64 // of all its files together
	Entries int
	// Skip names what is at the top of a tree and not part of it; nil: nothing.
	Skip func(name string) bool
	// Fixed names what something else is mounted over: it is sent once, without
	// what is in it. To replace it would take the mount away, in every box. nil:
	// nothing.
	Fixed func(name string) bool
	// Free tells the bytes that may still be written where a tree is received;
	// nil: as many as there is room for.
	Free func() int64
}

// Default are the limits of what a box works on.
var Default = Limits{Bytes: 4 << 30, Entries: 500_000}

// TooLarge says that a tree is beyond its limits.
type TooLarge struct{ What string }

func (e *TooLarge) Error() string { return e.What }

// maxDepth bounds how deep directories are nested.
const maxDepth = 500

// Stamps tell of everything in a tree whether it is still what it was, by
// slash-separated path; "." is the tree itself.
type Stamps map[string]Stamp

// Stamp is of one file. Who writes to a file can set each part of it but Ctime.
type Stamp struct {
	Mode         fs.FileMode // type and permissions
	Size         int64       // as Mtime and Ctime, of what is no directory
	Mtime, Ctime int64       // nanoseconds
}

func stampOf(st fs.FileInfo) Stamp {
	s := Stamp{Mode: st.Mode() & (fs.ModeType | fs.ModePerm)}
	if !st.IsDir() {
		s.Size, s.Mtime, s.Ctime = st.Size(), st.ModTime().UnixNano(), changeTime(st)
	}
	return s
}

func (s Stamps) bytes() (n int64) {
	for _, x := range s {
		n += x.Size
	}
	return n
}

// tick is more than the steps in which file systems tell the time: what was
// changed so short a time ago may be changed again and not look so.
const tick = 20 * time.Millisecond

// openPlain opens what is not a regular file without waiting, and no link.
const openPlain = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// Changes are how a tree differs from what was known of it.
type Changes struct {
	root    *os.Root
	at      string
	known   Stamps
	now     Stamps
	changed []string // parents first
	gone    []string // deepest first
	skipped []skipped
	fresh   []string // of changed, those whose stamp may not tell the next change
	bytes   int64
	limits  Limits
}

// skipped is what is not sent, and why.
type skipped struct{ name, why string }

// Look compares the tree at `at` of root with what is known of it. The root must
// stay open until the changes are sent. It takes a tick longer where something was
// changed in the last one: sent a second time that could undo what a process does
// to it on the other side.
func Look(root *os.Root, at string, known Stamps, l Limits) (*Changes, error) {
	c := &Changes{root: root, at: at, known: known, now: Stamps{}, limits: l}
	st, err := root.Lstat(at)
	if err != nil {
		return nil, err
	}
	if err := c.see(".", st); err != nil {
		return nil, err
	}
	if st.IsDir() {
		top, err := root.OpenRoot(at)
		if err != nil {
			return nil, err
		}
		defer top.Close()
		if err := c.walk(top, ".", 0); err != nil {
			return nil, err
		}
	}
	for name, stamp := range known {
		if _, still := c.now[name]; still {
			continue
		}
		if c.fixed(name) {
			c.now[name] = stamp
		} else {
			c.gone = append(c.gone, name)
		}
	}
	slices.Sort(c.gone)
	slices.Reverse(c.gone)
	if len(c.fresh) > 0 {
		<-time.After(tick)
		c.lookAgain()
	}
	return c, nil
}

// lookAgain takes the stamps of fresh files once more; those that are still being
// changed are sent again the next time.
func (c *Changes) lookAgain() {
	for _, name := range c.fresh {
		stamp := c.now[name]
		if st, err := c.root.Lstat(path.Join(c.at, name)); err == nil && st.Mode().Type() == stamp.Mode.Type() {
			stamp = stampOf(st)
		}
		if isFresh(stamp) {
			stamp.Ctime = 0
		}
		c.now[name] = stamp
	}
}

func isFresh(s Stamp) bool { return s.Ctime > time.Now().Add(-tick).UnixNano() }

func (c *Changes) walk(dir *os.Root, name string, depth int) error {
	if depth > maxDepth {
		return &TooLarge{fmt.Sprintf("%.80q…: directories are nested deeper than %d", name, maxDepth)}
	}
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(c.limits.Entries + 1)
	if closeErr := f.Close(); err != nil && len(entries) == 0 || closeErr != nil {
		return closeErr // an empty directory answers io.EOF
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if depth == 0 && c.limits.Skip != nil && c.limits.Skip(e.Name()) {
			continue
		}
		st, err := dir.Lstat(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		full := path.Join(name, e.Name())
		fixed := c.fixed(full)
		if old, was := c.known[full]; was && fixed {
			c.now[full] = old
			continue
		}
		if err := c.see(full, st); err != nil {
			return err
		}
		if !st.IsDir() || fixed {
			continue
		}
		below, err := dir.OpenRoot(e.Name())
		if err == nil {
			err = c.walk(below, full, depth+1)
			_ = below.Close()
		}
		switch {
		case errors.Is(err, fs.ErrPermission):
			c.keep(full, "the directory can not be read")
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		}
	}
	return nil
}

func (c *Changes) fixed(name string) bool { return c.limits.Fixed != nil && c.limits.Fixed(name) }

// see takes in one entry.
func (c *Changes) see(name string, st fs.FileInfo) error {
	stamp := stampOf(st)
	c.bytes += stamp.Size
	if len(c.now) >= c.limits.Entries {
		return &TooLarge{fmt.Sprintf("more than %d files and directories", c.limits.Entries)}
	}
	if c.bytes > c.limits.Bytes {
		return &TooLarge{fmt.Sprintf("more than %d MiB of files", c.limits.Bytes>>20)}
	}
	c.now[name] = stamp
	old, was := c.known[name]
	if was && old == stamp {
		return nil
	}
	switch {
	case carried(stamp.Mode):
		if name != "." || !was || !stamp.Mode.IsDir() { // how the tree itself may be used is each side's own
			c.changed = append(c.changed, name)
		}
		if isFresh(stamp) {
			c.fresh = append(c.fresh, name)
		}
	default:
		c.now[name] = Stamp{Mode: stamp.Mode} // told once
		if old != c.now[name] {
			c.skipped = append(c.skipped, skipped{name, "it is neither a file, a directory nor a symbolic link"})
		}
		if was && carried(old.Mode) {
			c.gone = append(c.gone, name)
		}
	}
	return nil
}

func carried(m fs.FileMode) bool {
	return m.IsRegular() || m.IsDir() || m.Type() == fs.ModeSymlink
}

// keep leaves what is known below a directory that can not be looked into.
func (c *Changes) keep(dir, why string) {
	if old, was := c.known[dir]; !was || old != c.now[dir] {
		c.skipped = append(c.skipped, skipped{dir, why})
	}
	for name, stamp := range c.known {
		if strings.HasPrefix(name, dir+"/") {
			c.now[name] = stamp
		}
	}
}

// Empty says that nothing was changed.
func (c *Changes) Empty() bool {
	return len(c.changed) == 0 && len(c.gone) == 0 && len(c.skipped) == 0
}

// Bytes is the size of the whole tree.
func (c *Changes) Bytes() int64 { return c.bytes }

// Now is what is known of the tree once the changes have been received.
func (c *Changes) Now() Stamps { return c.now }
