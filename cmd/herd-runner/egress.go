package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/internal/journal"
	"github.com/herd-runner/herd-runner/internal/report"
)

func (a *App) egressCommand() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "egress [RUN]",
		Short: "Show what boxes with an allow-list asked for, and the list that would have been enough",
		Long: "Show the requests that the boxes of a run made through the egress proxy: boxes whose docker.network is {allow: [...]}.\n" +
			"RUN is an id, the beginning of one, or `latest` (the default).",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := openRun(dir, args)
			if err != nil {
				return err
			}
			state, err := journal.Egress(r)
			if err != nil {
				return infra(err)
			}
			if !asJSON {
				return report.Egress(a.Stdout, state, a.color(a.Stdout))
			}
			enc := json.NewEncoder(a.Stdout)
			enc.SetIndent("", "  ")
			if err := enc.Encode(state); err != nil {
				return infra(err)
			}
			return nil
		},
	}
	dirFlag(cmd, &dir)
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}
