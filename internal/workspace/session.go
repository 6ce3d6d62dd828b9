package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// maxSession bounds the files of a session, in bytes.
const maxSession = 2 << 30

// CopySession copies what the patterns, below from, name, in place of what they
// name below to: files, and directories with all in them. A pattern is names
// separated by "/", each as for path.Match. Who owns to owns the copies. Agents
// write to both: nothing leads out of either, links and what else is no regular
// file are left out. found is false where there is nothing.
func CopySession(from, to string, patterns []string) (found bool, err error) {
	src, err := os.OpenRoot(from)
	if err != nil {
		return false, err
	}
	defer src.Close()
	dst, err := os.OpenRoot(to)
	if err != nil {
		return false, err
	}
	defer dst.Close()
	st, err := dst.Stat(".")
	if err != nil {
		return false, err
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return false, errors.New("this system does not tell who owns a directory")
	}
	c := sessionCopy{dst: dst, uid: int(owner.Uid), gid: int(owner.Gid), left: maxSession}
	for _, pattern := range patterns {
		old, err := fs.Glob(dst.FS(), pattern)
		if err != nil {
			return false, err
		}
		for _, name := range old {
			if err := dst.RemoveAll(name); err != nil {
				return false, err
			}
		}
		names, err := fs.Glob(src.FS(), pattern)
		if err != nil {
			return false, err
		}
		for _, name := range names {
			taken, err := c.tree(src, name)
			if err != nil {
				return false, err
			}
			found = found || taken
		}
	}
	return found, nil
}

// tree copies what lies at p; false where it is left out.
func (c *sessionCopy) tree(src *os.Root, p string) (bool, error) {
	st, err := src.Lstat(p)
	if err != nil {
		return false, err
	}
	if !st.IsDir() && !st.Mode().IsRegular() {
		return false, nil
	}
	if err := c.parents(path.Dir(p)); err != nil {
		return false, err
	}
	above, err := src.OpenRoot(path.Dir(p))
	if err != nil {
		return false, err
	}
	defer above.Close()
	if err := c.take(above, path.Base(p), p, st); err != nil || !st.IsDir() {
		return true, err
	}
	below, err := above.OpenRoot(path.Base(p))
	if err != nil {
		return false, err
	}
	defer below.Close()
	return true, walk(below, func(dir *os.Root, name, base string, st fs.FileInfo) (bool, error) {
		return st.IsDir(), c.take(dir, base, path.Join(p, name), st)
	})
}

type sessionCopy struct {
	dst      *os.Root
	uid, gid int
	left     int64 // bytes
}

// parents makes p and the directories above it.
func (c *sessionCopy) parents(p string) error {
	if p == "." {
		return nil
	}
	if err := c.parents(path.Dir(p)); err != nil {
		return err
	}
	if err := c.dst.Mkdir(p, 0o700); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	return c.dst.Lchown(p, c.uid, c.gid)
}

func (c *sessionCopy) take(dir *os.Root, base, name string, st fs.FileInfo) error {
	switch {
	case st.IsDir():
		if err := c.dst.Mkdir(name, 0o700); err != nil {
			return err
		}
	case st.Mode().IsRegular():
		if c.left -= st.Size(); c.left < 0 {
			return fmt.Errorf("its files are larger than %d MiB together", maxSession>>20)
		}
		if err := copyFile(dir, base, c.dst, name, entryOf(dir, base, st)); err != nil {
			return err
		}
	default:
		return nil
	}
	return c.dst.Lchown(name, c.uid, c.gid)
}
