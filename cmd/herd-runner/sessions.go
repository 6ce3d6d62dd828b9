package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/herd-runner/herd-runner/internal/journal"
	"github.com/herd-runner/herd-runner/internal/workspace"
	"github.com/herd-runner/herd-runner/sandbox"
)

// sessionsDir is where a project's kept boxes have their directories.
const sessionsDir = ".herd/docker-sessions"

// reusedSession is the name of a session that one run after another uses; all
// others are named for their run.
const reusedSession = "box"

// sessionDir makes the directory of a kept box:
// .herd/docker-sessions/<workflow>/<job's leg>/<step>/<run>.
func sessionDir(spec sandbox.Spec) (string, error) {
	last := spec.Run
	if spec.Reuse {
		last = reusedSession
	}
	return makeSessionDir(spec.Project, spec.Workflow, spec.Job, spec.Step, last)
}

// makeSessionDir makes a directory below sessionsDir. Links in the way would let
// the repository choose where it lies.
func makeSessionDir(project, workflow, leg, step, last string) (string, error) {
	root, err := os.OpenRoot(project)
	if err != nil {
		return "", err
	}
	defer root.Close()
	dir := sessionsDir
	if err := root.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("make %s: %w", dir, err)
	}
	for _, part := range []string{".", journal.Slug(workflow), journal.Slug(leg), journal.Slug(step), last} {
		dir = filepath.Join(dir, part)
		if err := root.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			return "", fmt.Errorf("make %s: %w", dir, err)
		}
		if st, err := root.Lstat(dir); err != nil || !st.IsDir() {
			return "", fmt.Errorf("%s is not a directory: remove it, herd-runner keeps boxes' files there", filepath.Join(project, dir))
		}
	}
	return filepath.Join(project, dir), nil
}

const (
	// talkSuffix is behind the run's id in the name of a directory with an
	// agent's conversation, beside those of boxes.
	talkSuffix = "-session"
	// keptTalks is of how many runs a step's conversation is kept, the newest.
	keptTalks = 5

	talkLock, talkFiles = "lock", "home"
)

// talks keeps the conversations of agents, each in a directory of its own that
// is locked until the run has ended. Safe for concurrent use.
type talks struct {
	project, workflow, run string

	mu      sync.Mutex
	held    []*os.File
	passing []string
}

// Save implements steps.Sessions.
func (t *talks) Save(leg, step, home string, paths []string, passing bool) (bool, error) {
	dir, err := makeSessionDir(t.project, t.workflow, leg, step, t.run+talkSuffix)
	if err != nil {
		return false, err
	}
	lock, err := lockTalk(dir)
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	t.held = append(t.held, lock)
	if passing {
		t.passing = append(t.passing, dir)
	}
	t.mu.Unlock()
	dropOldTalks(filepath.Dir(dir))
	files := filepath.Join(dir, talkFiles)
	if err := os.Mkdir(files, 0o700); err != nil && !os.IsExist(err) {
		return false, err
	}
	return workspace.CopySession(home, files, paths)
}

// Load implements steps.Sessions.
func (t *talks) Load(leg, step, home string, paths []string) error {
	dir, err := makeSessionDir(t.project, t.workflow, leg, step, t.run+talkSuffix)
	if err != nil {
		return err
	}
	found, err := workspace.CopySession(filepath.Join(dir, talkFiles), home, paths)
	if err == nil && !found {
		err = fmt.Errorf("%s is empty", dir)
	}
	return err
}

// Close gives the conversations up: those that may not stay are removed.
func (t *talks) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for _, dir := range t.passing {
		errs = append(errs, os.RemoveAll(dir))
	}
	for _, f := range t.held {
		errs = append(errs, f.Close())
	}
	t.held, t.passing = nil, nil
	return errors.Join(errs...)
}

func lockTalk(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, talkLock), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("the session in %s is in use: %w", dir, err)
	}
	return f, nil
}

// dropOldTalks removes all but the newest conversations of a step that nobody
// uses. Run ids begin with their time.
func dropOldTalks(step string) {
	all, err := filepath.Glob(filepath.Join(globQuote(step), "*"+talkSuffix))
	if err != nil || len(all) <= keptTalks {
		return
	}
	slices.Sort(all)
	for _, dir := range all[:len(all)-keptTalks] {
		_ = removeTalk(dir)
	}
}

// removeTalk removes a conversation unless it is in use.
func removeTalk(dir string) error {
	lock, err := lockTalk(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	return os.RemoveAll(dir)
}

// talksOf are the directories with conversations of a run.
func talksOf(project, run string) []string {
	all, _ := filepath.Glob(filepath.Join(globQuote(project), sessionsDir, "*", "*", "*", run+talkSuffix))
	return all
}

func globQuote(path string) string {
	return strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, `\`, `\\`).Replace(path)
}
