//go:build linux && guests

package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/herd-runner/herd-runner/internal/guests"
	"github.com/herd-runner/herd-runner/internal/memexec"
)

// inBox has this process become the carried cmd/herd-guest for its verbs: steps on
// this machine start their agent so. It is false for every other verb.
func (a *App) inBox(verb string, _ []string) (code int, ok bool) {
	switch verb {
	case "guest", "attack", "agent":
	default:
		return 0, false
	}
	program, err := guests.Open(runtime.GOARCH)
	if err == nil {
		err = memexec.Exec("herd-guest", program, os.Args, a.Environ())
	}
	fmt.Fprintf(a.Stderr, "herd-runner %s: the program it carries could not be started: %v\n", verb, err)
	return exitInfra, true
}

// guest is the path of the program for boxes on this machine.
func (a *App) guest() (string, error) { return a.carriedGuest(runtime.GOARCH) }
