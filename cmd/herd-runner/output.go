package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
)

// watchedOutput is the standard output, and notices that it is not written.
type watchedOutput struct {
	io.WriteCloser
	mu     sync.Mutex
	lost   chan struct{} // closed when nobody reads any more
	isLost bool
	err    error // the first, of another kind
}

func watchOutput(w io.WriteCloser) *watchedOutput {
	return &watchedOutput{WriteCloser: w, lost: make(chan struct{})}
}

// outlive keeps a write that nobody reads from killing the process, which would
// leave its boxes to the next start.
func (o *watchedOutput) outlive() {
	// Received and dropped: unlike an ignored signal this is not inherited by
	// the steps on the host.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// Write is safe for concurrent use where the writer below is.
func (o *watchedOutput) Write(p []byte) (int, error) {
	n, err := o.WriteCloser.Write(p)
	if err == nil {
		return n, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !errors.Is(err, syscall.EPIPE):
		if o.err == nil {
			o.err = fmt.Errorf("the output is not complete: %w", err)
		}
		err = o.err
	case !o.isLost:
		o.isLost = true
		close(o.lost)
	}
	return n, err
}

// failure is why the output is not complete; nil where it is, or where who reads
// it wanted no more.
func (o *watchedOutput) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
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
