package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// List gives the state of every run of a project, newest first. A run whose
// record can not be read is left out of the states and named in the error.
func List(projectDir string) ([]RunState, error) {
	ids, err := runIDs(projectDir)
	if err != nil {
		return nil, err
	}
	var states []RunState
	var errs error
	for _, id := range ids {
		s, err := State(&Reader{ID: id, Dir: filepath.Join(RunsDir(projectDir), id)})
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("run %s: %w", id, err))
			continue
		}
		states = append(states, s)
	}
	return states, errs
}

// Prune removes the runs that started before a time, never one that is alive,
// and gives the ids of those it removed, newest first. With dry it removes
// nothing and gives what it would.
func Prune(projectDir string, before time.Time, dry bool) ([]string, error) {
	ids, err := runIDs(projectDir)
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, id := range ids {
		if at, ok := started(id); !ok || !at.Before(before) {
			continue
		}
		gone := false
		if dry {
			var live bool
			live, err = alive(filepath.Join(RunsDir(projectDir), id))
			gone = !live
		} else {
			gone, err = remove(RunsDir(projectDir), id)
		}
		if err != nil {
			return removed, fmt.Errorf("remove run %s: %w", id, err)
		}
		if gone {
			removed = append(removed, id)
		}
	}
	return removed, nil
}

// remove takes the run out of sight before it deletes it, so that nobody sees
// half of one.
func remove(runs, id string) (bool, error) {
	lock, err := lockFile(filepath.Join(runs, id, lockName))
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return false, err
	}
	if lock != nil {
		defer lock.Close()
	}
	trash := filepath.Join(runs, trashPrefix+id)
	if err := os.RemoveAll(trash); err != nil {
		return false, err
	}
	if err := os.Rename(filepath.Join(runs, id), trash); err != nil {
		return false, err
	}
	return true, os.RemoveAll(trash)
}
