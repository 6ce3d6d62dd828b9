package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/internal/tunnel"
)

type box struct {
	backend *Backend
	spec    sandbox.Spec
	image   image
	copies  []*replica // of what is mounted, where the engine has other files
	bridge  string     // name of its network; empty: it is on none
	session *session   // of a kept box; nil: it has none
	reused  bool
	notices []string
	id      string
	streams *attached
	client  *tunnel.Client
	info    sandbox.Info

	closing sync.Once
	done    chan struct{} // closed when Close is over
	err     error

	mu     sync.Mutex
	closed bool
	cause  *sandbox.Error // why the box ended, once found out
}

// start creates, attaches, starts and greets. What it has made when it fails
// is removed by discard.
func (x *box) start(ctx context.Context) error {
	b := x.backend
	if err := x.openSession(); err != nil {
		return fail(sandbox.KindConfig, "open the box's session", err)
	}
	if err := x.own(); err != nil {
		return fail(sandbox.KindAccess, "prepare box", err)
	}
	if x.spec.Network.Mode == "" || x.spec.Network.Mode == "bridge" {
		x.bridge = b.bridgeName(x.session)
	}
	at := b.place()
	at.image = x.image.id
	if x.bridge != "" {
		at.bridge = x.bridge
	}
	req, err := plan(x.spec, at)
	if err != nil {
		return err
	}
	if x.spec.Keep {
		if req.Config.Labels[labelSpec], err = fingerprint(req); err != nil {
			return err
		}
	}
	if x.spec.Reuse {
		if x.id, err = b.stopped(ctx, req); err != nil {
			return err
		}
	}
	if x.reused = x.id != ""; x.reused {
		if err = x.run(ctx, req); err == nil || ctx.Err() != nil {
			return err
		}
		// It may have spoiled itself. A new one takes its place.
		x.notices = append(x.notices, "the box kept from an earlier run could not be started again and is made anew: "+err.Error())
		if x.client != nil {
			x.client.Close(ctx)
		}
		x.reused, x.client, x.streams, x.cause = false, nil, nil, nil
		if err := b.remove(ctx, x.id); err != nil {
			return err
		}
	}
	if err := b.makeBridge(ctx, x.bridge); err != nil {
		return err
	}
	if x.id, err = b.create(ctx, req); err != nil {
		return err
	}
	return x.run(ctx, req)
}

// openSession takes the session of a kept box. One that is another's makes this
// box an ordinary one.
func (x *box) openSession() (err error) {
	if !x.spec.Keep || x.spec.Session == "" {
		return nil
	}
	x.session, err = openSession(x.spec.Session)
	if errors.Is(err, errInUse) {
		x.notices = append(x.notices, "the box of this step that is kept is in use by another run; this one is new, and removed when done")
		x.spec.Keep, x.spec.Reuse, x.spec.Session = false, false, ""
		return nil
	}
	if err == nil {
		x.spec, err = x.session.adopt(x.spec, x.backend.maker())
	}
	return err
}

// own gives HOME and the temporary directory to the box's user, who need not be the
// one that they were made for. Those of a session are that user's already, and
// copies belong to the engine.
func (x *box) own() error {
	if os.Getuid() != 0 || x.session != nil || x.copies != nil {
		return nil
	}
	uid, gid, err := user(x.spec)
	if err != nil {
		return err
	}
	for _, m := range x.spec.Mounts {
		if m.Source != "" && (m.Target == x.spec.Home || m.Target == x.spec.Temp) {
			if err := os.Lchown(m.Source, uid, gid); err != nil {
				return err
			}
		}
	}
	return nil
}

// run attaches to the created or stopped container, starts it and greets.
func (x *box) run(ctx context.Context, req request) error {
	b, id := x.backend, x.id
	streams, err := b.attachAndStart(ctx, id)
	x.streams = streams
	if err != nil {
		return err
	}
	verified := make(chan error, 1)
	go func() { verified <- b.verify(ctx, id, req) }()
	c, err := tunnel.Dial(ctx, streams, tunnel.Services{Gateway: x.spec.Gateway, Egress: x.spec.Egress})
	verr := <-verified
	if err != nil {
		return x.startFailed(ctx, err)
	}
	x.client = c
	if verr != nil {
		return verr
	}
	if err := x.confined(); err != nil {
		return err
	}
	x.fillInfo()
	return nil
}

// create makes a container. The id is set also when a later part fails.
func (b *Backend) create(ctx context.Context, req request) (string, error) {
	if b.engine == EnginePodman {
		var err error
		if req, err = toPodman(req, b.seccomp); err != nil {
			return "", err
		}
	}
	// Not to be cancelled half-way: the engine would go on making it unseen.
	unbroken, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	created, err := b.api.ContainerCreate(unbroken, req.Config, req.Host, req.Network, nil, "")
	if err != nil {
		return "", createError(err)
	}
	if ctx.Err() != nil {
		return created.ID, fail(sandbox.KindStart, "start box", ctx.Err())
	}
	for _, w := range created.Warnings {
		b.opts.Notice("the engine warns: " + w)
	}
	return created.ID, nil
}

