package docker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/herd-runner/herd-runner/sandbox"
)

// The engines that are told apart: they take the same requests, but do not
// understand them all alike.
const (
	EngineDocker = "docker"
	EnginePodman = "podman"
)

// recognise asks the engine what it is. It is the first thing asked.
func (b *Backend) recognise(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := b.api.ServerVersion(ctx)
	if err != nil {
		return unreachable(b.address, err)
	}
	b.engine, b.version = EngineDocker, got.Version
	for _, c := range got.Components {
		if c.Name == "Podman Engine" {
			b.engine, b.version = EnginePodman, c.Version
		}
	}
	if wanted := b.opts.Engine; wanted != "" && wanted != b.engine {
		return &sandbox.Error{
			Kind: sandbox.KindEngine, Op: "reach the container engine",
			Err:    fmt.Errorf("%s answers at %s, not %s", b.engine, b.address, wanted),
			Advice: "name the address of " + wanted + " with DOCKER_HOST, or ask for " + b.engine,
		}
	}
	return nil
}

// giveSeccomp lays Docker's default profile where podman finds it. Podman's own
// lets every program make user namespaces and keyrings. A podman on another
// machine keeps its own: it takes files only.
func (b *Backend) giveSeccomp() error {
	if b.engine != EnginePodman {
		return nil
	}
	profile, err := dockerSeccomp()
	if err != nil {
		return err
	}
	if profile == nil || !b.Local() {
		b.opts.Notice(fmt.Sprintf("podman at %s uses its own seccomp profile, which lets programs in boxes make user namespaces and keyrings", b.address))
		return nil
	}
	b.seccomp, err = layFile(b.opts.StateDir, "seccomp", ".json", profile)
	return err
}

// Engine is EngineDocker or EnginePodman.
func (b *Backend) Engine() string { return b.engine }

// Address is where the engine answers, as in DOCKER_HOST.
func (b *Backend) Address() string { return b.address }

// String is for people: the engine, its version and its address.
func (b *Backend) String() string { return b.engine + " " + b.version + " at " + b.address }

// toPodman is a request in podman's words, where Docker's mean something else to
// it. seccomp is the file of a profile; empty: podman's own.
func toPodman(r request, seccomp string) (request, error) {
	asked, host := r.Host, *r.Host
	r.Host = &host
	host.Mounts, host.Binds = nil, slices.Clone(host.Binds)
	for _, m := range asked.Mounts {
		// It takes mounts apart again, at commas, and binds at colons.
		if m.Type != mount.TypeBind {
			host.Mounts = append(host.Mounts, m)
			continue
		}
		if strings.Contains(m.Source+m.Target, ":") {
			return r, badSpec("mount %q at %q: podman can not mount a path with a colon in it", m.Source, m.Target)
		}
		options := "rw"
		if m.ReadOnly {
			options = "ro"
		}
		if o := m.BindOptions; o != nil && o.Propagation != "" {
			options += "," + string(o.Propagation)
		}
		host.Binds = append(host.Binds, m.Source+":"+m.Target+":"+options)
	}
	host.Tmpfs = map[string]string{}
	for target, options := range asked.Tmpfs {
		host.Tmpfs[target] = podmanTmpfs(options)
	}
	// Under a read-only root it makes this one writable, of any size.
	const also = "/var/tmp"
	if _, asked := host.Tmpfs[also]; host.ReadonlyRootfs && !asked {
		host.Tmpfs[also] = podmanTmpfs(maskOptions)
	}
	ownProfile := func(o string) bool { return strings.HasPrefix(o, "seccomp") }
	if seccomp != "" && !host.Privileged && !slices.ContainsFunc(host.SecurityOpt, ownProfile) {
		host.SecurityOpt = append(slices.Clone(host.SecurityOpt), "seccomp="+seccomp)
	}
	return r, nil
}

// podmanTmpfs are a tmpfs's options without an owner, which podman can not give
// it: whoever may use it is left to its mode. It begins empty; else what is below
// it, a mount's content even, would be copied into it.
func podmanTmpfs(options string) string {
	list := strings.Split(options, ",")
	owned := func(o string) bool { return strings.HasPrefix(o, "uid=") || strings.HasPrefix(o, "gid=") }
	if slices.ContainsFunc(list, owned) {
		list = slices.DeleteFunc(list, func(o string) bool { return owned(o) || strings.HasPrefix(o, "mode=") })
		list = append(list, "mode=1777")
	}
	return strings.Join(append(list, "notmpcopyup"), ",")
}

