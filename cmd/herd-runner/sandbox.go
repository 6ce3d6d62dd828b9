package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/docker"
)

// sandboxes are what --sandbox may say. The bare host is none of them: a step
// says that itself, and the policy.
var sandboxes = []string{"auto", docker.EngineDocker, docker.EnginePodman}

// sandboxFlag adds --sandbox to a verb that needs an engine, and to those below it.
func (a *App) sandboxFlag(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&a.sandbox, "sandbox", "", "`engine` of the boxes: "+strings.Join(sandboxes, ", ")+" (the first that answers); see docs/engines.md")
}

// checkSandbox refuses what is no sandbox.
func (a *App) checkSandbox() error {
	switch {
	case a.sandbox == "" || slices.Contains(sandboxes, a.sandbox):
		return nil
	case a.sandbox == "host":
		return problem("--sandbox host: the host is no sandbox; a step that is to run on it says docker: false, and the policy allows it")
	}
	return problem("--sandbox %q is not known; expected %s", a.sandbox, strings.Join(sandboxes, ", "))
}

// wanted is the engine that --sandbox names; empty: any.
func (a *App) wanted() string {
	if a.sandbox == "auto" {
		return ""
	}
	return a.sandbox
}

// candidate is where an engine may answer, and which is to be expected there.
type candidate struct{ engine, host string }

// candidates are the engines to be tried, in order. Where DOCKER_HOST names one,
// it is that and no other.
func (a *App) candidates() []candidate {
	if host := a.Getenv("DOCKER_HOST"); host != "" {
		return []candidate{{host: host}}
	}
	home, _ := os.UserHomeDir()
	own := a.Getenv("XDG_RUNTIME_DIR")
	all := []candidate{{docker.EngineDocker, "/var/run/docker.sock"}}
	for _, c := range []candidate{
		{docker.EngineDocker, filepath.Join(own, "docker.sock")},                  // rootless
		{docker.EngineDocker, filepath.Join(home, ".docker/run/docker.sock")},     // Docker Desktop
		{docker.EngineDocker, filepath.Join(home, ".colima/default/docker.sock")}, // colima
		{docker.EnginePodman, filepath.Join(own, "podman/podman.sock")},
		{docker.EnginePodman, "/run/podman/podman.sock"},
	} {
		if st, err := os.Stat(c.host); err == nil && st.Mode().Type() == os.ModeSocket && filepath.IsAbs(c.host) {
			all = append(all, c)
		}
	}
	if wanted := a.wanted(); wanted != "" {
		all = slices.DeleteFunc(all, func(c candidate) bool { return c.engine != wanted })
	}
	for i := range all {
		all[i].host = "unix://" + all[i].host
	}
	return all
}

// openEngine connects to the first candidate that answers, and says which that
// is where that was asked or is not the usual one.
func (a *App) openEngine(ctx context.Context, o docker.Options) (*docker.Backend, error) {
	if err := a.checkSandbox(); err != nil {
		return nil, err
	}
	candidates := a.candidates()
	if len(candidates) == 0 {
		return nil, &sandbox.Error{
			Kind: sandbox.KindEngine, Op: "reach the container engine",
			Err: errors.New("no podman answers: there is no socket podman/podman.sock in XDG_RUNTIME_DIR, nor /run/podman/podman.sock"),
			Advice: "start its service: systemctl --user enable --now podman.socket, or podman system service --time=0 unix://SOCKET " +
				"with DOCKER_HOST=unix://SOCKET; or leave --sandbox out",
		}
	}
	o.Engine = a.wanted()
	var first *sandbox.Error
	for i, c := range candidates {
		o.Host = c.host
		b, err := docker.Open(ctx, o)
		if err == nil {
			if o.Notice != nil && (i > 0 || a.sandbox == "auto") {
				o.Notice("boxes run in " + b.String())
			}
			return b, nil
		}
		var failed *sandbox.Error
		if !errors.As(err, &failed) || failed.Kind != sandbox.KindEngine {
			return nil, err
		}
		if first == nil {
			first = failed
		} else {
			first.Err = fmt.Errorf("%w; nor at %s", first.Err, c.host)
		}
	}
	return nil, first
}
