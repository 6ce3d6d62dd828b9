package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// manifest is what a clone held when it was made, by slash-separated path.
type manifest map[string]entry

type entry struct {
	Mode  fs.FileMode // type and permissions
	Size  int64
	MTime int64  // nanoseconds
	Link  string // target of a symbolic link
}

func entryOf(root *os.Root, name string, st fs.FileInfo) entry {
	e := entry{Mode: st.Mode() & (fs.ModeType | fs.ModePerm)}
	switch {
	case st.Mode().IsRegular():
		e.Size, e.MTime = st.Size(), st.ModTime().UnixNano()
	case st.Mode()&fs.ModeSymlink != 0:
		e.Link, _ = root.Readlink(name)
	}
	return e
}

// notCloned are top-level names that a clone does not have; boxes get mounts of
// their own there.
func notCloned(name string) bool { return name == ".git" || name == ".herd" }

// stage copies the project's files, directories and symbolic links to clone and
// gives them to uid:gid. Other kinds of files are left out.
func stage(project, clone string, uid, gid int) (m manifest, err error) {
	if err := os.Mkdir(clone, 0o755); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil { // perhaps of a full disk
			err = errors.Join(err, os.RemoveAll(clone))
		}
	}()
	src, err := os.OpenRoot(project)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	dst, err := os.OpenRoot(clone)
	if err != nil {
		return nil, err
	}
	defer dst.Close()
	if m, err = copyTree(src, dst, notCloned, uid, gid); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(clone, ".herd"), 0o755); err != nil {
		return nil, err
	}
	return m, pointToGit(project, clone)
}

// stageAll copies a directory with all of its names.
func stageAll(from, to string, uid, gid int) (manifest, error) {
	if err := os.Mkdir(to, 0o755); err != nil {
		return nil, err
	}
	src, err := os.OpenRoot(from)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	dst, err := os.OpenRoot(to)
	if err != nil {
		return nil, err
	}
	defer dst.Close()
	return copyTree(src, dst, func(string) bool { return false }, uid, gid)
}

// copyTree copies files, directories and symbolic links; other kinds, and the
// names that skip takes, are left out.
func copyTree(src, dst *os.Root, skip func(name string) bool, uid, gid int) (manifest, error) {
	m := manifest{}
	if err := dst.Lchown(".", uid, gid); err != nil {
		return nil, err
	}
	return m, walk(src, func(dir *os.Root, name, base string, st fs.FileInfo) (bool, error) {
		if skip(name) {
			return false, nil
		}
		e := entryOf(dir, base, st)
		switch {
		case st.IsDir():
			if err := dst.Mkdir(name, e.Mode.Perm()|0o700); err != nil {
				return false, err
			}
		case st.Mode().IsRegular():
			if err := copyFile(dir, base, dst, name, e); err != nil {
				return false, err
			}
		case e.Link != "":
			if err := dst.Symlink(e.Link, name); err != nil {
				return false, err
			}
		default:
			return false, nil
		}
		m[name] = e
		return true, dst.Lchown(name, uid, gid)
	})
}

// pointToGit makes the project's repository that of the clone, for steps on the
// host; boxes get a file of their own in its place.
func pointToGit(project, clone string) error {
	dir, err := gitDir(project)
	if dir == "" || err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(clone, ".git"), []byte("gitdir: "+dir+"\n"), 0o644)
}

// copyFile writes the regular file from of src to the name to of dst, which must
// not be anything but a regular file, keeping permissions, modification time and
// holes.
func copyFile(src *os.Root, from string, dst *os.Root, to string, e entry) error {
	in, err := src.OpenFile(from, os.O_RDONLY|openPlain, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := dst.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, e.Mode.Perm())
	if err != nil {
		return err
	}
	err = copyContent(out, in)
	if err == nil {
		err = out.Chmod(e.Mode.Perm())
	}
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	at := time.Unix(0, e.MTime)
	return dst.Chtimes(to, at, at)
}

func copyContent(out, in *os.File) error {
	st, err := in.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file any more", in.Name())
	}
	const small = 64 << 10
	switch {
	case st.Size() > small && reflink(out, in):
		return nil
	case st.Size() > small && allocated(st) < st.Size():
		return copySparse(out, in, st.Size())
	}
	_, err = io.Copy(out, io.LimitReader(in, st.Size()))
	return err
}

// copySparse copies what is not a hole.
func copySparse(out, in *os.File, size int64) error {
	for at := int64(0); at < size; {
		data, err := in.Seek(at, seekData)
		if errors.Is(err, syscall.ENXIO) {
			break // a hole to the end
		}
		if err != nil {
			return err
		}
		hole, err := in.Seek(data, seekHole)
		if err != nil {
			return err
		}
		if _, err := in.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := out.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.Copy(out, io.LimitReader(in, hole-data)); err != nil {
			return err
		}
		at = hole
	}
	return out.Truncate(size)
}

// allocated is what a file takes on disk, in bytes.
func allocated(st fs.FileInfo) int64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Blocks * 512
	}
	return st.Size()
}

// spare is what a copy leaves free on the disk, in bytes.
const spare = 512 << 20

// checkRoom says why a copy of dir does not fit beside to.
func checkRoom(dir, to string) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(to, &disk); err != nil {
		return err
	}
	free := int64(disk.Bavail) * int64(disk.Bsize)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var need int64
	err = walk(root, func(_ *os.Root, name, _ string, st fs.FileInfo) (bool, error) {
		if notCloned(name) {
			return false, nil
		}
		if st.Mode().IsRegular() {
			need += allocated(st)
		}
		return true, nil
	})
	if err == nil && need+spare > free {
		err = fmt.Errorf("a copy of %s takes %d MiB, and %d MiB of disk are free, of which %d MiB stay so: make room, or say `workspace: isolated`, which leaves ignored files out", dir, need>>20, free>>20, spare>>20)
	}
	return err
}
