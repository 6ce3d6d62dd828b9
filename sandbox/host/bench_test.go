package host_test

import (
	"io"
	"os/exec"
	"sync"
	"testing"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/host"
)

// two runs f b.N times, two at a time.
func two(b *testing.B, f func()) {
	next := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range next {
				f()
			}
		})
	}
	for b.Loop() {
		next <- struct{}{}
	}
	close(next)
	wg.Wait()
}

// BenchmarkBareForkExec is the floor for BenchmarkStep (PERFORMANCE: 1.7×).
func BenchmarkBareForkExec(b *testing.B) {
	two(b, func() {
		if err := exec.Command("/bin/sh", "-c", "true").Run(); err != nil {
			b.Error(err)
		}
	})
}

// BenchmarkStep is a box with one process and both outputs read.
func BenchmarkStep(b *testing.B) {
	h := host.New(host.Options{})
	defer closeBackend(b, h)
	out := struct{ io.Writer }{io.Discard}
	dir := b.TempDir()
	two(b, func() {
		box, err := h.Start(b.Context(), sandbox.Spec{Temp: dir, Workdir: dir})
		if err != nil {
			b.Error(err)
			return
		}
		if _, err := box.Exec(b.Context(), sandbox.Process{Argv: []string{"/bin/sh", "-c", "true"}, Stdout: out, Stderr: out}); err != nil {
			b.Error(err)
		}
		if err := box.Close(b.Context()); err != nil {
			b.Error(err)
		}
	})
}

func BenchmarkMillionLines(b *testing.B) {
	h := host.New(host.Options{})
	defer closeBackend(b, h)
	box, err := h.Start(b.Context(), sandbox.Spec{Temp: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := box.Exec(b.Context(), sandbox.Process{Argv: []string{"seq", "1000000"}, Stdout: struct{ io.Writer }{io.Discard}}); err != nil {
			b.Fatal(err)
		}
	}
}
