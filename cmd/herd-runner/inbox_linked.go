//go:build !linux || !guests

package main

import (
	"os"
	"path/filepath"

	"github.com/herd-runner/herd-runner/internal/verify"
	"github.com/herd-runner/herd-runner/runtimes/sdk/agent"
	"github.com/herd-runner/herd-runner/sandbox/guest"
)

// inBox does what cmd/herd-guest does, where one go command has to make a
// herd-runner that is complete. It is false for every other verb.
func (a *App) inBox(verb string, args []string) (code int, ok bool) {
	switch verb {
	case "guest":
		return guest.Main(args), true
	case "attack":
		return verify.Main(args, a.Stdin, a.Stdout), true
	case "agent":
		return agent.Main(a.Stdin, a.Stdout, a.Environ()), true
	}
	return 0, false
}

// guest is the path of the program for boxes on this machine: herd-runner itself.
func (a *App) guest() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(self)
}
