package docker

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"

	"github.com/herd-runner/herd-runner/sandbox"
)

const (
	guestVolume   = "herd-runner-guest-" // and the executable's digest
	guestFile     = "herd-runner"
	guestComplete = "complete" // written last
	guestTime     = 10 * time.Minute
)

// remote is what is known of an engine that may be on another machine: there
// our executable can not be mounted, and nothing else of ours either, unless
// the two share their files; see carrier.
type remote struct {
	mu     sync.Mutex
	guest  string          // name of the volume with the executable; empty: not made, or local
	shared map[string]bool // by directory
}

// reach makes ready what boxes of a remote engine need. Where the engine has
// other files it gives the spec with copies that it has.
func (b *Backend) reach(ctx context.Context, spec sandbox.Spec, img image) (sandbox.Spec, []*replica, error) {
	if b.Local() {
		return spec, nil, nil
	}
	if err := b.haveGuest(ctx, img); err != nil {
		return spec, nil, err
	}
	if !slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return m.Source != "" }) {
		return spec, nil, nil
	}
	dir := spec.Project
	if dir == "" {
		dir = b.opts.StateDir
	}
	shared, err := b.sharesFiles(ctx, dir, img)
	if err != nil || shared {
		return spec, nil, err
	}
	return b.carry(ctx, spec, img)
}

// haveGuest sees to it that the engine has our executable.
func (b *Backend) haveGuest(ctx context.Context, img image) error {
	ctx, cancel := context.WithTimeout(ctx, guestTime)
	defer cancel()
	b.remote.mu.Lock()
	defer b.remote.mu.Unlock()
	if b.remote.guest != "" {
		return nil
	}
	name, err := b.sendGuest(ctx, img)
	if err == nil {
		b.remote.guest = name
	}
	return err
}

// sharesFiles tells whether the engine has this machine's files in dir. A file
// with a name that is nowhere else shows it.
func (b *Backend) sharesFiles(ctx context.Context, dir string, img image) (bool, error) {
	b.remote.mu.Lock()
	defer b.remote.mu.Unlock()
	shared, known := b.remote.shared[dir]
	if !known {
		probe, err := os.CreateTemp(dir, ".herd-probe-*")
		if err != nil {
			return false, fail(sandbox.KindAccess, "look whether the engine sees the project", err)
		}
		_ = probe.Close()
		defer os.Remove(probe.Name())
		if shared, err = b.sees(ctx, img, probe.Name()); err != nil {
			return false, fail(sandbox.KindEngine, "look whether the engine sees the project", err)
		}
		if b.remote.shared == nil {
			b.remote.shared = map[string]bool{}
		}
		b.remote.shared[dir] = shared
	}
	return shared, nil
}

