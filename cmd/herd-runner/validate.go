package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/workflow"
)

func (a *App) validateCommand() *cobra.Command {
	var dir, format string
	cmd := &cobra.Command{
		Use:   "validate WORKFLOW.yml...",
		Short: "Check workflow files and show every problem at once",
		Long:  "Check workflow files, and files of composite actions, and show every problem at\nonce.",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			if format != "text" && format != "json" && format != "github" {
				return problem("--format %q: expected text, json or github", format)
			}
			project, err := filepath.Abs(dir)
			if err != nil {
				return problem("-C: %w", err)
			}
			bad := false
			var all []workflow.Problem
			for _, file := range files {
				w, problems, err := readWorkflow(dir, file)
				if err != nil {
					return err
				}
				if action, found := workflow.LoadAction(file, w.Src, projectFile(dir)); action != nil {
					w, problems = action, found
				}
				lacking, err := checkAgents(project, w)
				if err != nil {
					return infra(err)
				}
				problems = append(problems, lacking...)
				bad = bad || workflow.HasErrors(problems)
				switch {
				case format == "json":
					all = append(all, problems...)
				case format == "github":
					workflow.RenderGitHub(a.Stdout, problems)
				case len(problems) > 0:
					w.RenderText(a.Stdout, problems, a.color(a.Stdout))
				}
				if format == "text" && !workflow.HasErrors(problems) {
					fmt.Fprintf(a.Stdout, "%s: ok\n", file)
				}
			}
			if format == "json" {
				workflow.RenderJSON(a.Stdout, all)
			}
			if bad {
				return shown(exitProblem)
			}
			return nil
		},
	}
	dirFlag(cmd, &dir)
	cmd.Flags().StringVar(&format, "format", "text", "text, json or github")
	return cmd
}

func (a *App) graphCommand() *cobra.Command {
	var dir, format, job string
	var estimate bool
	cmd := &cobra.Command{
		Use:   "graph WORKFLOW.yml",
		Short: "Show the DAG that a workflow resolves to",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case estimate && format != "text" && format != "json":
				return problem("--format %q: expected text or json with --estimate", format)
			case !estimate && format != "text" && format != "mermaid" && format != "dot":
				return problem("--format %q: expected text, mermaid or dot", format)
			}
			w, problems, err := readWorkflow(dir, args[0])
			if err != nil {
				return err
			}
			if workflow.HasErrors(problems) {
				return a.show(w, problems)
			}
			plan, problems := workflow.NewPlan(w, job)
			if workflow.HasErrors(problems) {
				return a.show(w, problems)
			}
			if estimate {
				return a.estimate(dir, w, plan, format == "json")
			}
			if err := workflow.Graph(a.Stdout, plan, format); err != nil || format != "text" {
				return err
			}
			return a.graphAuto(w, plan)
		},
	}
	dirFlag(cmd, &dir)
	cmd.Flags().StringVar(&format, "format", "text", "text, mermaid or dot; with --estimate text or json")
	cmd.Flags().StringVarP(&job, "job", "j", "", "only this job and what it needs")
	cmd.Flags().BoolVar(&estimate, "estimate", false, "what time, tokens and money its steps took in earlier runs")
	return cmd
}

func (a *App) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintf(a.Stdout, "herd-runner %s\n", a.Version)
			return nil
		},
	}
}
