package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/internal/gateway"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/docker"
)

// doctorTime bounds the whole look-around.
const doctorTime = 30 * time.Second

// minDisk is what a run should find free, in bytes.
const minDisk = 2 << 30

// finding is one line of doctor.
type finding struct {
	ok         bool
	what, said string
	advice     string
}

func (a *App) doctorCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at engine, image, credentials and disk, and say what to do about each",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), doctorTime)
			defer cancel()
			healthy := true
			for _, f := range a.examine(ctx, dir) {
				mark := "ok  "
				if !f.ok {
					mark, healthy = "FAIL", false
				}
				fmt.Fprintf(a.Stdout, "%s  %-12s %s\n", mark, f.what, f.said)
				if f.advice != "" {
					fmt.Fprintf(a.Stdout, "      %-12s → %s\n", "", f.advice)
				}
			}
			if !healthy {
				return shown(exitInfra)
			}
			return nil
		},
	}
	dirFlag(cmd, &dir)
	a.sandboxFlag(cmd)
	return cmd
}

func (a *App) examine(ctx context.Context, dir string) []finding {
	findings := a.examineEngine(ctx)
	findings = append(findings, a.examineCredentials(ctx)...)
	return append(findings, a.examineDisk(dir), a.examineState(dir))
}

func (a *App) examineEngine(ctx context.Context) []finding {
	backend, err := a.openDocker(ctx)
	if err != nil {
		f := finding{what: "engine", said: err.Error(), advice: "install and start a Docker engine; on Debian or Ubuntu: apt-get install docker.io"}
		var failed *sandbox.Error
		if errors.As(err, &failed) && failed.Advice != "" {
			f.advice = failed.Advice
		}
		return []finding{f}
	}
	defer backend.Close(ctx)
	findings := []finding{a.describeEngine(ctx, backend)}
	image := finding{ok: true, what: "image"}
	switch id, ok, err := backend.HasImage(ctx, defaultImage); {
	case err != nil:
		image.ok, image.said = false, err.Error()
	case !ok:
		image.ok, image.said, image.advice = false, "no "+defaultImage, "build it: herd-runner image build; or name another one in docker.image"
	default:
		image.said = defaultImage + " " + id
	}
	return append(findings, image)
}

func (a *App) describeEngine(ctx context.Context, backend *docker.Backend) finding {
	info, err := backend.Info(ctx)
	if err != nil {
		return finding{what: "engine", said: err.Error(), advice: "look at the engine's own log"}
	}
	return finding{ok: true, what: "engine", said: info.String()}
}

// examineCredentials wants one at least: which APIs a person uses is theirs to
// say.
func (a *App) examineCredentials(ctx context.Context) []finding {
	source, err := a.ownCredentials()
	if err != nil {
		return []finding{{what: "credentials", said: err.Error()}}
	}
	var findings []finding
	some := false
	for _, api := range gateway.APIs() {
		c, err := source(ctx, api)
		some = some || err == nil
		f := finding{what: "credentials", said: fmt.Sprintf("%s: %s from %s", api, c.Kind, c.Origin)}
		if err != nil {
			f.said = fmt.Sprintf("%s: %v", api, err)
		}
		findings = append(findings, f)
	}
	for i := range findings {
		findings[i].ok = some
	}
	if !some {
		findings[len(findings)-1].advice = "without one, workflows with agents run only with --replay"
	}
	return findings
}

func (a *App) examineDisk(dir string) finding {
	free, err := freeBytes(dir)
	f := finding{ok: true, what: "disk", said: fmt.Sprintf("%.1f GiB free", float64(free)/(1<<30))}
	switch {
	case err != nil:
		f.ok, f.said = false, err.Error()
	case free < minDisk:
		f.ok, f.advice = false, "free some space: old runs lie in .herd/runs, old images with the engine"
	}
	return f
}

// examineState tries whether a run could keep its record.
func (a *App) examineState(dir string) finding {
	name := filepath.Join(dir, ".herd")
	if _, err := os.Stat(name); os.IsNotExist(err) {
		name = dir
	}
	probe, err := os.CreateTemp(name, ".herd-probe-*")
	if err != nil {
		return finding{what: "records", said: err.Error(), advice: "run herd-runner in a directory that you may write"}
	}
	probe.Close()
	os.Remove(probe.Name())
	return finding{ok: true, what: "records", said: name + " is writable"}
}
