package workspace

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// manifest is what a clone held when it was made, by slash-separated path.
type manifest map[string]entry

type entry struct {
	mode  fs.FileMode // type and permissions
	size  int64
	mtime time.Time
	link  string // target of a symbolic link
}

func entryOf(root *os.Root, name string, st fs.FileInfo) entry {
	e := entry{mode: st.Mode() & (fs.ModeType | fs.ModePerm)}
	switch {
	case st.Mode().IsRegular():
		e.size, e.mtime = st.Size(), st.ModTime()
	case st.Mode()&fs.ModeSymlink != 0:
		e.link, _ = root.Readlink(name)
	}
	return e
}

// notCloned are top-level names that a clone does not have; boxes get mounts of
// their own there.
func notCloned(name string) bool { return name == ".git" || name == ".herd" }

// stage copies the project's files, directories and symbolic links to clone and
// gives them to uid:gid. Other kinds of files are left out.
func stage(project, clone string, uid, gid int) (manifest, error) {
	if err := os.Mkdir(clone, 0o755); err != nil {
		return nil, err
	}
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
	m := manifest{}
	err = fs.WalkDir(src.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if notCloned(name) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		st, err := src.Lstat(name)
		if err != nil {
			return err
		}
		e := entryOf(src, name, st)
		switch {
		case name == ".":
		case st.IsDir():
			if err := dst.Mkdir(name, e.mode.Perm()|0o700); err != nil {
				return err
			}
		case st.Mode().IsRegular():
			if err := copyFile(src, dst, name, e); err != nil {
				return err
			}
		case e.link != "":
			if err := dst.Symlink(e.link, name); err != nil {
				return err
			}
		default:
			return nil
		}
		if name != "." {
			m[name] = e
		}
		return dst.Lchown(name, uid, gid)
	})
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(clone, ".herd"), 0o755); err != nil {
		return nil, err
	}
	return m, pointToGit(project, clone)
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

// copyFile writes the regular file name of src to dst, which must not have it
// as anything but a regular file, keeping permissions and modification time.
func copyFile(src, dst *os.Root, name string, e entry) error {
	in, err := src.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := dst.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, e.mode.Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	if err := out.Chmod(e.mode.Perm()); err != nil {
		out.Close()
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return dst.Chtimes(name, e.mtime, e.mtime)
}
