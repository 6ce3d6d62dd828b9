package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/herd-runner/herd-runner/workflow"
)

// projectFile reads what a workflow uses, from inside of the project directory
// only: a symbolic link out of it is refused.
func projectFile(dir string) workflow.ReadFile {
	return func(name string) ([]byte, error) {
		root, err := os.OpenRoot(under(dir, "."))
		if err != nil {
			return nil, err
		}
		defer root.Close()
		name = filepath.FromSlash(name)
		st, err := root.Stat(name)
		if err != nil {
			return nil, plainPath(err)
		}
		if !st.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a regular file", name)
		}
		f, err := root.Open(name)
		if err != nil {
			return nil, plainPath(err)
		}
		defer f.Close()
		src, err := io.ReadAll(io.LimitReader(f, maxWorkflow+1))
		if err == nil && len(src) > maxWorkflow {
			err = fmt.Errorf("%s is larger than %d MiB", name, maxWorkflow>>20)
		}
		return src, err
	}
}

// plainPath takes the name of the system call out of an error.
func plainPath(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return fmt.Errorf("%s: %w", at.Path, at.Err)
	}
	return err
}
