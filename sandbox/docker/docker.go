// Package docker is the sandbox backend for engines that speak Docker's API,
// Docker itself and podman: every box is a hardened container with the guest as
// process 1 and its standard streams as the tunnel. There is no exec, no
// published port, no log.
package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/herd-runner/herd-runner/sandbox"
)

const (
	callTimeout  = 30 * time.Second // one call to the engine
	startTimeout = 60 * time.Second // create, start and greet
	endTimeout   = 2 * time.Second  // a guest's exit, once told
	// maxStarts is how many boxes are started at the same time; more buys
	// nothing, the engine is the bottleneck.
	maxStarts = 4
)

// Options set up a Backend.
type Options struct {
	// Runner is the path of the executable that is process 1 of every box, with the
	// verbs of cmd/herd-guest. It is mounted; an engine behind a network or a virtual
	// machine gets it once, on a volume.
	Runner string
	// Guest gives the path of such an executable for Linux of an architecture, as
	// GOARCH names it, for engines whose boxes can not run Runner; empty: there is
	// none. May be nil.
	Guest func(arch string) (string, error)
	// StateDir is where leases live; the same for all runs of a user.
	StateDir string
	// Host is the engine's address as in DOCKER_HOST: unix://, tcp:// (with TLS
	// where DOCKER_TLS_VERIFY and DOCKER_CERT_PATH say so) or ssh://; empty: the
	// default.
	Host string
	// Engine is the one that must answer there, EngineDocker or EnginePodman;
	// empty: any.
	Engine string
	// Look leaves alone what dead runners have left: it is to be looked at.
	Look bool
	// LoginDir is where config.json has the user's logins to registries, as the
	// docker command keeps them; empty: nobody logs in.
	LoginDir string
	// BuildAdvice says how an image herd-runner/… is made; may be nil.
	BuildAdvice func(ref string) string
	// Pin says which image a name has to stand for; nil: whatever the engine or
	// the registry has. Boxes are started from that image and no other.
	Pin func(ref string) (Pin, error)
	// Notice is told what takes time or is noteworthy; may be nil.
	Notice func(msg string)
}

// Backend starts boxes in one engine. It is safe for concurrent use.
type Backend struct {
	opts Options
	api  *client.Client
	// address is as in DOCKER_HOST.
	address string
	engine  string // EngineDocker or EnginePodman
	version string
	seccomp string // file of the profile that podman is to use; empty: its own
	hosts   string // file for boxes that closesItself; empty: there are none
	remote  remote
	carrier carrier

	lease  *leases
	starts chan struct{}
	images imageCache

	networkOnce sync.Mutex
	networkOK   bool

	mu     sync.Mutex
	boxes  map[*box]struct{}
	closed bool
}

// Open connects to the engine, takes a lease and removes what dead runners of
// this machine have left. The caller closes the Backend.
func Open(ctx context.Context, opts Options) (*Backend, error) {
	if opts.Notice == nil {
		opts.Notice = func(string) {}
	}
	if st, err := os.Stat(opts.Runner); err != nil {
		return nil, fail(sandbox.KindConfig, "open docker backend", fmt.Errorf("the executable for boxes: %w", err))
	} else if st.Mode().Perm()&0o005 != 0o005 {
		return nil, &sandbox.Error{
			Kind: sandbox.KindConfig, Op: "open docker backend", Advice: "chmod a+rx " + opts.Runner,
			Err: fmt.Errorf("the executable %s can not be run by the user of a box: its mode is %s", opts.Runner, st.Mode().Perm()),
		}
	}
	api, address, err := connect(opts.Host)
	var told *sandbox.Error
	if errors.As(err, &told) {
		return nil, err
	}
	if err != nil {
		return nil, unreachable(address, err)
	}
	b := &Backend{
		opts: opts, api: api, address: address, starts: make(chan struct{}, maxStarts),
		boxes: map[*box]struct{}{},
	}
	if err := b.recognise(ctx); err != nil {
		_ = api.Close()
		return nil, err
	}
	if b.lease, err = takeLease(opts.StateDir); err != nil {
		_ = api.Close()
		return nil, fail(sandbox.KindConfig, "open docker backend", err)
	}
	if opts.Look {
		return b, nil
	}
	if err := errors.Join(b.giveSeccomp(), b.giveHosts()); err != nil {
		b.lease.release()
		_ = api.Close()
		return nil, fail(sandbox.KindConfig, "open docker backend", err)
	}
	if inTheClear(address) {
		opts.Notice(notEncrypted(address))
	}
	if err := b.reap(ctx); err != nil {
		opts.Notice(fmt.Sprintf("what an earlier run left behind could not be removed: %v", err))
	}
	return b, nil
}

func (b *Backend) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := b.api.Ping(ctx); err != nil {
		return unreachable(b.address, err)
	}
	return nil
}

