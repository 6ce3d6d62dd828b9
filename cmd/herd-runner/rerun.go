package main

import (
	"github.com/spf13/cobra"
)

func (a *App) rerunCommand() *cobra.Command {
	var f runFlags
	var failed, present bool
	var at string
	cmd := &cobra.Command{
		Use:   "rerun [flags] [RUN]",
		Short: "Run again what an earlier run has run, or what failed of it",
		Long: "Run again what an earlier run has run, with its workflow, inputs and event. RUN is\n" +
			"an id, the beginning of one, or `latest` (the default). With --failed or --from jobs\n" +
			"that have succeeded are not run again: their results and outputs are taken over.\n" +
			"Secrets are never recorded and must be given anew.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch chosen := cmd.Flags().Changed("from"); {
			case failed && chosen:
				return problem("--failed and --from cannot stand together: --from also runs what has not succeeded")
			case chosen && at == "":
				return problem("--from: expected JOB or JOB/STEP")
			}
			r, err := openRun(f.dir, args)
			if err != nil {
				return err
			}
			from, err := openEarlier(f.dir, r)
			if err != nil {
				return err
			}
			from.failed, from.from, from.present = failed, at, present
			return a.run(cmd, source{earlier: from}, f)
		},
	}
	a.runFlags(cmd, &f)
	fl := cmd.Flags()
	fl.BoolVar(&failed, "failed", false, "only the jobs that have not succeeded, and those that need them")
	fl.StringVar(&at, "from", "", "only this JOB, or its steps from JOB/STEP on, what needs it, and what has not succeeded")
	fl.BoolVar(&present, "workflow-from-project", false, "take the workflow as it is in the project now, not as the run had it")
	return cmd
}
