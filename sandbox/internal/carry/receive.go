package carry

import (
	"archive/tar"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// maxNotices bounds what one stream has to tell.
const maxNotices = 20

// Receive does to the tree at `at` of root what a stream of Send says, and notes
// in known how the tree is then. Nothing outside of the tree is written, nothing
// is written through a link, and only files, directories and links are made; a
// stream that asks for more, that is beyond the limits or that ends early is an
// error. What came before that stays. The notices say what the other side has
// not sent.
func Receive(r io.Reader, root *os.Root, at string, known Stamps, l Limits) (notices []string, err error) {
	x := &receiver{root: root, at: at, known: known, limits: l, bytes: known.bytes(), closed: map[string]fs.FileMode{}}
	x.uid, x.gid = x.owner()
	defer func() { err = errors.Join(err, x.close()) }()
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return notices, err
		}
		name := strings.TrimSuffix(h.Name, "/")
		switch is := h.PAXRecords[recordIs]; {
		case is == isEnd:
			return notices, nil
		case !fit(name):
			err = errors.New("no path in the tree")
		case is == isGone:
			err = x.remove(name)
		case is == isSkipped:
			if len(notices) < maxNotices {
				notices = append(notices, fmt.Sprintf("%q: %.200s", name, h.PAXRecords[recordWhy]))
			}
		case is != "":
			err = fmt.Errorf("entry of unknown kind %.20q", is)
		default:
			err = x.take(name, h, tr)
		}
		if err != nil {
			return notices, fmt.Errorf("%.300q: %w", name, err)
		}
	}
}

// fit says whether a name is one in a tree.
func fit(name string) bool {
	if name == "." {
		return true
	}
	if name == "" || path.IsAbs(name) || path.Clean(name) != name || strings.ContainsRune(name, 0) || strings.Count(name, "/") > maxDepth {
		return false
	}
	return name != ".." && !strings.HasPrefix(name, "../")
}

type receiver struct {
	root   *os.Root
	at     string
	known  Stamps
	limits Limits
	bytes  int64
	// uid and gid are who gets what is made; -1: who makes it.
	uid, gid int
	// open are the directories that lead to where the last entry was made, the
	// tree itself first.
	open []opened
	// closed are directories that we opened up to write in them, and what they
	// shall be in the end.
	closed map[string]fs.FileMode
}

type opened struct {
	name string
	dir  *os.Root
}

// owner is whom the tree belongs to, where that is not us but we may give.
func (x *receiver) owner() (uid, gid int) {
	st, err := x.root.Stat(x.at)
	if err != nil || os.Geteuid() != 0 {
		return -1, -1
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid), int(sys.Gid)
	}
	return -1, -1
}

// parent opens the directory that an entry is in. Each one on the way must be a
// directory and no link to one.
func (x *receiver) parent(name string) (dir *os.Root, base string, err error) {
	if len(x.open) == 0 {
		top, err := x.root.OpenRoot(x.at)
		if err != nil {
			return nil, "", err
		}
		x.open = []opened{{".", top}}
	}
	want, base := path.Split(name)
	want = strings.TrimSuffix(want, "/")
	for len(x.open) > 1 {
		last := x.open[len(x.open)-1]
		if want == last.name || strings.HasPrefix(want, last.name+"/") {
			break
		}
		_ = last.dir.Close()
		x.open = x.open[:len(x.open)-1]
	}
	at := x.open[len(x.open)-1]
	rest := want
	if at.name != "." {
		rest = strings.TrimPrefix(strings.TrimPrefix(want, at.name), "/")
	}
	for rest != "" {
		var one string
		one, rest, _ = strings.Cut(rest, "/")
		full := path.Join(at.name, one)
		if err := x.openUp(at.dir, one, full); err != nil {
			return nil, "", err
		}
		below, err := at.dir.OpenRoot(one)
		if err != nil {
			return nil, "", err
		}
		at = opened{full, below}
		x.open = append(x.open, at)
	}
	return at.dir, base, nil
}

var errNoDirectory = errors.New("what it should be in is no directory")

// openUp lets us write in a directory of which nobody may.
func (x *receiver) openUp(dir *os.Root, base, full string) error {
	st, err := dir.Lstat(base)
	switch {
	case err != nil:
		return err
	case !st.IsDir():
		return errNoDirectory
	case st.Mode().Perm()&0o700 == 0o700:
		return nil
	}
	if err := dir.Chmod(base, st.Mode().Perm()|0o700); err != nil {
		return err
	}
	if _, told := x.closed[full]; !told {
		x.closed[full] = st.Mode().Perm()
	}
	return nil
}

func (x *receiver) remove(name string) error {
	if name == "." {
		return errors.New("it is the tree itself")
	}
	dir, base, err := x.parent(name)
	if err == nil {
		x.leave(name)
		err = dir.Remove(base)
	}
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, errNoDirectory):
		x.forget(name)
	case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST): // what is in it is not yet known there
	default:
		return err
	}
	return nil
}

// leave closes a directory that is to be replaced, or removed.
func (x *receiver) leave(name string) {
	for i := 1; i < len(x.open); i++ {
		if x.open[i].name == name {
			for _, o := range x.open[i:] {
				_ = o.dir.Close()
			}
			x.open = x.open[:i]
			return
		}
	}
}