// Preflight reports why boxes with these specs could not be started. Images
// that are missing and may be pulled are not pulled.
func (b *Backend) Preflight(ctx context.Context, specs []sandbox.Spec) error {
	if err := b.ping(ctx); err != nil {
		return err
	}
	checked := map[string]bool{}
	for _, s := range specs {
		if err := b.possible(ctx, s); err != nil {
			return err
		}
		if err := b.preflightFiles(ctx, s); err != nil {
			return err
		}
		if key := s.Image + "\x00" + s.Pull; !checked[key] {
			checked[key] = true
			if err := b.preflightImage(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// possible reports what is wrong with a spec before its box is made.
func (b *Backend) possible(ctx context.Context, s sandbox.Spec) error {
	r, err := plan(s, b.place())
	if err != nil {
		return err
	}
	for _, m := range s.Mounts {
		if m.Source == "" || !b.Local() {
			continue
		}
		if _, err := os.Stat(m.Source); err != nil { // podman would make it
			return &sandbox.Error{Kind: sandbox.KindAccess, Op: "prepare box", Err: fmt.Errorf("mount %s: %w", m.Target, err)}
		}
	}
	if b.engine != EnginePodman {
		return nil
	}
	if _, err := toPodman(r, b.seccomp); err != nil {
		return err
	}
	return b.podmanRuntime(ctx, s)
}

// preflightFiles reports why a box could not work on the files of its project.
func (b *Backend) preflightFiles(ctx context.Context, s sandbox.Spec) error {
	if b.Local() {
		return foreign(s, os.Getuid())
	}
	if s.Project == "" {
		return nil
	}
	sees, err := b.Sees(ctx, s.Project)
	if err != nil || sees {
		return err
	}
	if err := b.carriable(s); err != nil {
		return err
	}
	return b.checkSize(s.Project)
}

// foreign reports a user of the box to whom me, who is not root, can not give HOME
// and the temporary directory. Root is left out: in a rootless engine that is me.
func foreign(s sandbox.Spec, me int) error {
	uid, _, err := user(s)
	if err != nil || s.User == "" || me == 0 || uid == me || uid == 0 {
		return err
	}
	return &sandbox.Error{
		Kind: sandbox.KindAccess, Op: "prepare box",
		Advice: "leave docker.user out: the box's user is then you; or run herd-runner as root",
		Err:    fmt.Errorf("you are uid %d, and user %q could not write to its HOME and RUNNER_TEMP, which are yours", me, s.User),
	}
}

// Start starts a box; see sandbox.Backend.
func (b *Backend) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	// What is wrong with the spec is said before the engine is asked.
	if err := b.possible(ctx, spec); err != nil {
		return nil, err
	}
	if (spec.Network.Mode == "allow") != (spec.Egress != nil) {
		return nil, badSpec("network \"allow\", and no other, comes with an egress proxy")
	}
	select {
	case b.starts <- struct{}{}:
		defer func() { <-b.starts }()
	case <-ctx.Done():
		return nil, fail(sandbox.KindStart, "start box", ctx.Err())
	}
	image, err := b.image(ctx, spec)
	if err != nil {
		return nil, err
	}
	spec, copies, err := b.reach(ctx, spec, image)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	x := &box{backend: b, spec: spec, image: image, copies: copies, done: make(chan struct{})}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil, errClosed
	}
	b.boxes[x] = struct{}{}
	b.mu.Unlock()
	if err := x.start(ctx); err != nil {
		x.discard(ctx)
		return nil, err
	}
	return x, nil
}

var errClosed = &sandbox.Error{Kind: sandbox.KindStart, Op: "start box", Err: errors.New("the backend is closed")}

// Close removes everything this backend has in the engine and gives up its
// lease. Kept boxes stay, stopped.
func (b *Backend) Close(ctx context.Context) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	open := make([]*box, 0, len(b.boxes))
	for x := range b.boxes {
		open = append(open, x)
	}
	b.mu.Unlock()
	errs := make([]error, len(open)+3)
	var wg sync.WaitGroup
	for i, x := range open {
		wg.Go(func() { errs[i] = x.Close(ctx) })
	}
	wg.Wait()
	// What a start was just making is found by its label.
	errs[len(open)] = b.removeAll(ctx, b.lease.id)
	errs[len(open)+1] = b.sweepNetworks(ctx)
	errs[len(open)+2] = b.closeCarrier(ctx)
	b.lease.release()
	return errors.Join(append(errs, b.api.Close())...)
}

// remove kills and removes a container; that it is gone already is fine. It
// works on after ctx is done, for a bounded time.
func (b *Backend) remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	err := b.patiently(ctx, func() error {
		return b.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	})
	switch {
	case err == nil || errdefs.IsNotFound(err):
		return nil
	case isGone(err): // almost: the engine is at it, of its own accord
		gone, failed := b.api.ContainerWait(ctx, id, container.WaitConditionRemoved)
		select {
		case <-gone:
		case <-failed: // it was faster
		}
		return nil
	}
	return fail(sandbox.KindEngine, "remove container", err)
}

// patiently calls the engine again, for two seconds: podman fails when a container
// ends just then, and Docker while something still has the container mounted.
func (b *Backend) patiently(ctx context.Context, call func() error) error {
	err := call()
	passes := func() bool { return b.engine == EnginePodman && !isGone(err) || errdefs.IsInternal(err) }
	for tries := 0; tries < 40 && err != nil && passes(); tries++ {
		timer := time.NewTimer(50 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		err = call()
	}
	return err
}
