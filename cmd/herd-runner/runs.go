package main

import (
	"context"
	"errors"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/internal/journal"
	"github.com/herd-runner/herd-runner/internal/report"
)

func (a *App) psCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the runs of the project, the newest first",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			// What can be read is shown, whatever else can not.
			runs, err := journal.List(dir)
			if err := errors.Join(report.PS(a.Stdout, runs, a.Now(), a.color(a.Stdout)), err); err != nil {
				return infra(err)
			}
			return nil
		},
	}
	dirFlag(cmd, &dir)
	return cmd
}

func (a *App) showCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "show [RUN]",
		Short: "Show one run: its steps, causes, durations, tokens and cost",
		Long:  "Show one run. RUN is an id, the beginning of one, or `latest` (the default).",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := openRun(dir, args)
			if err != nil {
				return err
			}
			state, err := journal.State(r)
			if err != nil {
				return infra(err)
			}
			return report.Show(a.Stdout, state, a.Now(), a.color(a.Stdout))
		},
	}
	dirFlag(cmd, &dir)
	return cmd
}

func openRun(dir string, args []string) (*journal.Reader, error) {
	id := "latest"
	if len(args) > 0 {
		id = args[0]
	}
	r, err := journal.Open(dir, id)
	if err != nil {
		return nil, &exitError{exitProblem, err}
	}
	return r, nil
}

func (a *App) logsCommand() *cobra.Command {
	var dir string
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs [RUN] [JOB[/STEP]]",
		Short: "Print what the steps of a run wrote; -f goes on while it runs",
		Args:  cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := openRun(dir, args)
			if err != nil {
				return err
			}
			opts := journal.StreamOptions{Follow: follow}
			if len(args) > 1 {
				if opts.Select, err = selectSteps(r, args[1], follow); err != nil {
					return err
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			display := report.NewTerminal(a.Stdout, report.TerminalOptions{Color: a.color(a.Stdout), Plain: true})
			err = r.Stream(ctx, opts, display)
			if closeErr := display.Close(); err == nil {
				err = closeErr
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				return infra(err)
			}
			return nil
		},
	}
	dirFlag(cmd, &dir)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run ends")
	return cmd
}

// selectSteps gives the choice of JOB or JOB/STEP. While a run goes on it may
// name a step that has not begun.
func selectSteps(r *journal.Reader, selector string, follow bool) (func(job, step string) bool, error) {
	state, err := journal.State(r)
	if err != nil {
		return nil, infra(err)
	}
	if _, err := state.Select(selector); err != nil && !(follow && state.Status == journal.Running) {
		return nil, &exitError{exitProblem, err}
	}
	return func(job, step string) bool {
		return selector == job || selector == job+"/"+step || strings.HasPrefix(job, selector+" (")
	}, nil
}
