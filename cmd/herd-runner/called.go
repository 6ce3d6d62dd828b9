package main

import (
	"github.com/herd-runner/herd-runner/internal/gateway"
	"github.com/herd-runner/herd-runner/workflow"
)

// part is a workflow of the run: the one that was asked for, or one it calls.
type part struct {
	workflow *workflow.Workflow
	jobs     []*workflow.Job // those that may run
	// inherits says that it has the secrets of the run, by their names.
	inherits bool
}

// parts are the workflow and all that its planned jobs call, each once for each
// way to have secrets.
func (p *prepared) parts() []part {
	type key struct {
		*workflow.Workflow
		inherits bool
	}
	seen := map[key]bool{}
	parts := []part{{p.workflow, p.plannedJobs(), true}}
	for i := 0; i < len(parts); i++ {
		for _, job := range parts[i].jobs {
			if job.Called == nil {
				continue
			}
			k := key{job.Called, parts[i].inherits && job.InheritsSecrets()}
			if !seen[k] {
				seen[k] = true
				parts = append(parts, part{k.Workflow, k.Jobs, k.inherits})
			}
		}
	}
	return parts
}

// maxLabels bounds what is looked at for the width of the display.
const maxLabels = 10_000

// labelsOf are the "job/step" of a plan and of those it calls.
func labelsOf(labels []string, plan *workflow.Plan) []string {
	for _, n := range plan.Nodes {
		switch {
		case len(labels) > maxLabels:
			return labels
		case n.Kind == workflow.StepNode:
			labels = appendLabels(labels, n.Leg.ID+"/", n.Step)
		case n.Kind == workflow.CallNode:
			if called, _ := workflow.CalledPlan(n.Leg); called != nil {
				labels = labelsOf(labels, called)
			}
		}
	}
	return labels
}

func appendLabels(labels []string, prefix string, s *workflow.Step) []string {
	labels = append(labels, prefix+s.ID)
	if s.Action != nil {
		for _, inner := range s.Action.Steps {
			labels = appendLabels(labels, prefix+s.ID+"/", inner)
		}
	}
	return labels
}

// certainLanes are those of agent steps that will run if nothing fails before
// them: known already, and without a condition.
func (p *prepared) certainLanes(lanes []gateway.Lane, plan *workflow.Plan) []gateway.Lane {
	conditional := map[*workflow.Job]bool{}
	for _, n := range plan.Nodes {
		switch {
		case n.Kind == workflow.JobGate:
			conditional[n.Job] = n.Job.If != nil
			for _, need := range n.Needs {
				conditional[n.Job] = conditional[n.Job] || conditional[need.Job]
			}
		case conditional[n.Job], p.earlier.has(n.Job), p.earlier.hasStep(n.Step):
		case n.Kind == workflow.StepNode && n.Step.If == nil:
			lanes = certainSteps(lanes, n.Leg.ID, "", n.Step)
		case n.Kind == workflow.CallNode:
			if called, _ := workflow.CalledPlan(n.Leg); called != nil {
				lanes = p.certainLanes(lanes, called)
			}
		}
	}
	return lanes
}

// certainSteps adds the lanes of a step without a condition: its own, or those
// of such steps in the action it uses.
func certainSteps(lanes []gateway.Lane, job, prefix string, s *workflow.Step) []gateway.Lane {
	if s.IsAgent() {
		lanes = append(lanes, gateway.Lane{Job: job, Step: prefix + s.ID, Attempt: 1})
	}
	if s.Action != nil {
		for _, inner := range s.Action.Steps {
			if inner.If == nil {
				lanes = certainSteps(lanes, job, prefix+s.ID+"/", inner)
			}
		}
	}
	return lanes
}
