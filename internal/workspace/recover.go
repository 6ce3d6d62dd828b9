package workspace

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Where a run that works on a copy of the project has it, and what it held when it
// was made, below the run's directory.
const (
	stagedDir  = "workspace"
	stagedFile = "workspace.start"
)

// save keeps what the clone held for Recover.
func (m manifest) save(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(gob.NewEncoder(f).Encode(m), f.Close())
}

// comeBack brings the work in a run's copy back to the project, once.
func (m manifest) comeBack(runDir, project string) (Report, error) {
	rep, err := m.bringBack(filepath.Join(runDir, stagedDir), project)
	if err != nil {
		return rep, err
	}
	return rep, os.Remove(filepath.Join(runDir, stagedFile))
}

// Recover does what Finish would have done for a run that was killed: what its
// steps did to a copy of the project comes back to it. The copy stays where
// something was left out, for the person. A run that had none, or
// whose copy came back, is left alone.
func Recover(project, runDir string) (Report, error) {
	clone := filepath.Join(runDir, stagedDir)
	if !isDir(clone) {
		return Report{}, removeIn(runDir, temporaryDirs())
	}
	f, err := os.Open(filepath.Join(runDir, stagedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Report{}, removeIn(runDir, temporaryDirs())
	}
	if err != nil {
		return Report{}, fmt.Errorf("workspace: %w", err)
	}
	defer f.Close()
	var m manifest
	if err := gob.NewDecoder(f).Decode(&m); err != nil {
		return Report{}, fmt.Errorf("workspace: read %s: %w", f.Name(), err)
	}
	if project, err = filepath.EvalSymlinks(project); err != nil {
		return Report{}, fmt.Errorf("workspace: %w", err)
	}
	rep, err := m.comeBack(runDir, project)
	if err == nil && len(rep.Notices) == 0 {
		err = os.RemoveAll(clone)
	}
	return rep, errors.Join(err, removeIn(runDir, temporaryDirs()))
}
