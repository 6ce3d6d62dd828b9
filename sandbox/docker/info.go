package docker

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/docker/go-units"

	"github.com/herd-runner/herd-runner/sandbox"
)

// Info describes an engine, for people.
type Info struct {
	Engine           string // "docker" or "podman"
	Version, API     string
	OS, Arch, Kernel string
	CPUs             int
	Memory           int64 // bytes
	Cgroups          string
	Security         []string // as the engine tells it: "name=seccomp,profile=default"
	Runtimes         []string
	Rootless         bool
	Warnings         []string
}

// String is one line.
func (i Info) String() string {
	return fmt.Sprintf("%s %s (API %s), %s/%s, %d cpus, %s memory, cgroups v%s, %s",
		i.Engine, i.Version, i.API, i.OS, i.Arch, i.CPUs, units.BytesSize(float64(i.Memory)), i.Cgroups, strings.Join(i.Security, " "))
}

// Info asks the engine about itself.
func (b *Backend) Info(ctx context.Context) (Info, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := b.api.Info(ctx)
	if err != nil {
		return Info{}, fail(sandbox.KindEngine, "ask the engine", err)
	}
	i := Info{
		Engine: b.engine, Version: got.ServerVersion, API: b.api.ClientVersion(), OS: got.OSType, Arch: got.Architecture,
		Kernel: got.KernelVersion, CPUs: got.NCPU, Memory: got.MemTotal, Cgroups: got.CgroupVersion,
		Security: got.SecurityOptions, Warnings: got.Warnings,
	}
	if i.Cgroups == "" {
		i.Cgroups = "1"
	}
	for name := range got.Runtimes {
		i.Runtimes = append(i.Runtimes, name)
	}
	sort.Strings(i.Runtimes)
	for _, s := range got.SecurityOptions {
		i.Rootless = i.Rootless || strings.Contains(s, "name=rootless")
	}
	return i, nil
}
