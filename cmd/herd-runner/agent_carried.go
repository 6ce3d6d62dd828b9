//go:build linux && carryagent

package main

import (
	_ "embed"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// carriedAgent is cmd/herd-agent, laid there by scripts/build.sh. The vendors' SDKs
// are most of it; linked into herd-runner, every run and process 1 of every box
// would pay for setting them up.
//
//go:embed embedded/herd-agent
var carriedAgent string

// agent is the verb `agent`, which the SDK runtime runs in boxes: this process
// becomes the carried program.
func (a *App) agent() int {
	err := becomeAgent(os.Args, a.Environ())
	fmt.Fprintf(a.Stderr, "herd-runner agent: the agent it carries could not be started: %v\n", err)
	return exitInfra
}

// becomeAgent returns only on failure. The program is in memory: a box may have no
// place to write to from which programs may be started.
func becomeAgent(args, environ []string) error {
	fd, err := unix.MemfdCreate("herd-agent", unix.MFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "herd-agent")
	defer f.Close()
	if _, err := f.WriteString(carriedAgent); err != nil {
		return err
	}
	return os.NewSyscallError("exec", syscall.Exec("/proc/self/fd/"+strconv.Itoa(fd), args, environ))
}
