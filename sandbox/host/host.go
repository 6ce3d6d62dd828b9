// Package host is the sandbox backend without a sandbox: a box is a set of
// plain processes of the runner's machine and user. It stands where a person
// has said `docker: false`; nothing falls back to it.
package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/internal/proc"
)

// Options set up a Backend.
type Options struct {
	// TempDir is where boxes without Spec.Temp get a directory of their own,
	// removed when they close. Empty: the system's.
	TempDir string
	// Env is the base environment reported by every box (Info.Env), such as
	// PATH. nil: PATH is sandbox.DefaultPath.
	Env map[string]string
	// Runner is the path of the herd-runner executable. Empty: this program.
	Runner string
}

// Backend runs processes on this machine. It makes this program the reaper of
// its orphaned descendants (Linux), to find again what fled from a box.
type Backend struct {
	opts Options

	mu     sync.Mutex
	boxes  map[*box]struct{}
	closed bool
}

// New returns a Backend; nothing happens before the first Start.
func New(opts Options) *Backend {
	if opts.Runner == "" {
		opts.Runner, _ = os.Executable()
	}
	if opts.Env == nil {
		opts.Env = map[string]string{"PATH": sandbox.DefaultPath}
	}
	return &Backend{opts: opts, boxes: map[*box]struct{}{}}
}

// Preflight reports specs that the host can not honour.
func (b *Backend) Preflight(_ context.Context, specs []sandbox.Spec) error {
	for _, s := range specs {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

func check(s sandbox.Spec) error {
	if s.Network.Mode == "none" || s.Network.Mode == "allow" {
		return &sandbox.Error{
			Kind: sandbox.KindConfig, Op: "prepare host box",
			Advice: "run the step in a container, or leave its network setting out",
			Err:    fmt.Errorf("network %q can not be kept on the host: a host process has the host's network", s.Network.Mode),
		}
	}
	if s.Workdir == "" {
		return nil
	}
	if st, err := os.Stat(s.Workdir); err != nil {
		return &sandbox.Error{Kind: sandbox.KindAccess, Op: "prepare host box", Err: fmt.Errorf("working directory: %w", err)}
	} else if !st.IsDir() {
		return &sandbox.Error{Kind: sandbox.KindAccess, Op: "prepare host box", Err: fmt.Errorf("working directory %q is not a directory", s.Workdir)}
	}
	return nil
}

// Start opens a box. It starts no process.
func (b *Backend) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if err := ctx.Err(); err != nil {
		return nil, startError("start host box", err)
	}
	if err := check(spec); err != nil {
		return nil, err
	}
	table, err := proc.Shared()
	if err != nil {
		return nil, startError("start host box", err)
	}
	x := &box{backend: b, info: b.info(spec)}
	if err := x.prepare(spec); err != nil {
		x.release(ctx)
		return nil, startError("start host box", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		x.release(ctx)
		return nil, startError("start host box", errors.New("the backend is closed"))
	}
	x.group = table.NewGroup()
	b.boxes[x] = struct{}{}
	return x, nil
}

func (b *Backend) info(spec sandbox.Spec) sandbox.Info {
	env := b.opts.Env
	if len(spec.Env) > 0 {
		env = maps.Clone(env)
		maps.Copy(env, spec.Env)
	}
	return sandbox.Info{
		Backend: "host", Workdir: spec.Workdir, Home: spec.Home, HostHome: spec.Home, Temp: spec.Temp,
		Runner: b.opts.Runner, Env: env, OS: runtime.GOOS, Arch: runtime.GOARCH,
	}
}

// Close ends every box.
func (b *Backend) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	open := make([]*box, 0, len(b.boxes))
	for x := range b.boxes {
		open = append(open, x)
	}
	b.mu.Unlock()
	var errs []error
	for _, x := range open {
		errs = append(errs, x.Close(ctx))
	}
	return errors.Join(errs...)
}

type box struct {
	backend *Backend
	info    sandbox.Info
	group   *proc.Group
	tempDir string // ours to remove; empty: none
	gateway *gateway
	closing sync.Once
	err     error
}

// prepare makes what the spec leaves to the backend.
func (x *box) prepare(spec sandbox.Spec) error {
	if spec.Temp == "" {
		dir, err := os.MkdirTemp(x.backend.opts.TempDir, "herd-box-")
		if err != nil {
			return err
		}
		if dir, err = filepath.Abs(dir); err != nil {
			return err
		}
		x.tempDir, x.info.Temp = dir, dir
	}
	if spec.Gateway == nil {
		return nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	x.gateway = serve(l, spec.Gateway)
	x.info.Gateway = l.Addr().String()
	return nil
}

func (x *box) release(ctx context.Context) {
	if x.gateway != nil {
		x.gateway.close(ctx)
	}
	if x.tempDir != "" {
		_ = os.RemoveAll(x.tempDir)
	}
}

func (x *box) Info() sandbox.Info { return x.info }

func (x *box) Exec(ctx context.Context, p sandbox.Process) (sandbox.Exit, error) {
	return x.group.Run(ctx, p, x.info.Workdir)
}

func (x *box) Close(ctx context.Context) error {
	x.closing.Do(func() {
		x.err = x.group.Close(ctx)
		x.release(ctx)
		x.backend.mu.Lock()
		delete(x.backend.boxes, x)
		x.backend.mu.Unlock()
	})
	return x.err
}

func startError(op string, err error) error {
	return &sandbox.Error{Kind: sandbox.KindStart, Op: op, Err: err}
}