// fromPodman is what podman tells of a container, in Docker's words where they
// mean the same. asked is the request before toPodman, sent the one after.
func fromPodman(asked, sent request, got container.InspectResponse) container.InspectResponse {
	if got.ContainerJSONBase == nil || got.HostConfig == nil {
		return got
	}
	base, host := *got.ContainerJSONBase, *got.HostConfig
	base.HostConfig, got.ContainerJSONBase = &host, &base
	// A namespace of its own is "private", and where none was asked for too.
	if host.PidMode == "private" {
		host.PidMode = ""
	}
	if host.UTSMode == "private" {
		host.UTSMode = ""
	}
	// Private as well, but the engine may let another container join it.
	if host.IpcMode == container.IPCModeShareable {
		host.IpcMode = container.IPCModePrivate
	}
	if host.NetworkMode == "bridge" && got.NetworkSettings != nil && len(got.NetworkSettings.Networks) == 1 {
		for name := range got.NetworkSettings.Networks {
			host.NetworkMode = container.NetworkMode(name)
		}
	}
	// It lists what was dropped of its own defaults. That nothing is left the
	// guest tells.
	if len(host.CapDrop) > 0 && slices.Equal(asked.Host.CapDrop, []string{"ALL"}) {
		host.CapDrop = asked.Host.CapDrop
	}
	// All mounts are binds to it.
	host.Binds = slices.DeleteFunc(slices.Clone(host.Binds), func(bind string) bool {
		return slices.ContainsFunc(asked.Host.Mounts, func(m mount.Mount) bool {
			return strings.HasPrefix(bind, m.Source+":"+m.Target+":")
		})
	})
	for i, bind := range host.Binds {
		for _, a := range asked.Host.Binds {
			if sameBind(a, bind) {
				host.Binds[i] = a
			}
		}
	}
	host.Tmpfs = maps.Clone(host.Tmpfs)
	for target, options := range asked.Host.Tmpfs {
		if sameOptions(sent.Host.Tmpfs[target], host.Tmpfs[target]) {
			host.Tmpfs[target] = options
		}
	}
	// The profile that was only sent must be there as well.
	switch sorted(host.SecurityOpt) {
	case sorted(sent.Host.SecurityOpt):
		host.SecurityOpt = asked.Host.SecurityOpt
	case sorted(asked.Host.SecurityOpt):
		host.SecurityOpt = append(slices.Clone(host.SecurityOpt), "seccomp=podman's own")
	}
	return got
}

// sameBind tells whether two binds have the same ends and the same access.
func sameBind(asked, got string) bool {
	a, g := strings.SplitN(asked+":", ":", 3), strings.SplitN(got+":", ":", 3)
	readOnly := func(options string) bool {
		return slices.Contains(strings.Split(strings.TrimSuffix(options, ":"), ","), "ro")
	}
	return a[0] == g[0] && a[1] == g[1] && readOnly(a[2]) == readOnly(g[2])
}

// sameOptions tells whether a tmpfs has what was asked, and nothing more but a
// propagation that keeps it private.
func sameOptions(asked, got string) bool {
	split := func(s string) []string {
		list := slices.DeleteFunc(strings.Split(s, ","), func(o string) bool { return o == "rprivate" || o == "notmpcopyup" })
		slices.Sort(list)
		return list
	}
	return slices.Equal(split(asked), split(got))
}

// podmanRuntime fails where podman would not use the OCI runtime of a box: it
// takes its own, whatever a request says.
func (b *Backend) podmanRuntime(ctx context.Context, spec sandbox.Spec) error {
	if b.engine != EnginePodman || spec.OCIRuntime == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := b.api.Info(ctx)
	if err != nil {
		return fail(sandbox.KindEngine, "ask the engine", err)
	}
	if got.DefaultRuntime == spec.OCIRuntime {
		return nil
	}
	return &sandbox.Error{
		Kind: sandbox.KindConfig, Op: "prepare box",
		Err:    fmt.Errorf("oci-runtime %q: podman's API has no choice of OCI runtime, and this podman uses %q", spec.OCIRuntime, got.DefaultRuntime),
		Advice: fmt.Sprintf("write runtime = %q under [engine] in podman's containers.conf and restart its service, or use a Docker engine", spec.OCIRuntime),
	}
}
