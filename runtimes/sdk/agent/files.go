package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	// maxEdit is the largest file in bytes that edit and grep take.
	maxEdit = 10 << 20
	// sniff is how much of a file decides whether it is binary.
	sniff = 8 << 10
)

// path is where p is; relative paths are of the working directory.
func (w workspace) path(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(w.dir, p)
}

// shown is p as the model should see it: relative where it is in the workspace.
func (w workspace) shown(p string) string {
	if rel, err := filepath.Rel(w.dir, p); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return rel
	}
	return p
}

// openRegular opens a file for reading and refuses what could block or never
// end: directories, FIFOs, devices, sockets.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := regular(path, info); err != nil {
		return nil, err
	}
	// It may have been swapped since: NONBLOCK keeps a FIFO from hanging us.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = regular(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func regular(path string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return fmt.Errorf("%s is a directory; use list", path)
	default:
		return fmt.Errorf("%s is not a regular file (%s)", path, mode.Type())
	}
}

// readWhole reads a file of at most maxEdit bytes.
func readWhole(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEdit+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxEdit {
		return nil, fmt.Errorf("%s is larger than %d MiB", path, maxEdit>>20)
	}
	return data, nil
}

func binary(data []byte) bool { return bytes.IndexByte(data[:min(len(data), sniff)], 0) >= 0 }

// walk calls visit for each regular file below root in lexical order, with its
// path relative to root in slashes. Symbolic links are not followed. Metadata
// and dependency trees are left out unless root is in one.
func walk(ctx context.Context, root string, visit func(rel string, entry fs.DirEntry) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if path == root {
				return err
			}
			return nil // unreadable parts are not the model's concern
		}
		if entry.IsDir() {
			switch entry.Name() {
			case ".git", ".herd", "node_modules":
				if path != root {
					return fs.SkipDir
				}
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return nil
		}
		return visit(filepath.ToSlash(rel), entry)
	})
}

// errEnough ends a walk that has found all it may.
var errEnough = errors.New("enough")

func enough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