func (x *receiver) forget(name string) {
	x.bytes -= x.known[name].Size
	delete(x.known, name)
	delete(x.closed, name)
}

func (x *receiver) take(name string, h *tar.Header, content io.Reader) error {
	old := x.known[name].Size
	switch {
	case len(x.known) >= x.limits.Entries:
		return &TooLarge{fmt.Sprintf("more than %d files and directories", x.limits.Entries)}
	case h.Size < 0 || h.Size > x.limits.Bytes || x.bytes-old+h.Size > x.limits.Bytes:
		return &TooLarge{fmt.Sprintf("more than %d MiB of files", x.limits.Bytes>>20)}
	case h.Size > 0 && x.limits.Free != nil && h.Size > x.limits.Free():
		return &TooLarge{fmt.Sprintf("the disk has no room for its %d MiB", h.Size>>20+1)}
	}
	if name == "." {
		return x.tree(h, content)
	}
	dir, base, err := x.parent(name)
	if err != nil {
		return err
	}
	if err := x.make(dir, base, name, h, content); err != nil {
		return err
	}
	st, err := dir.Lstat(base)
	if err != nil {
		return err
	}
	stamp := stampOf(st)
	if mode, told := x.closed[name]; told {
		stamp.Mode = fs.ModeDir | mode
	}
	x.bytes += stamp.Size - old
	x.known[name] = stamp
	return nil
}

// tree makes the tree itself: a directory, or a single file.
func (x *receiver) tree(h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		err := x.root.Mkdir(x.at, perm(h)|0o700)
		if err == nil {
			err = x.root.Chmod(x.at, perm(h)|0o700) // whatever the umask
		} else if errors.Is(err, fs.ErrExist) {
			err = nil
		}
		if err != nil {
			return err
		}
	case tar.TypeReg:
		if err := x.make(x.root, x.at, ".", h, content); err != nil {
			return err
		}
	default:
		return fmt.Errorf("entry of type %q", h.Typeflag)
	}
	st, err := x.root.Lstat(x.at)
	if err != nil {
		return err
	}
	x.known["."] = stampOf(st)
	return nil
}

func perm(h *tar.Header) fs.FileMode { return fs.FileMode(h.Mode) & fs.ModePerm }

// make makes one entry in the place of what has its name. Processes use the tree
// meanwhile: a file or link takes the place of another in one step.
func (x *receiver) make(dir *os.Root, base, name string, h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return x.directory(dir, base, name, perm(h))
	}
	temp := tempPrefix + rand.Text()
	err := x.apart(dir, temp, h, content)
	if err == nil {
		err = x.clear(dir, base, name, fs.FileInfo.IsDir)
	}
	if err == nil {
		err = dir.Rename(temp, base)
	}
	if err != nil {
		_ = dir.Remove(temp)
	}
	return err
}

// tempPrefix begins the names of files until they are whole.
const tempPrefix = ".herd-carry-"

// apart makes a file or link under a name that nothing has.
func (x *receiver) apart(dir *os.Root, temp string, h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeReg:
		return x.file(dir, temp, h, content)
	case tar.TypeSymlink:
		if err := dir.Symlink(h.Linkname, temp); err != nil {
			return err
		}
		return x.give(dir, temp)
	}
	return fmt.Errorf("entry of type %q", h.Typeflag)
}

func (x *receiver) directory(dir *os.Root, base, name string, mode fs.FileMode) error {
	notDir := func(st fs.FileInfo) bool { return !st.IsDir() }
	if err := x.clear(dir, base, name, notDir); err != nil {
		return err
	}
	switch err := dir.Mkdir(base, 0o700); {
	case err == nil:
		if err := x.give(dir, base); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	return x.setMode(dir, base, name, mode)
}

// clear removes what has a name, where it is in the way.
func (x *receiver) clear(dir *os.Root, base, name string, inTheWay func(fs.FileInfo) bool) error {
	st, err := dir.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !inTheWay(st) {
		return nil
	}
	if err != nil {
		return err
	}
	x.leave(name)
	return dir.RemoveAll(base)
}

func (x *receiver) give(dir *os.Root, base string) error {
	if x.uid < 0 {
		return nil
	}
	return dir.Lchown(base, x.uid, x.gid)
}

// setMode gives a directory its permissions, at the end where we could not write
// in it then.
func (x *receiver) setMode(dir *os.Root, base, name string, mode fs.FileMode) error {
	delete(x.closed, name)
	if mode&0o700 != 0o700 {
		x.closed[name] = mode
	}
	return dir.Chmod(base, mode|0o700)
}

func (x *receiver) file(dir *os.Root, base string, h *tar.Header, content io.Reader) error {
	f, err := dir.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openPlain, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, content, h.Size)
	if err == nil && x.uid >= 0 {
		err = f.Chown(x.uid, x.gid)
	}
	if err == nil {
		err = f.Chmod(perm(h))
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return dir.Chtimes(base, h.ModTime, h.ModTime)
}

// close gives the directories their permissions, deepest first.
func (x *receiver) close() (err error) {
	names := slices.Sorted(maps.Keys(x.closed))
	slices.Reverse(names)
	for _, name := range names {
		dir, base, perr := x.parent(name)
		if perr == nil {
			perr = dir.Chmod(base, x.closed[name])
		}
		err = errors.Join(err, perr)
	}
	for _, o := range x.open {
		_ = o.dir.Close()
	}
	return err
}