// sees tells whether the engine has a file of this machine.
func (b *Backend) sees(ctx context.Context, img image, file string) (bool, error) {
	const at = "/.herd-probe"
	if b.engine == EnginePodman { // it makes what is missing
		id, err := b.hold(ctx, img, bind("/", at, true))
		if err != nil {
			return false, err
		}
		_, err = b.api.ContainerStatPath(ctx, id, path.Join(at, file))
		missing := errdefs.IsNotFound(err)
		if missing {
			err = nil
		}
		return !missing && err == nil, errors.Join(err, b.remove(ctx, id))
	}
	id, err := b.hold(ctx, img, bind(file, at, true))
	if errdefs.IsInvalidArgument(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, b.remove(ctx, id)
}

// hold creates a container that is never started, for what is mounted in it.
func (b *Backend) hold(ctx context.Context, img image, m mount.Mount) (id string, err error) {
	at := b.lease
	created, err := b.api.ContainerCreate(ctx, &container.Config{
		Image: img.id, Entrypoint: []string{runnerPath},
		Labels: map[string]string{labelOurs: "1", labelRole: "holder", labelHost: at.host, labelLease: at.id},
	}, &container.HostConfig{NetworkMode: "none", CapDrop: []string{"ALL"}, Mounts: []mount.Mount{m}}, nil, nil, "")
	return created.ID, err
}

// sendGuest gives the name of a volume with our executable, which is made and
// filled where the engine does not have it. Boxes mount it read-only.
func (b *Backend) sendGuest(ctx context.Context, img image) (string, error) {
	const op = "send herd-runner to the engine"
	file, err := b.executable(ctx)
	if err != nil {
		return "", err
	}
	digest, size, err := digestOf(file)
	if err != nil {
		return "", fail(sandbox.KindConfig, op, err)
	}
	name := guestVolume + digest
	for range 2 {
		complete, err := b.tryGuest(ctx, img, name, file, size)
		if err != nil {
			return "", fail(sandbox.KindEngine, op, err)
		}
		if complete {
			return name, nil
		}
		// Who was filling it is gone.
		if err := b.api.VolumeRemove(ctx, name, false); err != nil && !errdefs.IsNotFound(err) {
			return "", fail(sandbox.KindEngine, op, err)
		}
	}
	return "", fail(sandbox.KindEngine, op, fmt.Errorf("the volume %s stays incomplete", name))
}

// tryGuest fills the volume where it is new, or waits for the runner that does.
func (b *Backend) tryGuest(ctx context.Context, img image, name, file string, size int64) (complete bool, err error) {
	made, err := b.api.VolumeCreate(ctx, volume.CreateOptions{Name: name, Labels: map[string]string{
		labelOurs: "1", labelRole: "guest", labelHost: b.lease.host, labelLease: b.lease.id,
	}})
	if err != nil {
		return false, err
	}
	id, err := b.hold(ctx, img, mount.Mount{Type: mount.TypeVolume, Source: name, Target: runnerPath, VolumeOptions: &mount.VolumeOptions{NoCopy: true}})
	if err != nil {
		return false, err
	}
	defer func() {
		if rerr := b.remove(ctx, id); rerr != nil && err == nil {
			err = rerr
		}
	}()
	maker := made.Labels
	if maker[labelHost] == b.lease.host && maker[labelLease] == b.lease.id {
		if err := b.fill(ctx, id, file, size); err != nil {
			return false, err
		}
	}
	gone := maker[labelHost] == b.lease.host && b.lease.dead(maker[labelLease])
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(guestTime / 2); ; {
		if _, err := b.api.ContainerStatPath(ctx, id, path.Join(runnerPath, guestComplete)); err == nil {
			break
		} else if !errdefs.IsNotFound(err) {
			return false, err
		}
		if gone || time.Now().After(deadline) {
			return false, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	st, err := b.api.ContainerStatPath(ctx, id, path.Join(runnerPath, guestFile))
	return err == nil && st.Size == size, err
}

// fill sends the executable into the volume that is mounted in a container.
func (b *Backend) fill(ctx context.Context, id, file string, size int64) error {
	b.opts.Notice(fmt.Sprintf("sending herd-runner to the engine at %s, once for this version", b.address))
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	r, w := io.Pipe()
	defer r.Close() // ends the writer
	go func() {
		tw := tar.NewWriter(w)
		err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: guestFile, Mode: 0o555, Size: size})
		if err == nil {
			_, err = io.CopyN(tw, f, size)
		}
		if err == nil {
			err = tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: guestComplete, Mode: 0o444})
		}
		_ = w.CloseWithError(errors.Join(err, tw.Close()))
	}()
	return b.api.CopyToContainer(ctx, id, runnerPath, r, container.CopyToContainerOptions{})
}

// executable gives the file that can be process 1 of the engine's boxes.
func (b *Backend) executable(ctx context.Context) (string, error) {
	const op = "send herd-runner to the engine"
	got, err := b.api.ServerVersion(ctx)
	if err != nil {
		return "", fail(sandbox.KindEngine, "ask the engine", err)
	}
	if got.Os == "linux" && runtime.GOOS == "linux" && got.Arch == runtime.GOARCH {
		return b.opts.Runner, nil
	}
	if got.Os == "linux" && b.opts.Guest != nil {
		name, err := b.opts.Guest(got.Arch)
		if err != nil {
			return "", fail(sandbox.KindConfig, op, err)
		}
		if name != "" {
			return name, nil
		}
	}
	return "", &sandbox.Error{
		Kind: sandbox.KindConfig, Op: op,
		Err: fmt.Errorf("boxes of the engine at %s are of %s/%s; this herd-runner is for %s/%s, and carries no executable for them",
			b.address, got.Os, got.Arch, runtime.GOOS, runtime.GOARCH),
		Advice: "use a release of herd-runner, or make one with scripts/cross-build.sh: they carry linux/amd64 and linux/arm64",
	}
}

// digestOf names a file's content.
func digestOf(name string) (digest string, size int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)[:16]), size, err
}

// OldVolumes lists the volumes of this machine's runners that are of no use any
// more: other versions of herd-runner that no container has, and copies of what
// dead runs worked on.
func (b *Backend) OldVolumes(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	file, err := b.executable(ctx)
	if err != nil {
		return nil, err
	}
	digest, _, err := digestOf(file)
	if err != nil {
		return nil, fail(sandbox.KindConfig, "list volumes", err)
	}
	got, err := b.api.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", labelRole+"=guest"), filters.Arg("label", labelHost+"="+b.lease.host), filters.Arg("dangling", "true"))})
	if err != nil {
		return nil, fail(sandbox.KindEngine, "list volumes", err)
	}
	names, err := b.leftCopies(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range got.Volumes {
		if v.Name != guestVolume+digest {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// RemoveVolume removes a volume that OldVolumes has listed.
func (b *Backend) RemoveVolume(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := b.api.VolumeRemove(ctx, name, false); err != nil && !errdefs.IsNotFound(err) {
		return fail(sandbox.KindEngine, "remove volume", err)
	}
	return nil
}
