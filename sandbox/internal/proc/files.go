package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/herd-runner/herd-runner/sandbox"
)

// WriteFiles writes files with their parents, in order. Mode 0 is 0644.
func WriteFiles(files []sandbox.File) error {
	for _, f := range files {
		if !filepath.IsAbs(f.Path) {
			return fmt.Errorf("%q is not an absolute path", f.Path)
		}
		if f.Mode.IsDir() {
			if err := os.MkdirAll(f.Path, 0o755); err != nil {
				return err
			}
			continue
		}
		mode := f.Mode.Perm()
		if mode == 0 {
			mode = 0o644
		}
		if err := writeFile(f.Path, mode, f.Data); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, mode os.FileMode, data []byte) error {
	w, st, err := openFile(path, mode)
	if err != nil {
		return err
	}
	// Cut after writing: to free the blocks first and to allocate them again costs
	// more than all the rest.
	_, err = w.Write(data)
	if err == nil && st.Size() > int64(len(data)) {
		err = w.Truncate(int64(len(data)))
	}
	if err == nil && st.Mode() != mode {
		err = w.Chmod(mode) // whatever the umask
	}
	return errors.Join(err, w.Close())
}

// openFile opens a file to be written anew. The one that is there is taken, as long
// as that changes nothing but what is found at path: what ran in the box before may
// have linked it elsewhere, closed it, or left a pipe there, to hang us.
func openFile(path string, mode os.FileMode) (*os.File, os.FileInfo, error) {
	const flags = os.O_WRONLY | os.O_CREATE | syscall.O_NONBLOCK
	w, st, err := openPlain(path, flags, mode)
	switch {
	case err == nil:
		return w, st, nil
	case errors.Is(err, os.ErrNotExist):
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	default:
		err = os.Remove(path)
	}
	if err != nil {
		return nil, nil, err
	}
	return openPlain(path, flags|os.O_EXCL, mode)
}

func openPlain(path string, flags int, mode os.FileMode) (*os.File, os.FileInfo, error) {
	w, err := os.OpenFile(path, flags, mode)
	if err != nil {
		return nil, nil, err
	}
	st, err := w.Stat()
	if err == nil && !isPlain(st) {
		err = fmt.Errorf("%q is not a file of its own", path)
	}
	if err != nil {
		_ = w.Close()
		return nil, nil, err
	}
	return w, st, nil
}

// isPlain says whether writing into the file changes this file and no other.
func isPlain(st os.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && sys.Nlink == 1 && st.Mode().IsRegular()
}

// Collect reads files. What is missing, or is no regular file (a link, a pipe
// that would hang), is left out.
func Collect(wanted []sandbox.Collect) (got map[string][]byte, truncated []string) {
	for _, c := range wanted {
		limit := c.Limit
		if limit <= 0 {
			limit = sandbox.DefaultCollectLimit
		}
		data, cut, err := readRegular(c.Path, limit)
		if err != nil {
			continue
		}
		if got == nil {
			got = map[string][]byte{}
		}
		got[c.Path] = data
		if cut {
			truncated = append(truncated, c.Path)
		}
	}
	return got, truncated
}

func readRegular(path string, limit int64) (data []byte, cut bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if !st.Mode().IsRegular() {
		return nil, false, fmt.Errorf("%q is not a regular file", path)
	}
	data, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, false, err
	}
	if int64(len(data)) > limit {
		return data[:limit], true, nil
	}
	return data, false, nil
}

// program chooses the command line of a process and finds its program.
func program(p sandbox.Process) (file string, argv []string, err error) {
	if len(p.Argv) == 0 || p.Argv[0] == "" {
		return "", nil, errors.New("no program is named")
	}
	path := ""
	for _, kv := range p.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	file, err = lookPath(p.Argv[0], path)
	for i := 0; err != nil && i < len(p.Else); i++ {
		if argv := p.Else[i]; len(argv) > 0 && argv[0] != "" {
			if file, err := lookPath(argv[0], path); err == nil {
				return file, argv, nil
			}
		}
	}
	return file, p.Argv, err
}

// lookPath finds the program by the PATH the process will have, not ours.
func lookPath(name, path string) (string, error) {
	if strings.ContainsRune(name, '/') {
		return name, nil
	}
	if path == "" {
		path = sandbox.DefaultPath
	}
	var denied string
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // "." would run what the workspace holds
		}
		file := filepath.Join(dir, name)
		// Of the kernel itself: os.Stat makes an error and more for each directory.
		var st unix.Stat_t
		if unix.Stat(file, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
			continue
		}
		if st.Mode&0o111 != 0 {
			return file, nil
		}
		denied = file
	}
	if denied != "" {
		return "", fmt.Errorf("%q is not executable", denied)
	}
	return "", fmt.Errorf("%q was not found in PATH %q", name, path)
}
