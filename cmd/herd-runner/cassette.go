package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/gateway"
	"github.com/herd-runner/herd-runner/internal/report"
)

func (a *App) cassetteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cassette",
		Short: "Look at recorded model traffic",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.cassetteShowCommand(), a.cassetteCheckCommand())
	return cmd
}

func (a *App) cassetteShowCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "show DIR",
		Short: "Show the lanes of a cassette: exchanges, models, tokens",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			lanes, err := gateway.Inspect(under(dir, args[0]))
			if err != nil {
				return problem("%w", err)
			}
			for i, l := range lanes {
				if i > 0 {
					fmt.Fprintln(a.Stdout)
				}
				a.showLane(l)
			}
			fmt.Fprintf(a.Stdout, "\n%s\n", sumOf(lanes))
			return nil
		},
	}
	dirFlag(cmd, &dir)
	return cmd
}

func (a *App) showLane(l gateway.RecordedLane) {
	fmt.Fprintf(a.Stdout, "%s\n%s\n", report.Clean(l.Lane.String()), report.Clean(l.Dir))
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  EXCHANGE\tFORMAT\tKIND\tMODEL\tSTATUS\tIN\tOUT\tEND\tSAID")
	for _, e := range l.Exchanges {
		end := e.StopReason
		if e.Broken {
			end = "broken off"
		}
		in := e.Usage.InputTokens + e.Usage.CacheReadTokens + e.Usage.CacheWriteTokens
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n", report.Clean(strings.TrimSuffix(filepath.Base(e.File), ".json")), e.Dialect, report.Clean(e.Kind),
			report.Clean(e.Model), e.Status, in, e.Usage.OutputTokens, report.Clean(end), report.Clean(said(e.Turn)))
	}
	_ = w.Flush()
}

// said is the beginning of what was said to the model.
func said(turn []string) string {
	text := []rune(strings.Join(strings.Fields(strings.Join(turn, " ")), " "))
	if len(text) > 60 {
		text = append(text[:59], '…')
	}
	return string(text)
}

// sumOf counts what a cassette holds.
func sumOf(lanes []gateway.RecordedLane) string {
	exchanges := 0
	var sum event.Usage
	for _, l := range lanes {
		exchanges += len(l.Exchanges)
		for _, e := range l.Exchanges {
			sum = sum.Add(e.Usage)
		}
	}
	return fmt.Sprintf("lanes: %d, exchanges: %d, tokens in: %d, out: %d", len(lanes), exchanges,
		sum.InputTokens+sum.CacheReadTokens+sum.CacheWriteTokens, sum.OutputTokens)
}

func (a *App) cassetteCheckCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Check that a cassette can be replayed and holds nothing that looks like a secret",
		Long: "Check that a cassette can be replayed and holds nothing that looks like a secret.\n" +
			"Exit code 1: something looks like one. 2: the cassette can not be read.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			name := under(dir, args[0])
			lanes, err := gateway.Inspect(name)
			if err != nil {
				return problem("%w", err)
			}
			leaks, err := gateway.Leaks(name)
			if err != nil {
				return problem("%w", err)
			}
			for _, l := range leaks {
				fmt.Fprintf(a.Stderr, "%s:%d: %s looks like %s\n", report.Clean(l.File), l.Line, report.Clean(l.Begin), l.Looks)
			}
			if len(leaks) > 0 {
				fmt.Fprintf(a.Stderr, "found: %d; revoke what is real, then record again with the secret given to the run (--secret), which masks it\n", len(leaks))
				return shown(exitFailure)
			}
			fmt.Fprintf(a.Stdout, "%s; nothing looks like a secret\n", sumOf(lanes))
			return nil
		},
	}
	dirFlag(cmd, &dir)
	return cmd
}
