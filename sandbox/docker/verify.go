package docker

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/docker/docker/api/types/container"
)

// weakened compares what was asked with what the engine has made of it and
// lists the differences that take protection away.
func weakened(asked request, got container.InspectResponse) []string {
	if got.ContainerJSONBase == nil || got.HostConfig == nil || got.Config == nil {
		return []string{"the engine tells nothing about the container"}
	}
	var bad []string
	differ := func(what string, want, have any) {
		if fmt.Sprint(want) != fmt.Sprint(have) {
			bad = append(bad, fmt.Sprintf("%s is %v, asked was %v", what, have, want))
		}
	}
	a, h := asked.Host, got.HostConfig
	differ("user", asked.Config.User, got.Config.User)
	differ("entrypoint", asked.Config.Entrypoint, got.Config.Entrypoint)
	differ("privileged", a.Privileged, h.Privileged)
	differ("read-only root", a.ReadonlyRootfs, h.ReadonlyRootfs)
	differ("dropped capabilities", sorted(a.CapDrop), sorted(h.CapDrop))
	differ("added capabilities", sorted(a.CapAdd), sorted(h.CapAdd))
	options := h.SecurityOpt
	if a.Privileged { // then the engine itself says that SELinux plays no part
		options = slices.DeleteFunc(slices.Clone(options), func(o string) bool { return o == "label=disable" || o == "label:disable" })
	}
	differ("security options", sorted(a.SecurityOpt), sorted(options))
	differ("memory", a.Memory, h.Memory)
	differ("memory and swap", a.MemorySwap, h.MemorySwap)
	differ("pids limit", deref(a.PidsLimit), deref(h.PidsLimit))
	differ("network mode", a.NetworkMode, h.NetworkMode)
	differ("networking off", asked.Config.NetworkDisabled, got.Config.NetworkDisabled)
	differ("pid namespace", a.PidMode, h.PidMode)
	differ("ipc namespace", a.IpcMode, h.IpcMode)
	differ("uts namespace", a.UTSMode, h.UTSMode)
	differ("user namespace", a.UsernsMode, h.UsernsMode)
	differ("devices", len(a.Devices)+len(a.DeviceRequests)+len(a.DeviceCgroupRules),
		len(h.Devices)+len(h.DeviceRequests)+len(h.DeviceCgroupRules))
	differ("groups", sorted(a.GroupAdd), sorted(h.GroupAdd))
	differ("bind mounts", sorted(a.Binds), sorted(h.Binds))
	differ("cpus", a.NanoCPUs, h.NanoCPUs)
	differ("oom killer off", a.OomKillDisable != nil && *a.OomKillDisable, h.OomKillDisable != nil && *h.OomKillDisable)
	for target, options := range a.Tmpfs {
		differ("tmpfs "+target, options, h.Tmpfs[target])
	}
	for _, m := range a.Mounts {
		i := slices.IndexFunc(got.Mounts, func(p container.MountPoint) bool { return p.Destination == m.Target })
		if i < 0 {
			bad = append(bad, "mount "+m.Target+" is missing")
			continue
		}
		differ("mount "+m.Target+" writable", !m.ReadOnly, got.Mounts[i].RW)
	}
	if n := len(a.Mounts) + len(a.Binds); len(got.Mounts) > n+len(a.Tmpfs) {
		bad = append(bad, fmt.Sprintf("%d mounts, asked were %d", len(got.Mounts), n))
	}
	return bad
}

func sorted(in []string) string {
	out := make([]string, len(in))
	for i, s := range in {
		// Engines spell capabilities and options in more than one way.
		out[i] = strings.TrimPrefix(strings.TrimSuffix(strings.Replace(s, "=", ":", 1), ":true"), "CAP_")
	}
	sort.Strings(out)
	return strings.Join(out, ",")
}

func deref(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}
