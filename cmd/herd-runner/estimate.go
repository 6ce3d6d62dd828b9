package main

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"

	"github.com/herd-runner/herd-runner/internal/journal"
	"github.com/herd-runner/herd-runner/internal/report"
	"github.com/herd-runner/herd-runner/workflow"
)

// estimate tells what earlier runs of the workflow took.
func (a *App) estimate(dir string, w *workflow.Workflow, plan *workflow.Plan, asJSON bool) error {
	project, err := filepath.Abs(dir)
	if err != nil {
		return problem("-C: %w", err)
	}
	runs, err := journal.List(project) // what can be read counts, whatever else can not
	runs = slices.DeleteFunc(runs, func(r journal.RunState) bool {
		return filepath.Clean(under(project, r.Info.File)) != filepath.Clean(under(project, w.File)) || r.Status == journal.Running
	})
	var steps []report.PlannedStep
	for _, n := range plan.Nodes {
		if n.Kind != workflow.JobGate {
			continue
		}
		for _, s := range n.Job.Steps {
			if !s.IsControl() {
				steps = append(steps, report.PlannedStep{Job: n.Job.ID, Step: s.ID})
			}
		}
	}
	forecast := report.Foresee(steps, runs)
	if asJSON {
		enc := json.NewEncoder(a.Stdout)
		enc.SetIndent("", "  ")
		err = errors.Join(enc.Encode(forecast), err)
	} else {
		err = errors.Join(report.Estimate(a.Stdout, forecast, a.color(a.Stdout)), err)
	}
	if err != nil {
		return infra(err)
	}
	return nil
}
