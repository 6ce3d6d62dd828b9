package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/internal/journal"
)

func (a *App) cancelCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "cancel [RUN]",
		Short: "End a run that goes on elsewhere, in order; a second time, kill its steps",
		Long:  "End a run as Ctrl-C in its own terminal does: running steps are stopped, always() and cancelled() steps run. The second time its processes are killed.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := openRun(dir, args)
			if err != nil {
				return err
			}
			return a.cancel(r)
		},
	}
	dirFlag(cmd, &dir)
	return cmd
}

func (a *App) cancel(r *journal.Reader) error {
	state, err := journal.State(r)
	if err != nil {
		return infra(err)
	}
	if state.Status != journal.Running {
		return problem("run %s is over: %s", r.ID, state.Status)
	}
	pid := state.Info.PID
	if !r.HeldBy(pid) {
		return problem("run %s goes on, but not in a process of this machine that can be seen from here; end it where it was started", r.ID)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		if errors.Is(err, syscall.EPERM) {
			return problem("run %s is another user's: %w", r.ID, err)
		}
		return infra(fmt.Errorf("signal process %d: %w", pid, err))
	}
	_, err = fmt.Fprintf(a.Stdout, "run %s is being cancelled; herd-runner logs -f %s follows it, and cancel a second time kills its steps\n", r.ID, r.ID)
	return err
}
