package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/herd-runner/herd-runner/workflow"
)

// maxWorkflow bounds a workflow file, in bytes.
const maxWorkflow = 16 << 20

// readWorkflow reads, parses and checks a workflow file and all it uses. The
// problems are all of these files'; the workflow always has its name and source.
func readWorkflow(dir, name string) (*workflow.Workflow, []workflow.Problem, error) {
	src, err := readSource(dir, name)
	if err != nil {
		return nil, nil, err
	}
	w, _, problems := workflow.Load(name, src, projectFile(dir))
	if w == nil {
		w = &workflow.Workflow{File: name}
	}
	w.Src = src
	return w, problems, nil
}

// readSource reads the text of a workflow.
func readSource(dir, name string) ([]byte, error) {
	f, err := os.Open(under(dir, name))
	if err != nil {
		return nil, problem("workflow: %w; `herd-runner run` without a file lists the workflows it finds", err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && !st.Mode().IsRegular() {
		return nil, problem("workflow %s is not a regular file", name)
	}
	src, err := io.ReadAll(io.LimitReader(f, maxWorkflow+1))
	if err != nil {
		return nil, problem("workflow: %w", err)
	}
	if len(src) > maxWorkflow {
		return nil, problem("workflow %s is larger than %d MiB", name, maxWorkflow>>20)
	}
	return src, nil
}

// foundWorkflow is one of the workflows of a project.
type foundWorkflow struct {
	file     string // below the project
	workflow *workflow.Workflow
	problems []workflow.Problem
}

// findWorkflows finds the workflows of a project: where GitHub keeps them, in
// workflows/, and at the top.
func findWorkflows(dir string) ([]foundWorkflow, error) {
	var files []string
	for _, pattern := range []string{".github/workflows/*.yml", ".github/workflows/*.yaml", "workflows/*.yml", "workflows/*.yaml", "*.yml", "*.yaml"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, problem("%w", err)
		}
		files = append(files, found...)
	}
	sort.Strings(files)
	var all []foundWorkflow
	for _, file := range files {
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			rel = file
		}
		w, problems, err := readWorkflow(dir, rel)
		if err != nil || len(w.Jobs) == 0 {
			continue
		}
		all = append(all, foundWorkflow{rel, w, problems})
	}
	if len(all) == 0 {
		return nil, problem("no workflow found in %s: give a file, or put one into .github/workflows/ or workflows/", dir)
	}
	return all, nil
}

// listWorkflows shows the workflows of a project.
func (a *App) listWorkflows(dir string) error {
	all, err := findWorkflows(dir)
	if err != nil {
		return err
	}
	for _, found := range all {
		w := found.workflow
		state := fmt.Sprintf("%d jobs", len(w.Jobs))
		if len(w.Jobs) == 1 {
			state = "1 job"
		}
		if workflow.HasErrors(found.problems) {
			state = "has errors, see herd-runner validate " + found.file
		}
		name := ""
		if w.Name != nil {
			name = strings.TrimSpace(w.Name.Text)
		}
		fmt.Fprintf(a.Stdout, "%-40s %-30s %s\n", found.file, name, state)
	}
	return nil
}

// canWrite says why a file that a flag names could not be written when the run ends.
func canWrite(flag, dir, name string) error {
	if name == "" {
		return nil
	}
	at := under(dir, name)
	st, err := os.Stat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		at = filepath.Dir(at)
	case err == nil && st.IsDir():
		return fmt.Errorf("%s %s is a directory; expected a file", flag, name)
	}
	if err := unix.Access(at, unix.W_OK); err != nil {
		return fmt.Errorf("%s %s can not be written: %s: %w", flag, name, at, err)
	}
	return nil
}
