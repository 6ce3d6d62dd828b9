package main

import (
	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/workflow"
)

func (a *App) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print a JSON Schema of workflow files, for editors",
		Long: `Print a JSON Schema (draft 7) of workflow files, with descriptions.

Editors with the YAML language server take it from a line at a file's top:

  # yaml-language-server: $schema=workflow.schema.json`,
		Example: "  herd-runner schema > workflow.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if _, err := a.Stdout.Write(workflow.JSONSchema()); err != nil {
				return infra(err)
			}
			return nil
		},
	}
}
