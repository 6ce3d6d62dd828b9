package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/moby/term"
	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/internal/report"
	"github.com/herd-runner/herd-runner/internal/workspace"
	"github.com/herd-runner/herd-runner/sandbox/docker"
)

// boxTime bounds what box ls and box rm ask of the engine.
const boxTime = 2 * time.Minute

func (a *App) boxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "box",
		Short: "List, enter and remove boxes: running ones and those that were kept",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	a.sandboxFlag(cmd)
	cmd.AddCommand(a.boxListCommand(), a.boxExecCommand(), a.boxRemoveCommand())
	return cmd
}

// withEngine calls fn with the engine as it is: nothing left behind is removed.
func (a *App) withEngine(ctx context.Context, fn func(*docker.Backend) error) error {
	backend, err := a.connectDocker(ctx, docker.Options{Look: true})
	if err != nil {
		return infra(err)
	}
	defer backend.Close(ctx)
	return fn(backend)
}

func (a *App) boxListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the boxes on this machine, the newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), boxTime)
			defer cancel()
			return a.withEngine(ctx, func(b *docker.Backend) error {
				boxes, err := b.List(ctx)
				if err != nil {
					return infra(err)
				}
				if asJSON {
					enc := json.NewEncoder(a.Stdout)
					for _, x := range boxes {
						if err := enc.Encode(x); err != nil {
							return infra(err)
						}
					}
					return nil
				}
				w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "BOX\tSTATE\tJOB/STEP\tRUN\tAGE\tSIZE\tPROJECT")
				for _, x := range boxes {
					fmt.Fprintf(w, "%.12s\t%s\t%s\t%s\t%s\t%s\t%s\n", x.ID, x.State, report.Clean(x.Job+"/"+x.Step), report.Clean(x.Run),
						report.Duration(a.Now().Sub(x.Created).Round(time.Second)), report.Bytes(x.Bytes), report.Clean(x.Project))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	return cmd
}

func (a *App) boxRemoveCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "rm BOX... | --all",
		Short: "Remove boxes that no run uses, with their HOME",
		RunE: func(cmd *cobra.Command, ids []string) error {
			if all == (len(ids) > 0) {
				return problem("name the boxes to remove (herd-runner box ls lists them), or --all for every one that no run uses")
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), boxTime)
			defer cancel()
			return a.withEngine(ctx, func(b *docker.Backend) error { return a.removeBoxes(ctx, b, ids) })
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every box on this machine that no run uses, of all projects")
	return cmd
}

// removeBoxes removes the named boxes, or all that no run uses. What can not be
// found is said before anything is removed.
func (a *App) removeBoxes(ctx context.Context, b *docker.Backend, ids []string) error {
	var chosen []docker.Listed
	if len(ids) == 0 {
		boxes, err := b.List(ctx)
		if err != nil {
			return infra(err)
		}
		for _, x := range boxes {
			if x.State != docker.StateRunning {
				chosen = append(chosen, x)
			}
		}
	}
	for _, id := range ids {
		x, err := b.Find(ctx, id)
		if err == nil && x.State == docker.StateRunning {
			err = b.Remove(ctx, x) // says why not
		}
		if err != nil {
			return &exitError{exitProblem, err}
		}
		chosen = append(chosen, x)
	}
	var errs []error
	for _, x := range chosen {
		if err := b.Remove(ctx, x); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(a.Stdout, "removed %.12s, %s\n", x.ID, report.Bytes(x.Bytes))
	}
	if err := errors.Join(errs...); err != nil {
		return infra(err)
	}
	return nil
}

func (a *App) boxExecCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "exec BOX -- COMMAND [ARGUMENT...]",
		Short: "Run a command in a running box, or in a kept one, which is started for it",
		Long: `Run a command as the box's user. A kept box is started for it, without model
gateway and credentials, and stopped again after it. With a terminal on standard
input and output the command has one too: herd-runner box exec BOX -- sh`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return problem("expected a box and a command: herd-runner box exec BOX -- ls -la; herd-runner box ls lists the boxes")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGHUP, os.Interrupt)
			defer stop()
			argv := args[1:]
			if len(argv) > 1 && argv[0] == "--" {
				argv = argv[1:]
			}
			return a.withEngine(context.WithoutCancel(ctx), func(b *docker.Backend) error {
				return a.enterBox(ctx, b, args[0], docker.Entry{Argv: argv, Dir: dir})
			})
		},
	}
	cmd.Flags().SetInterspersed(false) // flags after the box are the command's
	cmd.Flags().StringVarP(&dir, "workdir", "w", "/workspace", "directory in the box")
	return cmd
}

func (a *App) enterBox(ctx context.Context, b *docker.Backend, id string, e docker.Entry) error {
	x, err := b.Find(ctx, id)
	if err != nil {
		return &exitError{exitProblem, err}
	}
	e.Stdin, e.Stdout, e.Stderr = a.Stdin, a.Stdout, a.Stderr
	e.Gone = func(path string) {
		fmt.Fprintf(a.Stderr, "%s is no more: where the box had it is something empty; run --keep-workspaces keeps the copy that boxes have of a project of root's\n", report.Clean(path))
	}
	e.Env = []string{"HOME=" + workspace.BoxHome}
	if isTerminal(a.Stdout) {
		if in, ok := a.Stdin.(*os.File); ok && isTerminal(in) {
			restore, err := rawTerminal(in, &e)
			if err != nil {
				return infra(err)
			}
			defer restore()
			e.Env = append(e.Env, "TERM="+a.Getenv("TERM"))
		}
	}
	code, err := b.Enter(ctx, x, e)
	switch {
	case ctx.Err() != nil:
		return shown(exitCancelled)
	case err != nil && code != 0:
		return &exitError{code, err}
	case err != nil:
		return infra(err)
	case code != 0:
		return shown(code)
	}
	return nil
}

// rawTerminal hands every key on, and the terminal's size.
func rawTerminal(in *os.File, e *docker.Entry) (restore func(), err error) {
	before, err := term.SetRawTerminal(in.Fd())
	if err != nil {
		return nil, err
	}
	sizes := make(chan docker.Size, 1)
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	changed <- syscall.SIGWINCH
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-changed:
				if s, err := term.GetWinsize(in.Fd()); err == nil {
					select {
					case sizes <- docker.Size{Width: uint(s.Width), Height: uint(s.Height)}:
					case <-done:
						return
					}
				}
			case <-done:
				return
			}
		}
	}()
	e.TTY, e.Sizes = true, sizes
	return func() {
		signal.Stop(changed)
		close(done)
		_ = term.RestoreTerminal(in.Fd(), before)
	}, nil
}
