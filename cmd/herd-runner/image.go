package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/images"
	"github.com/herd-runner/herd-runner/sandbox/docker"
	"github.com/herd-runner/herd-runner/workflow"
)

func (a *App) imageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Build, list, pull and lock the images that steps run in",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	a.sandboxFlag(cmd)
	cmd.AddCommand(a.imageBuildCommand(), a.imageListCommand(), a.imagePullCommand(), a.imageLockCommand())
	return cmd
}

// buildTime bounds a build: four engines over a slow line.
const buildTime = time.Hour

func (a *App) imageBuildCommand() *cobra.Command {
	var engines, ca, tag string
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build the agent image with a choice of engines",
		Long: `Build the agent image with a choice of engines, as herd-runner/agent:ENGINES.

Its base is debian:bookworm-slim where the engine reaches a hub, else it is made
from Debian packages, which needs root. An image that is up to date is left alone.`,
		Example: `  herd-runner image build
  herd-runner image build --engines claude,codex
  herd-runner image build --engines all --ca /etc/ssl/company.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen, err := images.ParseEngines(engines)
			if err != nil {
				return problem("--engines: %w", err)
			}
			args := []string{"--engines", strings.Join(chosen, ",")}
			if ca != "" {
				if ca, err = filepath.Abs(ca); err == nil {
					_, err = os.ReadFile(ca)
				}
				if err != nil {
					return problem("--ca: %w", err)
				}
				args = append(args, "--ca", ca)
			}
			if tag != "" {
				args = append(args, "--tag", tag)
			}
			return a.withEngine(cmd.Context(), func(b *docker.Backend) error {
				return a.buildImage(cmd.Context(), b, args)
			})
		},
	}
	cmd.Flags().StringVar(&engines, "engines", "claude", "agents' `programs` in the image: some of "+strings.Join(images.Engines(), ", ")+", or all")
	cmd.Flags().StringVar(&ca, "ca", "", "PEM `file` of certificates that the image is to trust as well")
	cmd.Flags().StringVar(&tag, "tag", "", "`name` of the image instead of "+images.Repository+":ENGINES")
	return cmd
}

// buildMissing builds the agent images that the boxes known before the run lack.
func (a *App) buildMissing(ctx context.Context, p *prepared) error {
	for _, spec := range p.specs {
		args, ok := images.BuildArgs(spec.Image)
		if !ok {
			continue
		}
		if _, there, err := p.backends.docker.HasImage(ctx, spec.Image); err != nil {
			return infra(err)
		} else if there {
			continue
		}
		if err := a.buildImage(ctx, p.backends.docker, args); err != nil {
			return err
		}
	}
	return nil
}

// buildImage runs the build script that the executable carries.
func (a *App) buildImage(ctx context.Context, engine *docker.Backend, args []string) error {
	dir, err := os.MkdirTemp("", "herd-runner-image-")
	if err != nil {
		return infra(err)
	}
	defer os.RemoveAll(dir)
	if err := images.Unpack(dir); err != nil {
		return infra(fmt.Errorf("unpack the image's files: %w", err))
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()

	build := exec.CommandContext(ctx, "bash", append([]string{filepath.Join(dir, images.BuildScript)}, args...)...)
	build.Stdout, build.Stderr, build.Env = a.Stderr, a.Stderr, append(a.Environ(), "DOCKER_HOST="+engine.Address())
	// What it has started ends with it.
	build.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	build.Cancel = func() error { return syscall.Kill(-build.Process.Pid, syscall.SIGTERM) }
	build.WaitDelay = 10 * time.Second
	err = build.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return infra(fmt.Errorf("the image was not built within %s", buildTime))
	case ctx.Err() != nil:
		return shown(exitCancelled)
	case errors.As(err, &exit):
		return shown(exitInfra) // the script has said why
	}
	return infra(fmt.Errorf("start the build: %w", err))
}

func (a *App) imageListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the agent images that the engine has, and what is in them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), doctorTime)
			defer cancel()
			backend, err := a.openDocker(ctx)
			if err != nil {
				return infra(err)
			}
			defer backend.Close(ctx)
			found, err := backend.Images(ctx, images.LabelEngines)
			if err != nil {
				return infra(err)
			}
			if asJSON {
				return a.printImagesJSON(found)
			}
			return a.printImages(found)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

// listedImage is one of `image list --json`.
type listedImage struct {
	ID      string            `json:"id"`
	Tags    []string          `json:"tags"`
	Engines map[string]string `json:"engines"` // name → version
	Size    int64             `json:"size"`    // bytes
	Created time.Time         `json:"created"`
}

func listed(image docker.Image) listedImage {
	engines := map[string]string{}
	for _, name := range strings.Split(image.Labels[images.LabelEngines], ",") {
		engines[name] = image.Labels[images.LabelVersion+name]
	}
	return listedImage{ID: image.ID, Tags: image.Tags, Engines: engines, Size: image.Size, Created: image.Created.UTC()}
}

func (a *App) printImagesJSON(found []docker.Image) error {
	list := make([]listedImage, 0, len(found))
	for _, image := range found {
		list = append(list, listed(image))
	}
	enc := json.NewEncoder(a.Stdout)
	enc.SetIndent("", "  ")
	if err := enc.Encode(list); err != nil {
		return infra(err)
	}
	return nil
}

func (a *App) printImages(found []docker.Image) error {
	if len(found) == 0 {
		fmt.Fprintln(a.Stderr, "no agent image; build one with: herd-runner image build")
		return nil
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "IMAGE\tENGINES\tSIZE\tCREATED")
	for _, image := range found {
		l := listed(image)
		var engines []string
		for _, name := range sortedKeys(l.Engines) {
			engines = append(engines, strings.TrimSpace(name+" "+l.Engines[name]))
		}
		for _, tag := range l.Tags {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s ago\n", tag, strings.Join(engines, ", "),
				units.HumanSize(float64(l.Size)), units.HumanDuration(a.Now().Sub(l.Created)))
		}
	}
	if err := w.Flush(); err != nil {
		return infra(err)
	}
	return nil
}

// agentBox is an agent step whose engine and image are known before the run.
type agentBox struct {
	step          *workflow.Step
	engine, image string
}

// lackingImages finds the agent steps whose image says that it is without their
// engine.
func (p *prepared) lackingImages(ctx context.Context, backend *docker.Backend) ([]workflow.Problem, error) {
	var problems []workflow.Problem
	for _, box := range p.agentBoxes {
		labels, err := backend.ImageLabels(ctx, box.image)
		if err != nil {
			return nil, err
		}
		have, lacks := images.Lacks(labels, box.engine)
		if !lacks {
			continue
		}
		wanted, err := images.ParseEngines(strings.Join(append(slices.Clone(have), box.engine), ","))
		if err != nil {
			wanted = []string{box.engine} // made by a newer herd-runner
		}
		check := stepCheck{prepared: p, step: box.step}
		at := box.step.Runtime.Get("engine")
		if at == nil {
			at = box.step.Runtime
		}
		check.add(at, fmt.Errorf("the image %q lacks %s, it has %s", box.image, box.engine, strings.Join(have, ", ")),
			fmt.Sprintf("build one that has it: herd-runner image build --engines %s; and name it: docker: {image: %s}",
				strings.Join(wanted, ","), images.Tag(wanted)))
		check.problems[0].Rule = "box"
		problems = append(problems, check.problems...)
	}
	return problems, nil
}
