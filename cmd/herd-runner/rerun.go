package main

import (
	"github.com/spf13/cobra"
)

func (a *App) rerunCommand() *cobra.Command {
	var f runFlags
	var failed, present bool
	cmd := &cobra.Command{
		Use:   "rerun [flags] [RUN]",
		Short: "Run again what an earlier run has run, or what failed of it",
		Long: "Run again what an earlier run has run, with its workflow, inputs and event. RUN is\n" +
			"an id, the beginning of one, or `latest` (the default). With --failed jobs that\n" +
			"have succeeded are not run again: their results and outputs are taken over. Secrets\n" +
			"are never recorded and must be given anew.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := openRun(f.dir, args)
			if err != nil {
				return err
			}
			from, err := openEarlier(r)
			if err != nil {
				return err
			}
			from.failed, from.present = failed, present
			return a.run(cmd, source{earlier: from}, f)
		},
	}
	a.runFlags(cmd, &f)
	fl := cmd.Flags()
	fl.BoolVar(&failed, "failed", false, "only the jobs that have not succeeded, and those that need them")
	fl.BoolVar(&present, "workflow-from-project", false, "take the workflow as it is in the project now, not as the run had it")
	return cmd
}