// attachAndStart starts a container with its streams in our hands.
func (b *Backend) attachAndStart(ctx context.Context, id string) (*attached, error) {
	h, err := b.api.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		// Podman makes the container here, and its reason for not doing so is not
		// among what attaching can tell.
		if serr := b.api.ContainerStart(ctx, id, container.StartOptions{}); serr != nil {
			return nil, startError(serr)
		}
		return nil, fail(sandbox.KindStart, "attach to container", err)
	}
	streams := attach(h)
	if err := b.api.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		_ = streams.Close()
		return streams, startError(err)
	}
	return streams, nil
}

func (b *Backend) verify(ctx context.Context, id string, req request) error {
	got, err := b.api.ContainerInspect(ctx, id)
	if err != nil {
		return fail(sandbox.KindEngine, "inspect container", err)
	}
	if b.engine == EnginePodman {
		sent, err := toPodman(req, b.seccomp)
		if err != nil {
			return err
		}
		got = fromPodman(req, sent, got)
	}
	if bad := weakened(req, got); len(bad) > 0 {
		return &sandbox.Error{
			Kind: sandbox.KindConfig, Op: "check container",
			Advice: "this engine can not give the protection that is asked for; see its version and configuration",
			Err:    errors.New("the engine made the container weaker than asked: " + strings.Join(bad, "; ")),
		}
	}
	return nil
}

// confined checks in the box itself what the engine's inspect can not tell,
// where nothing was asked that changes it.
func (x *box) confined() error {
	s := x.spec
	if s.Privileged || len(s.HostConfig) > 0 || (s.OCIRuntime != "" && s.OCIRuntime != "runc") {
		return nil
	}
	c := x.client.Confinement()
	none := func(caps string) bool { return caps != "" && strings.Trim(caps, "0") == "" }
	if s.Network.Closed() && !slices.Equal(c.Links, []string{"lo"}) {
		return &sandbox.Error{
			Kind: sandbox.KindConfig, Op: "check container",
			Advice: "the engine's OCI runtime must make network namespaces as runc does, with loopback up (see docker info, Default Runtime)",
			Err:    fmt.Errorf("the box of a step without a network has the interfaces %q up; expected lo alone", c.Links),
		}
	}
	if c.Seccomp == "2" && c.NoNewPrivs == "1" && none(c.CapEff) && none(c.CapBnd) {
		return nil
	}
	return &sandbox.Error{
		Kind: sandbox.KindConfig, Op: "check container",
		Advice: "the engine must run with its default seccomp profile (see docker info, Security Options)",
		Err: fmt.Errorf("the box is weaker than asked: seccomp mode %q, no-new-privileges %q, capabilities %q of %q; expected 2, 1 and none",
			c.Seccomp, c.NoNewPrivs, c.CapEff, c.CapBnd),
	}
}

func (x *box) startFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fail(sandbox.KindStart, "start box", fmt.Errorf("%w: %w", err, context.Cause(ctx)))
	}
	if cause := x.whyEnded(ctx, err); cause.Kind == sandbox.KindOOM {
		return cause
	}
	return fail(sandbox.KindStart, "start box", fmt.Errorf("%w (stderr %s)", err, x.streams.said()))
}

func (x *box) fillInfo() {
	x.info = sandbox.Info{
		Backend: x.backend.engine, ID: x.id, Image: x.image.name, Workdir: x.spec.Workdir,
		Home: x.spec.Home, Temp: x.spec.Temp, Runner: x.backend.place().entry(), Gateway: x.client.Gateway(), Egress: x.client.Egress(),
		Env:    map[string]string{"PATH": sandbox.DefaultPath},
		Reused: x.reused, Notices: x.notices,
	}
	if x.copies == nil {
		x.fillHost()
	}
	for _, kv := range x.image.env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			x.info.Env[k] = v
		}
	}
	if x.info.Egress != "" {
		maps.Copy(x.info.Env, sandbox.ProxyEnv(x.info.Egress))
	}
	maps.Copy(x.info.Env, x.spec.Env)
	x.info.OS, x.info.Arch = x.client.Platform()
}

// fillHost tells what of this machine the box has.
func (x *box) fillHost() {
	for _, m := range x.spec.Mounts {
		if m.Target == x.spec.Home {
			x.info.HostHome = m.Source
		}
		if m.Source != "" && !m.ReadOnly {
			x.info.HostDirs = append(x.info.HostDirs, m.Source)
		}
	}
}

func (x *box) Info() sandbox.Info { return x.info }

