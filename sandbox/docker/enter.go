package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/internal/tunnel"
)

// Entry is a command that a person runs in a box.
type Entry struct {
	Argv []string
	Dir  string // absolute path in the box; empty: where the project is
	Env  []string
	// TTY gives the command a terminal; Stdout then has all its output. Sizes
	// are its changes.
	TTY            bool
	Sizes          <-chan Size
	Stdin          io.Reader // nil: empty
	Stdout, Stderr io.Writer
	// Gone is told of what the box of an ended run had mounted and is no more.
	Gone func(path string)
}

// Size is that of a terminal, in characters.
type Size struct{ Width, Height uint }

// Enter runs a command in a box and gives its exit code. A kept box is started
// for it, without gateway and credentials, and stopped again after it. When ctx
// ends, a kept box is stopped; in a running one the command is left to itself.
func (b *Backend) Enter(ctx context.Context, x Listed, e Entry) (code int, err error) {
	if x.State != StateRunning {
		stop, err := b.wake(ctx, x, e.Gone)
		if err != nil {
			return 0, err
		}
		defer func() {
			if stopErr := stop(); stopErr != nil && err == nil {
				err = stopErr
			}
		}()
	}
	opts := container.ExecOptions{
		Cmd: e.Argv, Env: e.Env, WorkingDir: e.Dir, Tty: e.TTY,
		AttachStdin: e.Stdin != nil, AttachStdout: true, AttachStderr: true,
	}
	created, err := b.api.ContainerExecCreate(ctx, x.ID, opts)
	if err != nil {
		return 0, fail(sandbox.KindExec, "run in box", err)
	}
	h, err := b.api.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{Tty: e.TTY})
	if err != nil {
		return 0, fail(sandbox.KindExec, "run in box", err)
	}
	defer h.Close()
	stop := context.AfterFunc(ctx, h.Close)
	defer stop()
	if e.Stdin != nil {
		go func() { // ends with stdin, or with the program
			_, _ = io.Copy(h.Conn, e.Stdin)
			_ = h.CloseWrite()
		}()
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case s, ok := <-e.Sizes:
				if !ok {
					return
				}
				_ = b.api.ContainerExecResize(ctx, created.ID, container.ResizeOptions{Width: s.Width, Height: s.Height})
			case <-over:
				return
			}
		}
	}()
	if e.TTY {
		_, err = io.Copy(e.Stdout, h.Reader)
	} else {
		_, err = stdcopy.StdCopy(e.Stdout, e.Stderr, h.Reader)
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err != nil {
		return 0, fail(sandbox.KindExec, "run in box", err)
	}
	return b.exitOf(ctx, created.ID, e.Argv)
}

// exitOf waits, for a short while, until the engine knows how an exec ended.
func (b *Backend) exitOf(ctx context.Context, id string, argv []string) (int, error) {
	for range 100 {
		got, err := b.api.ContainerExecInspect(ctx, id)
		if err != nil {
			return 0, fail(sandbox.KindExec, "run in box", err)
		}
		if !got.Running {
			if got.ExitCode == 126 || got.ExitCode == 127 {
				return got.ExitCode, &sandbox.Error{
					Kind: sandbox.KindExec, Op: "run in box", Err: fmt.Errorf("%q could not be started, or ended with %d", strings.Join(argv, " "), got.ExitCode),
					Advice: "is the program in the box's image?",
				}
			}
			return got.ExitCode, nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return 0, fail(sandbox.KindExec, "run in box", errors.New("the program's output ended, but not the program"))
}

// wake starts a stopped box; the function it returns stops it again.
func (b *Backend) wake(ctx context.Context, x Listed, gone func(string)) (stop func() error, err error) {
	var s *session
	if x.Session != "" {
		if s, err = openSession(x.Session); err != nil {
			return nil, &sandbox.Error{
				Kind: sandbox.KindConfig, Op: "start box", Err: fmt.Errorf("its directory %s: %w", x.Session, err),
				Advice: "a box without its directory can only be removed: herd-runner box rm " + x.ID[:12],
			}
		}
		ends, err := s.mend()
		if err != nil {
			s.release()
			return nil, fail(sandbox.KindConfig, "start box", err)
		}
		for _, end := range ends {
			gone(end)
		}
	}
	streams, err := b.attachAndStart(ctx, x.ID)
	if err != nil {
		s.release()
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client, err := tunnel.Dial(starting, streams, tunnel.Services{})
	stop = func() error {
		defer s.release()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		if client != nil {
			client.Close(ctx)
		}
		return b.stop(ctx, x.ID)
	}
	if err != nil {
		return nil, errors.Join(fail(sandbox.KindStart, "start box", err), stop())
	}
	return stop, nil
}
