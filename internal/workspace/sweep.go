package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Sweep removes what killed runs have left in their directories, which are those
// below runs for which dead says so. A clone is kept: the work of its agents
// never came back to the project, and the notices say where it lies. Clones of isolated
// workspaces go: what they hold was not finished.
func Sweep(runs string, dead func(id string) bool) (notices []string, err error) {
	notices, err = sweepRuns(runs, dead)
	return notices, errors.Join(err, sweepClones(filepath.Join(filepath.Dir(runs), clonesDir), dead))
}

// sweepClones removes the clones of killed runs but those that are kept.
func sweepClones(dir string, dead func(id string) bool) error {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if isKept(name) || !e.IsDir() || !dead(e.Name()) {
			continue
		}
		errs = append(errs, os.RemoveAll(name))
	}
	return errors.Join(errs...)
}

func sweepRuns(runs string, dead func(id string) bool) (notices []string, err error) {
	entries, err := os.ReadDir(runs)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, e := range entries {
		dir := filepath.Join(runs, e.Name())
		if !e.IsDir() || !isDir(filepath.Join(dir, "temp")) && !isDir(filepath.Join(dir, "boxes")) && !isDir(filepath.Join(dir, "git")) || isKept(dir) || !dead(e.Name()) {
			continue
		}
		if clone := filepath.Join(dir, stagedDir); isDir(clone) {
			notices = append(notices, fmt.Sprintf("run %s was killed before its work came back to the project; what its steps left is in %s, remove it when you have looked", e.Name(), clone))
		}
		errs = append(errs, removeIn(dir, temporaryDirs()))
	}
	return notices, errors.Join(errs...)
}

// temporaryDirs are those that a run has in its directory while it goes on.
func temporaryDirs() []string { return []string{"temp", "boxes", "git"} }

// removeIn removes what has these names in dir.
func removeIn(dir string, names []string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}