func (x *box) Exec(ctx context.Context, p sandbox.Process) (sandbox.Exit, error) {
	if err := x.backend.sendAll(ctx, x.copies); err != nil && ctx.Err() == nil {
		return sandbox.Exit{}, err
	}
	exit, err := x.client.Exec(ctx, p, x.info.Workdir)
	fetchErr := x.fetch(ctx, p.Kill)
	var serr *sandbox.Error
	switch {
	case errors.As(err, &serr) && serr.Kind == sandbox.KindBox:
		return exit, x.whyEnded(ctx, serr)
	case err == nil:
		err = fetchErr
	}
	return exit, err
}

// fetch brings back what the box has changed, also when ctx is done, but not for
// long once kill is closed.
func (x *box) fetch(ctx context.Context, kill <-chan struct{}) error {
	if len(x.copies) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-kill:
		case <-over:
			return
		}
		select {
		case <-time.After(killedTime):
			cancel()
		case <-over:
		}
	}()
	return x.backend.fetchAll(ctx, x.copies)
}

// whyEnded asks the engine what has become of the container.
func (x *box) whyEnded(ctx context.Context, err error) *sandbox.Error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cause != nil {
		return x.cause
	}
	if x.closed {
		return &sandbox.Error{Kind: sandbox.KindBox, Op: "run process", Err: errors.New("the box is closed")}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	x.cause = &sandbox.Error{Kind: sandbox.KindBox, Op: "run process", Err: err}
	var serr *sandbox.Error
	if errors.As(err, &serr) {
		x.cause.Op, x.cause.Err = serr.Op, serr.Err
	}
	got, ierr := x.settled(ctx)
	switch {
	case client.IsErrConnectionFailed(ierr):
		x.cause.Err = fmt.Errorf("the engine at %s is gone, and the box with it: %w", x.backend.address, x.cause.Err)
		x.cause.Advice = "see why it ended (its log, or journalctl -u docker) and start it; the next run removes what this one had to leave"
	case ierr != nil:
		x.cause.Err = fmt.Errorf("%w (the container can not be inspected: %w)", x.cause.Err, ierr)
	case got.OOMKilled && !got.Running:
		x.cause.Kind = sandbox.KindOOM
		x.cause.Err = errors.New("the box ran out of memory")
		x.cause.Advice = "raise docker.memory"
	case !got.Running:
		x.cause.Err = fmt.Errorf("%w; the container exited with %d %s(stderr %s)", x.cause.Err, got.ExitCode, spaced(got.Error), x.streams.said())
	}
	return x.cause
}

// settled inspects until the container has stopped, for a short while: the
// stream ends a little before the engine knows.
func (x *box) settled(ctx context.Context) (*container.State, error) {
	deadline := time.Now().Add(2 * time.Second)
	for {
		got, err := x.backend.api.ContainerInspect(ctx, x.id)
		if err != nil {
			return nil, err
		}
		if got.ContainerJSONBase == nil || got.State == nil {
			return nil, errors.New("the engine tells no state")
		}
		if !got.State.Running || time.Now().After(deadline) {
			return got.State, nil
		}
		timer := time.NewTimer(20 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

func spaced(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%q ", s)
}

// Close removes the box, or keeps it stopped where the spec says so.
func (x *box) Close(ctx context.Context) error {
	x.closing.Do(func() {
		x.mu.Lock()
		x.closed = true
		x.mu.Unlock()
		if x.client != nil {
			x.client.Close(ctx) // the guest kills everything and exits
		}
		if x.spec.Keep {
			x.err = x.backend.keep(ctx, x)
		} else {
			if x.client != nil {
				x.backend.awaitEnd(ctx, x.id)
			}
			x.err = x.backend.remove(ctx, x.id)
		}
		// What it left running may have written on until now.
		fetchErr := x.backend.fetchAll(ctx, x.copies)
		x.gone(x.err == nil && !x.spec.Keep)
		x.err = errors.Join(x.err, fetchErr)
	})
	return x.err
}

// awaitEnd waits for a container whose guest was told to exit, at most endTimeout:
// to have it removed while it runs costs the engine a kill of its own.
func (b *Backend) awaitEnd(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	ended, failed := b.api.ContainerWait(ctx, id, container.WaitConditionNotRunning)
	select {
	case <-ended:
	case <-failed: // it is removed all the same
	}
}

// discard removes what a failed start has made.
func (x *box) discard(ctx context.Context) {
	x.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		if x.client != nil {
			x.client.Close(ctx)
		} else if x.streams != nil {
			_ = x.streams.Close()
		}
		if x.id != "" && x.reused {
			x.err = x.backend.stop(ctx, x.id) // cancelled; what is in it stays
		} else if x.id != "" {
			x.err = x.backend.remove(ctx, x.id)
		}
		x.gone(false)
	})
}

// gone gives up what the box had beside its container. The network of one that
// may still run stays.
func (x *box) gone(clean bool) {
	b := x.backend
	x.session.release()
	if clean {
		b.dropBridge(x.bridge)
	}
	b.mu.Lock()
	delete(b.boxes, x)
	b.mu.Unlock()
	close(x.done)
}
