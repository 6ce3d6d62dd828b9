package workspace

import (
	"fmt"
	"io/fs"
	"os"
	"path"
)

// Bounds of a tree that steps have written.
const (
	maxDepth   = 500
	maxEntries = 2_000_000
)

// walk calls visit for everything below root, parents first, without following
// a symbolic link; visit says whether to go into a directory. Each directory is
// opened by its own name in the one above, so that nothing that is exchanged
// meanwhile leads out of root.
func walk(root *os.Root, visit func(dir *os.Root, name, base string, st fs.FileInfo) (into bool, err error)) error {
	w := walker{visit: visit}
	return w.dir(root, "", 0)
}

type walker struct {
	visit   func(dir *os.Root, name, base string, st fs.FileInfo) (bool, error)
	entries int
}

func (w *walker) dir(dir *os.Root, prefix string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%q: directories are nested deeper than %d", prefix[:min(len(prefix), 80)]+"…", maxDepth)
	}
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(maxEntries + 1)
	if closeErr := f.Close(); err != nil || closeErr != nil {
		if len(entries) == 0 {
			return nil // an empty directory answers io.EOF
		}
		return err
	}
	if w.entries += len(entries); w.entries > maxEntries {
		return fmt.Errorf("more than %d files and directories", maxEntries)
	}
	for _, e := range entries {
		if err := w.entry(dir, path.Join(prefix, e.Name()), e.Name(), depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(dir *os.Root, name, base string, depth int) error {
	st, err := dir.Lstat(base)
	if os.IsNotExist(err) {
		return nil // gone meanwhile
	}
	if err != nil {
		return err
	}
	into, err := w.visit(dir, name, base, st)
	if err != nil || !into || !st.IsDir() {
		return err
	}
	below, err := dir.OpenRoot(base)
	if err != nil {
		return err
	}
	defer below.Close()
	return w.dir(below, name, depth+1)
}
