package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/internal/journal"
	"github.com/herd-runner/herd-runner/internal/report"
	"github.com/herd-runner/herd-runner/workflow"
)

func (a *App) whyCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "why RUN JOB[/STEP]",
		Short: "Tell why a job or step of a run ran or was skipped",
		Long: "Tell why a job or step of a run ran or was skipped: its condition with the value\n" +
			"each part had, and the results it saw. RUN is an id, the beginning of one, or\n" +
			"`latest`; JOB may name one leg of a matrix: 'test (1.26, linux)'.",
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := openRun(dir, args)
			if err != nil {
				return err
			}
			state, err := journal.State(r)
			if err != nil {
				return infra(err)
			}
			whys, err := findWhy(state, args[1])
			if err != nil {
				return &exitError{exitProblem, err}
			}
			for i, y := range whys {
				if i > 0 {
					fmt.Fprintln(a.Stdout)
				}
				if y.Decision, err = decision(r, y); err != nil {
					return infra(err)
				}
				if err := y.Explain(a.Stdout, a.color(a.Stdout)); err != nil {
					return infra(err)
				}
			}
			return nil
		},
	}
	dirFlag(cmd, &dir)
	return cmd
}

func decision(r *journal.Reader, y report.Why) (journal.Decision, error) {
	if y.Step != nil {
		return r.Decision(y.Step.Job, y.Step.ID)
	}
	return r.Decision(jobOfLeg(y.Job.ID), "")
}

// jobOfLeg is the id of the job in that of a leg; the jobs of a called workflow
// have the id of the leg that calls it before their own.
func jobOfLeg(leg string) string {
	caller, depth := 0, 0
	for i, c := range leg {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case depth == 0 && strings.HasPrefix(leg[i:], workflow.CallSeparator):
			caller = i + len(workflow.CallSeparator)
		}
	}
	id, _, _ := strings.Cut(leg[caller:], " ")
	return leg[:caller] + id
}

// unknownError says that a selector names nothing in a run.
type unknownError struct{ message, hint string }

func (e *unknownError) Error() string { return e.message }

// Hint says what to do next.
func (e *unknownError) Hint() string { return e.hint }

// findWhy finds what a person means with JOB, JOB/STEP or a step's id alone. JOB
// is a job, which is all of its legs, or one leg. Case does not matter.
func findWhy(state journal.RunState, selector string) ([]report.Why, error) {
	legs := legsNamed(state, selector)
	if len(legs) > 0 {
		var whys []report.Why
		for _, j := range legs {
			whys = append(whys, report.Why{File: state.Info.File, Job: j})
		}
		return whys, nil
	}
	job, step := "", selector
	if strings.Contains(selector, "/") {
		// Ids of jobs and of steps may both hold a slash.
		for i, c := range selector {
			if c != '/' || len(legs) > 0 {
				continue
			}
			job, step = selector[:i], selector[i+1:]
			legs = legsNamed(state, job)
		}
		if len(legs) == 0 {
			return nil, unknownJob(state, job)
		}
	} else {
		legs = state.Jobs
	}
	var whys []report.Why
	var known []string
	for _, j := range legs {
		for _, s := range j.Steps {
			known = append(known, s.ID)
			if strings.EqualFold(s.ID, step) {
				whys = append(whys, report.Why{File: state.Info.File, Job: j, Step: s})
			}
		}
	}
	switch {
	case len(whys) > 0:
		return whys, nil
	case job == "":
		return nil, unknownJob(state, selector)
	case len(known) == 0:
		// None of its steps was come to: why not is told of the job.
		for _, j := range legs {
			whys = append(whys, report.Why{File: state.Info.File, Job: j})
		}
		return whys, nil
	}
	slices.Sort(known)
	return nil, &unknownError{
		message: fmt.Sprintf("job %s of run %s has no step %q%s", job, state.ID, step, notYet(state)),
		hint:    workflow.Suggest(step, slices.Compact(known)),
	}
}

func legsNamed(state journal.RunState, name string) []*journal.JobState {
	var legs []*journal.JobState
	for _, j := range state.Jobs {
		if strings.EqualFold(j.ID, name) {
			return []*journal.JobState{j}
		}
		if strings.EqualFold(jobOfLeg(j.ID), name) {
			legs = append(legs, j)
		}
	}
	slices.SortFunc(legs, func(a, b *journal.JobState) int { return strings.Compare(a.ID, b.ID) })
	return legs
}

func unknownJob(state journal.RunState, name string) error {
	var known []string
	for _, j := range state.Jobs {
		known = append(known, j.ID)
	}
	return &unknownError{
		message: fmt.Sprintf("run %s has no job or step %q%s", state.ID, name, notYet(state)),
		hint:    workflow.Suggest(name, known),
	}
}

func notYet(state journal.RunState) string {
	if state.Status == journal.Running {
		return "; it is still running and may not have come to it yet"
	}
	return ""
}
