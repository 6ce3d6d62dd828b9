package docker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/go-connections/nat"
	"github.com/docker/go-units"

	"github.com/herd-runner/herd-runner/sandbox"
)

// What a spec leaves open.
const (
	DefaultMemory    = 2 << 30 // bytes
	DefaultPidsLimit = 512
	DefaultUser      = "1000:1000"

	maxTmp  = 1 << 30  // bytes of /tmp, at most half the memory
	runSize = 16 << 20 // bytes of /run

	// runnerPath is where the executable is mounted in every box, or the
	// volume that has it.
	runnerPath = "/.herd-runner"
	// maskOptions are those of a tmpfs that hides what is below it.
	maskOptions = "ro,nosuid,nodev,noexec,mode=555,size=4096"
)

// The labels of what belongs to herd-runner. Ownership is told by them alone.
const (
	labelOurs     = "herd-runner"
	labelRole     = "herd-runner.role" // "box", "courier" or "network"; of volumes "guest" or "copies"
	labelHost     = "herd-runner.host"
	labelLease    = "herd-runner.lease"
	labelProject  = "herd-runner.project"
	labelWorkflow = "herd-runner.workflow"
	labelRun      = "herd-runner.run"
	labelJob      = "herd-runner.job"
	labelStep     = "herd-runner.step"
	labelKeep     = "herd-runner.keep"    // keptToSee or keptToReuse; absent: removed when done
	labelSession  = "herd-runner.session" // of a kept box
	labelSpec     = "herd-runner.spec"    // fingerprint of a kept box
)

// What a box is kept for.
const (
	keptToSee   = "1"
	keptToReuse = "reuse"
)

// place is what a container needs to know beside its spec.
type place struct {
	runner      string // host path of the executable
	guest       string // name of a volume that has it instead; empty: none
	copies      string // directory of the engine with copies of this machine's files; empty: none
	image       string // id
	host, lease string
	hosts       string // host path of a closed box's /etc/hosts; empty: the engine's
	bridge      string // network of boxes with network "bridge"
}

// executable is the mount that has process 1 of the box, entry its path there.
func (at place) executable() mount.Mount {
	if at.guest == "" {
		return bind(at.runner, runnerPath, true)
	}
	return mount.Mount{
		Type: mount.TypeVolume, Source: at.guest, Target: runnerPath, ReadOnly: true,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true},
	}
}

func (at place) entry() string {
	if at.guest == "" {
		return runnerPath
	}
	return path.Join(runnerPath, guestFile)
}

// request is everything the engine is asked for.
type request struct {
	Config  *container.Config
	Host    *container.HostConfig
	Network *network.NetworkingConfig
}

