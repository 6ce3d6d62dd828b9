package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/herd-runner/herd-runner/internal/journal"
	"github.com/herd-runner/herd-runner/sandbox"
)

// sessionsDir is where a project's kept boxes have their directories.
const sessionsDir = ".herd/docker-sessions"

// reusedSession is the name of a session that one run after another uses; all
// others are named for their run.
const reusedSession = "box"

// sessionDir makes the directory of a kept box:
// .herd/docker-sessions/<workflow>/<job's leg>/<step>/<run>. Links in the way
// would let the repository choose where it lies.
func sessionDir(spec sandbox.Spec) (string, error) {
	last := spec.Run
	if spec.Reuse {
		last = reusedSession
	}
	root, err := os.OpenRoot(spec.Project)
	if err != nil {
		return "", err
	}
	defer root.Close()
	dir := sessionsDir
	if err := root.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("make %s: %w", dir, err)
	}
	for _, part := range []string{".", journal.Slug(spec.Workflow), journal.Slug(spec.Job), journal.Slug(spec.Step), last} {
		dir = filepath.Join(dir, part)
		if err := root.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			return "", fmt.Errorf("make %s: %w", dir, err)
		}
		if st, err := root.Lstat(dir); err != nil || !st.IsDir() {
			return "", fmt.Errorf("%s is not a directory: remove it, herd-runner keeps boxes' files there", filepath.Join(spec.Project, dir))
		}
	}
	return filepath.Join(spec.Project, dir), nil
}
