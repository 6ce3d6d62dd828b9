package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/internal/report"
	"github.com/herd-runner/herd-runner/sandbox/docker"
)

func (a *App) imagePullCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "pull [IMAGE | WORKFLOW.yml]...",
		Short: "Pull images, or those that workflows use",
		Long: `Pull images, or those that workflows use; without an argument, those of all
workflows of the project. What a workflow uses is pulled as its docker.pull says:
an image that is there is left alone unless it says always. Images that are named
are always asked of their registry.

Logins are those of the docker command (config.json and its credential helpers).
Images herd-runner/… are built here and never pulled.`,
		Example: `  herd-runner image pull node:22
  herd-runner image pull .github/workflows/nightly.yml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := a.wantedImages(dir, args)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return a.pullImages(ctx, wanted)
		},
	}
	dirFlag(cmd, &dir)
	return cmd
}

// pullImages says on stdout what each image is, in the order of wanted.
func (a *App) pullImages(ctx context.Context, wanted []wantedImage) error {
	for _, image := range wanted {
		if image.named && docker.Local(image.spec.Image) {
			return problem("%w", &usageError{image.spec.Image + " is never pulled", buildAdvice(image.spec.Image)})
		}
	}
	backend, err := a.connectDocker(ctx, docker.Options{Notice: func(msg string) { fmt.Fprintln(a.Stderr, msg) }})
	if err != nil {
		return infra(err)
	}
	defer backend.Close(context.WithoutCancel(ctx))
	failed := false
	for _, image := range wanted {
		line := &progressLine{w: a.Stderr, terminal: isTerminal(a.Stderr), name: image.spec.Image, now: a.Now}
		err := a.pullImage(ctx, backend, image, line)
		line.end()
		switch {
		case ctx.Err() != nil:
			return shown(exitCancelled)
		case err != nil:
			failed = true
			report.Error(a.Stderr, err, a.color(a.Stderr))
		}
	}
	if failed {
		return shown(exitInfra)
	}
	return nil
}

func (a *App) pullImage(ctx context.Context, backend *docker.Backend, image wantedImage, line *progressLine) error {
	ref, state := image.spec.Image, "is there"
	pull, err := backend.WouldPull(ctx, image.spec)
	if err != nil {
		return err
	}
	if pull {
		line.say("asking its registry")
		if err := backend.Pull(ctx, ref, func(p docker.PullProgress) { line.show(p.String()) }); err != nil {
			return err
		}
		state = "pulled"
	}
	name, err := backend.ImageName(ctx, ref)
	if err != nil {
		return err
	}
	line.end()
	fmt.Fprintf(a.Stdout, "%s: %s, %s\n", ref, state, name)
	return nil
}

// How often a line of progress is renewed.
const (
	renewLine  = 100 * time.Millisecond // on a terminal, in place
	repeatLine = 5 * time.Second        // elsewhere, line by line
)

// progressLine tells how far something is.
type progressLine struct {
	w        io.Writer
	terminal bool
	name     string
	now      func() time.Time

	last time.Time
	open bool // a line that is not ended stands on the terminal
}

// show says it when it is time to.
func (l *progressLine) show(text string) {
	every := repeatLine
	if l.terminal {
		every = renewLine
	}
	if l.now().Sub(l.last) >= every {
		l.say(text)
	}
}

func (l *progressLine) say(text string) {
	l.last = l.now()
	text = l.name + ": " + text
	if !l.terminal {
		fmt.Fprintln(l.w, text)
		return
	}
	const width = 79 // of any terminal: a longer line could not be renewed in place
	if r := []rune(text); len(r) > width {
		text = "…" + string(r[len(r)-width+1:])
	}
	l.open = true
	fmt.Fprint(l.w, "\r\x1b[K"+text)
}

// end takes the open line away: what follows says more.
func (l *progressLine) end() {
	if l.open {
		l.open = false
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}
