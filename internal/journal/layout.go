package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	herdDir     = ".herd"
	journalName = "journal.jsonl"
	summaryName = "summary.md"
	givenName   = "given.json"
	lockName    = "lock"
	tempPrefix  = ".new-"
	trashPrefix = ".old-"
)

// RunsDir is where the runs of a project lie.
func RunsDir(projectDir string) string { return filepath.Join(projectDir, herdDir, "runs") }

func logPath(job, step string) string {
	return filepath.Join("logs", Slug(job), Slug(step)+".log")
}

func transcriptPath(job, step string) string {
	return filepath.Join("transcripts", Slug(job), Slug(step)+".jsonl")
}

// makeRunsDir creates .herd/runs. The repository is not trusted: links in the
// way would let it choose where the runner writes.
func makeRunsDir(projectDir string) (string, error) {
	herd := filepath.Join(projectDir, herdDir)
	for _, dir := range []string{herd, RunsDir(projectDir)} {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", &NoRecordError{fmt.Errorf("create the state folder: %w", err)}
		}
		info, err := os.Lstat(dir)
		if err != nil {
			return "", fmt.Errorf("look at the state folder: %w", err)
		}
		if !info.IsDir() {
			return "", fmt.Errorf("%s is not a folder (%s): remove it, herd-runner keeps its state there", dir, info.Mode().Type())
		}
	}
	ignore := filepath.Join(herd, ".gitignore")
	f, err := os.OpenFile(ignore, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return RunsDir(projectDir), nil
	}
	if err != nil {
		return "", &NoRecordError{fmt.Errorf("create the state folder: %w", err)}
	}
	_, err = f.WriteString("*\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return "", &NoRecordError{err}
	}
	return RunsDir(projectDir), nil
}

// CanCreate says why Create could not record a run in a project, as far as that
// is seen without writing anything.
func CanCreate(projectDir string) error {
	for _, dir := range []string{RunsDir(projectDir), filepath.Join(projectDir, herdDir), projectDir} {
		st, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && st.IsDir() {
			err = unix.Access(dir, unix.W_OK|unix.X_OK)
		}
		if err != nil {
			return &NoRecordError{fmt.Errorf("create the record of the run: write to %s: %w", dir, err)}
		}
		return nil
	}
	return nil
}

// NoRecordError is that a run can not be recorded in its project.
type NoRecordError struct{ Err error }

func (e *NoRecordError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *NoRecordError) Unwrap() error { return e.Err }

// Hint says what to do next.
func (e *NoRecordError) Hint() string {
	return "a run is recorded in .herd of its project: work in one that you may write to, on a disk that is not full"
}
