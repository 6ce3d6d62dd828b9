package main

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
)

// watchedOutput notices when nobody reads the output any more.
type watchedOutput struct {
	w    io.Writer
	lost chan struct{}
	once sync.Once
}

// watchOutput also keeps such a write from killing the process, which would
// leave its boxes to the next start.
func watchOutput(w io.Writer) *watchedOutput {
	// Received and dropped: unlike an ignored signal this is not inherited by
	// the steps on the host.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return &watchedOutput{w: w, lost: make(chan struct{})}
}

// Write is safe for concurrent use where the writer below is.
func (o *watchedOutput) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.once.Do(func() { close(o.lost) })
	}
	return n, err
}

// inRepository is the project's directory as seen from the repository that GitHub
// has checked out; empty where it is not in it.
func (a *App) inRepository(dir string) string {
	rel, err := filepath.Rel(a.Getenv("GITHUB_WORKSPACE"), dir)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return filepath.ToSlash(rel)
}