// plan turns a spec into a container. It is pure: the hardening of boxes is
// here and nowhere else.
func plan(s sandbox.Spec, at place) (request, error) {
	var r request
	uid, gid, err := user(s)
	if err != nil {
		return r, err
	}
	mode, err := networkMode(s, at)
	if err != nil {
		return r, err
	}
	memory, pids := s.Memory, s.PidsLimit
	if memory == 0 {
		memory = DefaultMemory
	}
	if pids == 0 {
		pids = DefaultPidsLimit
	}
	if memory < 0 || pids < 0 || s.CPUs < 0 || s.CPUs != s.CPUs {
		return r, badSpec("limits must not be negative: memory %d, pids %d, cpus %v", memory, pids, s.CPUs)
	}
	mounts, tmpfs, err := mounts(s, at, memory, uid, gid)
	if err != nil {
		return r, err
	}
	exposed, bindings, err := ports(s)
	if err != nil {
		return r, err
	}

	r.Config = &container.Config{
		Image:           at.image,
		User:            fmt.Sprintf("%d:%d", uid, gid),
		Entrypoint:      []string{at.entry()},
		Cmd:             []string{"guest"},
		Labels:          labels(s, at),
		WorkingDir:      "/",
		ExposedPorts:    exposed,
		NetworkDisabled: closesItself(s, at),
		AttachStdin:     true, AttachStdout: true, AttachStderr: true,
		OpenStdin: true, StdinOnce: true, // the runner's death is the end of stdin
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	no := false
	r.Host = &container.HostConfig{
		NetworkMode:    mode,
		PortBindings:   bindings,
		LogConfig:      container.LogConfig{Type: "none"},
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges:true"},
		ReadonlyRootfs: !s.WritableRoot,
		IpcMode:        container.IPCModePrivate,
		Privileged:     s.Privileged,
		Init:           &no, // the guest is process 1
		Runtime:        s.OCIRuntime,
		ShmSize:        s.ShmSize,
		Mounts:         mounts,
		Tmpfs:          tmpfs,
		Resources: container.Resources{
			Memory: memory, MemorySwap: memory, PidsLimit: &pids,
			NanoCPUs: int64(s.CPUs * 1e9), CPUShares: s.CPUShares, CPUPeriod: s.CPUPeriod, CPUQuota: s.CPUQuota,
		},
	}
	for _, u := range s.Ulimits {
		r.Host.Ulimits = append(r.Host.Ulimits, &units.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
	}
	r.Network = &network.NetworkingConfig{}
	if mode == container.NetworkMode(at.bridge) {
		r.Network.EndpointsConfig = map[string]*network.EndpointSettings{at.bridge: {}}
	}
	if len(s.HostConfig) > 0 {
		d := json.NewDecoder(bytes.NewReader(s.HostConfig))
		d.DisallowUnknownFields()
		if err := d.Decode(r.Host); err != nil {
			return r, badSpec("host-config: %v", err)
		}
	}
	return r, nil
}

func user(s sandbox.Spec) (uid, gid int, err error) {
	text := s.User
	if text == "" {
		text = DefaultUser
	}
	u, g, both := strings.Cut(text, ":")
	uid, uerr := strconv.Atoi(u)
	gid, gerr := strconv.Atoi(g)
	if !both || uerr != nil || gerr != nil || uid < 0 || gid < 0 {
		return 0, 0, badSpec("user %q: expected numbers as in \"1000:1000\"", text)
	}
	if (uid == 0 || gid == 0) && !s.AllowRoot {
		return 0, 0, badSpec("user %q is root, which needs the operator's permission", text)
	}
	return uid, gid, nil
}

func networkMode(s sandbox.Spec, at place) (container.NetworkMode, error) {
	if len(s.Ports) > 0 && s.Network.Mode != "" && s.Network.Mode != "bridge" {
		return "", badSpec("ports need network \"bridge\", not %q", s.Network.Mode)
	}
	switch s.Network.Mode {
	case "none", "allow": // what is allowed comes through the tunnel
		return network.NetworkNone, nil
	case "", "bridge":
		return container.NetworkMode(at.bridge), nil
	case "host":
		return network.NetworkHost, nil
	}
	return "", badSpec("network %q is not known: expected none, bridge, host or allow", s.Network.Mode)
}

func mounts(s sandbox.Spec, at place, memory int64, uid, gid int) ([]mount.Mount, map[string]string, error) {
	out := []mount.Mount{at.executable()}
	tmpfs := map[string]string{
		"/tmp": fmt.Sprintf("rw,nosuid,nodev,exec,mode=1777,size=%d", min(maxTmp, memory/2)),
		"/run": fmt.Sprintf("rw,nosuid,nodev,noexec,mode=755,uid=%d,gid=%d,size=%d", uid, gid, min(runSize, memory/2)),
	}
	for _, t := range s.Tmpfs {
		exec := "noexec"
		if t.Exec {
			exec = "exec"
		}
		if t.Size <= 0 || !cleanTarget(t.Target) {
			return nil, nil, badSpec("tmpfs %q of %d bytes: expected an absolute path and a size", t.Target, t.Size)
		}
		tmpfs[t.Target] = fmt.Sprintf("rw,nosuid,nodev,%s,mode=1777,size=%d", exec, t.Size)
	}
	for _, m := range s.Mounts {
		if !cleanTarget(m.Target) {
			return nil, nil, badSpec("mount target %q: expected a clean absolute path other than /", m.Target)
		}
		if m.Source == "" {
			tmpfs[m.Target] = maskOptions
			continue
		}
		if !path.IsAbs(m.Source) {
			return nil, nil, badSpec("mount source %q: expected an absolute path", m.Source)
		}
		b := bind(m.Source, m.Target, m.ReadOnly)
		if at.copies != "" && strings.HasPrefix(m.Source, at.copies+"/") {
			b.BindOptions.Propagation = mount.PropagationRSlave // the engine wants it so below its own directory
		}
		out = append(out, b)
	}
	if closesItself(s, at) && !slices.ContainsFunc(out, func(m mount.Mount) bool { return m.Target == hostsPath }) {
		out = append(out, bind(at.hosts, hostsPath, true))
	}
	return out, tmpfs, nil
}

func cleanTarget(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && p != "/" && p != runnerPath && !strings.HasPrefix(p, runnerPath+"/")
}

// bind is a private mount: nothing mounted later goes through it.
func bind(source, target string, readOnly bool) mount.Mount {
	return mount.Mount{
		Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
	}
}

// ports are published on the machine's loopback unless an address is named.
func ports(s sandbox.Spec) (nat.PortSet, nat.PortMap, error) {
	if len(s.Ports) == 0 {
		return nil, nil, nil
	}
	set, bindings, err := nat.ParsePortSpecs(s.Ports)
	if err != nil {
		return nil, nil, badSpec("ports: %v", err)
	}
	for _, list := range bindings {
		for i := range list {
			if list[i].HostIP == "" {
				list[i].HostIP = "127.0.0.1"
			}
		}
	}
	return set, bindings, nil
}

func labels(s sandbox.Spec, at place) map[string]string {
	l := map[string]string{}
	for k, v := range s.Labels {
		if k != labelOurs && !strings.HasPrefix(k, labelOurs+".") {
			l[k] = v
		}
	}
	l[labelOurs], l[labelRole] = "1", "box"
	l[labelHost], l[labelLease] = at.host, at.lease
	l[labelProject], l[labelWorkflow] = s.Project, s.Workflow
	l[labelRun], l[labelJob], l[labelStep] = s.Run, s.Job, s.Step
	if s.Keep {
		l[labelKeep], l[labelSession] = keptToSee, s.Session
		if s.Reuse {
			l[labelKeep] = keptToReuse
		}
	}
	return l
}

func badSpec(format string, args ...any) error {
	return &sandbox.Error{Kind: sandbox.KindConfig, Op: "prepare box", Err: fmt.Errorf(format, args...)}
}
