package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	imagetypes "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/internal/carry"
	"github.com/herd-runner/herd-runner/sandbox/internal/tunnel"
)

// courierMemory bounds the courier; it holds what is known of each file.
const courierMemory = 512 << 20

// courier is the container of a run that has the volume with the engine's copies.
// Nothing but our own program runs in it.
type courier struct {
	id     string
	volume string
	dir    string // where the copies are on the engine's machine
	entry  string
	client *tunnel.Client
	slots  chan struct{}
}

// at gives the courier; nil: nothing was carried yet.
func (c *carrier) at() *courier {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.courier
}

// planCourier is as hard as a box.
func planCourier(at place, volumeName, user string, allowRoot bool) (request, error) {
	r, err := plan(sandbox.Spec{
		Memory: courierMemory, User: user, AllowRoot: allowRoot, Network: sandbox.Network{Mode: "none"},
	}, at)
	if err != nil {
		return r, err
	}
	r.Config.Labels[labelRole] = "courier"
	r.Host.AutoRemove = true // the runner's death ends it
	r.Host.Mounts = append(r.Host.Mounts, mount.Mount{
		Type: mount.TypeVolume, Source: volumeName, Target: carry.Dir, VolumeOptions: &mount.VolumeOptions{NoCopy: true},
	})
	return r, nil
}

// startCourier gives the courier, started with the first box.
func (b *Backend) startCourier(ctx context.Context, spec sandbox.Spec, img image) (*courier, error) {
	c := &b.carrier
	c.starting.Lock()
	defer c.starting.Unlock()
	switch at := c.at(); {
	case c.closed:
		return nil, errClosed
	case at != nil:
		return at, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	got, err := b.newCourier(ctx, spec, img)
	if err != nil {
		return nil, fail(sandbox.KindStart, "start the courier on the engine", err)
	}
	b.opts.Notice(fmt.Sprintf("the engine at %s has other files than this machine: boxes work on copies there, and what a step changes comes back when it ends", b.address))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.courier = got
	return got, nil
}

func (b *Backend) newCourier(ctx context.Context, spec sandbox.Spec, img image) (_ *courier, err error) {
	owner := ownerOf(spec)
	uid, gid, err := user(sandbox.Spec{User: owner, AllowRoot: spec.AllowRoot})
	if err != nil {
		return nil, err
	}
	made, err := b.api.VolumeCreate(ctx, volume.CreateOptions{Labels: map[string]string{
		labelOurs: "1", labelRole: "copies", labelHost: b.lease.host, labelLease: b.lease.id,
	}})
	if err != nil {
		return nil, err
	}
	c := &courier{volume: made.Name, dir: path.Join(made.Mountpoint, carry.Trees), slots: make(chan struct{}, couriers)}
	at := b.place()
	at.image, c.entry = img.id, at.entry()
	defer func() {
		if err != nil {
			err = errors.Join(err, b.endCourier(context.WithoutCancel(ctx), c))
		}
	}()
	req, err := planCourier(at, made.Name, owner, spec.AllowRoot)
	if err != nil {
		return nil, err
	}
	if c.id, err = b.create(ctx, req); err != nil {
		return nil, err
	}
	// The volume is root's; what is in it shall not be.
	var dirs bytes.Buffer
	w := tar.NewWriter(&dirs)
	for _, name := range []string{carry.Trees, carry.State} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o700, Uid: uid, Gid: gid}); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := b.api.CopyToContainer(ctx, c.id, carry.Dir, &dirs, container.CopyToContainerOptions{}); err != nil {
		return nil, err
	}
	streams, err := b.attachAndStart(ctx, c.id)
	if err != nil {
		return nil, err
	}
	if c.client, err = tunnel.Dial(ctx, streams, tunnel.Services{}); err != nil {
		return nil, fmt.Errorf("%w (stderr %s)", err, streams.said())
	}
	return c, b.verify(ctx, c.id, req)
}

// ownerOf is whom the copies belong to, as this machine's files do: the owner of
// what the box may write, but never root unasked.
func ownerOf(spec sandbox.Spec) string {
	for _, m := range spec.Mounts {
		if m.Source == "" || m.ReadOnly {
			continue
		}
		if st, err := os.Stat(m.Source); err == nil {
			if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Uid != 0 && sys.Gid != 0 {
				return fmt.Sprintf("%d:%d", sys.Uid, sys.Gid)
			}
		}
	}
	return spec.User
}

// courierRun runs a process of package carry.
func (b *Backend) courierRun(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	c := b.carrier.at()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var said strings.Builder
	exit, err := c.client.Exec(ctx, sandbox.Process{
		Argv: append([]string{c.entry, "guest", "carry"}, args...), Dir: "/",
		Stdin: in, Stdout: out, Stderr: limitedTo(&said, 2000),
	}, "/")
	switch {
	case err != nil:
		return fmt.Errorf("the courier on the engine: %w", err)
	case exit.Stopped:
		return context.Cause(ctx)
	}
	return carry.Failed(exit.Code, said.String())
}

// limitedTo writes at most so many bytes and drops the rest.
func limitedTo(w *strings.Builder, most int) io.Writer { return &limited{w, most} }

type limited struct {
	w    *strings.Builder
	most int
}

func (l *limited) Write(b []byte) (int, error) {
	l.w.Write(b[:min(len(b), max(0, l.most-l.w.Len()))])
	return len(b), nil
}

// closeCarrier removes the copies. No box is there any more.
func (b *Backend) closeCarrier(ctx context.Context) error {
	c := &b.carrier
	c.starting.Lock()
	defer c.starting.Unlock()
	c.closed = true
	at := c.at()
	if at == nil {
		return nil
	}
	return b.endCourier(ctx, at)
}

func (b *Backend) endCourier(ctx context.Context, c *courier) error {
	if c.client != nil {
		c.client.Close(ctx)
	}
	var err error
	if c.id != "" {
		err = b.remove(ctx, c.id)
	}
	return errors.Join(err, b.removeCopies(ctx, c.volume))
}

// removeCopies removes a volume of ours once its container is gone, which may
// take the engine a moment.
func (b *Backend) removeCopies(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	for {
		err := b.api.VolumeRemove(ctx, name, false)
		switch {
		case err == nil, errdefs.IsNotFound(err):
			return nil
		case !errdefs.IsConflict(err):
			return fail(sandbox.KindEngine, "remove volume", err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fail(sandbox.KindEngine, "remove volume", err)
		}
	}
}

// leftCopies are the volumes of runs that are dead.
func (b *Backend) leftCopies(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := b.api.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", labelRole+"=copies"), filters.Arg("label", labelHost+"="+b.lease.host))})
	if err != nil {
		return nil, fail(sandbox.KindEngine, "list volumes", err)
	}
	var names []string
	for _, v := range got.Volumes {
		if b.lease.dead(v.Labels[labelLease]) {
			names = append(names, v.Name)
		}
	}
	return names, nil
}

// anyImage is the id of some image that the engine has; empty where it has none.
func (b *Backend) anyImage(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := b.api.ImageList(ctx, imagetypes.ListOptions{})
	if err != nil {
		return "", fail(sandbox.KindEngine, "list images", err)
	}
	if len(got) == 0 {
		return "", nil
	}
	return got[0].ID, nil
}
