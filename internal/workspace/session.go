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

// CopySession copies the files and directories that lie at paths below from, in
// place of what lies at paths below to. Who owns to owns the copies. Agents write
// to both: nothing leads out of either, links and what else is no regular file
// are left out. found is false where nothing lies at any of the paths.
func CopySession(from, to string, paths []string) (found bool, err error) {
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
	for _, p := range paths {
		if err := dst.RemoveAll(p); err != nil {
			return false, err
		}
		switch st, err := src.Lstat(p); {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return false, err
		case !st.IsDir():
			continue
		}
		found = true
		if err := c.parents(p); err != nil {
			return false, err
		}
		below, err := src.OpenRoot(p)
		if err != nil {
			return false, err
		}
		err = walk(below, func(dir *os.Root, name, base string, st fs.FileInfo) (bool, error) {
			return st.IsDir(), c.take(dir, base, path.Join(p, name), st)
		})
		_ = below.Close()
		if err != nil {
			return false, err
		}
	}
	return found, nil
}

type sessionCopy struct {
	dst      *os.Root
	uid, gid int
	left     int64 // bytes
}

// parents makes p and the directories above it.
func (c *sessionCopy) parents(p string) error {
	if up := path.Dir(p); up != "." {
		if err := c.parents(up); err != nil {
			return err
		}
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
