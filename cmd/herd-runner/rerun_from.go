package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
	"github.com/herd-runner/herd-runner/internal/workspace"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// choose finds what a person means with the JOB or JOB/STEP of --from; JOB is a
// job, which is all of its legs, or one leg. Case does not matter.
func (t *takeover) choose(p *prepared, selector string) error {
	all := t.everyJob(p.plan)
	found, name := named(all, selector), ""
	for i, c := range selector {
		if c == '/' && len(found) == 0 {
			found, name = named(all, selector[:i]), selector[i+1:]
		}
	}
	if len(found) == 0 {
		var known []string
		for _, j := range all {
			known = append(known, j.gate.ID)
		}
		return &exitError{exitProblem, &unknownError{message: fmt.Sprintf("--from: there is no job %q", selector), hint: workflow.Suggest(selector, known)}}
	}
	for _, j := range found {
		step := ""
		if name != "" {
			s, err := stepNamed(j.gate, name)
			if err != nil {
				return err
			}
			if s.Index > 0 {
				step = s.ID
				if err := t.canGoOn(p, j, s); err != nil {
					return problem("--from %s: %w; --from %s runs all of the job", selector, err, j.gate.ID)
				}
			}
		}
		t.chosen[j.gate.ID] = step
		for _, leg := range j.legs {
			t.chosen[leg.ID] = step
		}
	}
	return nil
}

// everyJob lists the jobs of a plan and of the workflows that it calls.
func (t *takeover) everyJob(plan *workflow.Plan) []plannedJob {
	jobs := t.planned(plan)
	for _, j := range jobs {
		for _, leg := range j.legs {
			if j.gate.Job.Called == nil {
				continue
			}
			if called, _ := workflow.CalledPlan(leg); called != nil {
				jobs = append(jobs, t.everyJob(called)...)
			}
		}
	}
	return jobs
}

// named finds the jobs of that id, or the one that has a leg of that id, with only
// that leg.
func named(all []plannedJob, id string) []plannedJob {
	var found []plannedJob
	for _, j := range all {
		if strings.EqualFold(j.gate.ID, id) {
			found = append(found, j)
			continue
		}
		for _, leg := range j.legs {
			if strings.EqualFold(leg.ID, id) {
				found = append(found, plannedJob{j.gate, []*workflow.Leg{leg}})
			}
		}
	}
	return found
}

func stepNamed(gate *workflow.Node, id string) (*workflow.Step, error) {
	var known []string
	for _, s := range gate.Job.Steps {
		if strings.EqualFold(s.ID, id) {
			return s, nil
		}
		known = append(known, s.ID)
	}
	return nil, &exitError{exitProblem, &unknownError{message: fmt.Sprintf("--from: job %s has no step %q", gate.ID, id), hint: workflow.Suggest(id, known)}}
}

// canGoOn says why a job cannot go on at a step: what that step would find is not
// what it found in the earlier run.
func (t *takeover) canGoOn(p *prepared, j plannedJob, at *workflow.Step) error {
	if j.gate.Job.IsConcurrent() {
		return errors.New("steps of the job run at the same time")
	}
	before := j.gate.Job.Steps[:at.Index]
	for _, s := range before {
		for _, s := range withInner([]*workflow.Step{s}) {
			w, err := workflow.DecodeWorkspace(s.Workspace, func(v *workflow.Value) (expr.Value, error) { return workflow.Evaluate(v, p.startEnv()) })
			if err != nil || w.Apart() {
				return fmt.Errorf("step %s worked in a workspace apart from the project, which is gone", s.ID)
			}
		}
		for _, later := range j.gate.Job.Steps[at.Index:] {
			named := workflow.SessionOf(later)
			if strings.EqualFold(named.Step, s.ID) && (named.Job == "" || strings.EqualFold(named.Job, j.gate.Job.ID)) {
				return fmt.Errorf("step %s goes on with the session of step %s", later.ID, s.ID)
			}
		}
		for _, leg := range j.legs {
			if err := t.canTake(leg.ID, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// canTake says why a step of a leg cannot be taken over.
func (t *takeover) canTake(leg string, s *workflow.Step) error {
	var had *journal.StepState
	if j := t.legs[leg]; j != nil {
		for _, st := range j.Steps {
			if st.ID == s.ID {
				had = st
			}
		}
	}
	switch {
	case had == nil || had.Outcome == nil || had.Outcome.Outcome == string(journal.Cancelled):
		return fmt.Errorf("step %s/%s had not come to its end in run %s", leg, s.ID, t.state.ID)
	case len(had.Outcome.Withheld) > 0:
		return fmt.Errorf("step %s/%s has set what holds a secret, which the record does not keep: %s", leg, s.ID, strings.Join(had.Outcome.Withheld, ", "))
	}
	set := slices.Concat(had.Outcome.Path, slices.Collect(maps.Values(had.Outcome.Env)), slices.Collect(maps.Values(had.Outcome.Outputs)))
	slices.Sort(set)
	for _, v := range set {
		for _, gone := range []string{workspace.BoxHome, workspace.BoxTemp, "/.herd/runs/"} {
			if strings.Contains(v, gone) {
				return fmt.Errorf("step %s/%s has set what lies in a directory that ended with its run: %.200q", leg, s.ID, v)
			}
		}
	}
	return nil
}

// before tells the steps of a leg that come before one of its job.
func (t *takeover) before(j *journal.JobState, job *workflow.Job, step string) map[string][]event.Event {
	told := map[string][]event.Event{}
	for _, s := range job.Steps {
		if s.ID == step {
			break
		}
		var own []event.Event
		for _, had := range j.Steps {
			switch {
			case had.ID == s.ID:
				own = t.step(had, t.state.ID)
			case strings.HasPrefix(had.ID, s.ID+"/"):
				told[s.ID] = append(told[s.ID], t.step(had, t.state.ID)...)
			}
		}
		told[s.ID] = append(told[s.ID], own...)
	}
	return told
}

// cutShort names a leg that was to go on at a step and begins anew all the same:
// something that its job needs runs again. Empty: there is none.
func (t *takeover) cutShort() string {
	for _, leg := range sortedKeys(t.chosen) {
		if t.chosen[leg] != "" && t.legs[leg] != nil && !t.goesOn(leg) {
			return leg
		}
	}
	return ""
}

// goesOn says whether a leg goes on in its middle.
func (t *takeover) goesOn(leg string) bool {
	for _, legs := range t.taken {
		if legs[leg].Steps != nil {
			return true
		}
	}
	return false
}
