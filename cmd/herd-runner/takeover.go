package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
	"github.com/herd-runner/herd-runner/internal/workspace"
	"github.com/herd-runner/herd-runner/steps"
	"github.com/herd-runner/herd-runner/workflow"
)

// takeover finds the legs of an earlier run that a rerun takes over: those that
// have succeeded, of jobs for which the same holds of all that they need.
type takeover struct {
	state journal.RunState
	legs  map[string]*journal.JobState   // by id
	ofJob map[string][]*journal.JobState // by the id of the job
	again map[string]string              // legs that run again all the same, and why

	taken map[string]map[string]steps.EarlierLeg
	whole map[*workflow.Node]bool // by gate: all of the job is taken over
}

func newTakeover(state journal.RunState) *takeover {
	t := &takeover{state: state, legs: map[string]*journal.JobState{}, ofJob: map[string][]*journal.JobState{}, again: map[string]string{}}
	for _, j := range state.Jobs {
		t.legs[j.ID] = j
		job := jobOfLeg(j.ID)
		t.ofJob[job] = append(t.ofJob[job], j)
	}
	return t
}

// decide finds what is taken over into a plan.
func (t *takeover) decide(plan *workflow.Plan) {
	t.taken, t.whole = map[string]map[string]steps.EarlierLeg{}, map[*workflow.Node]bool{}
	t.jobs(plan)
}

// jobs looks at the jobs of a plan all of whose needs stand.
func (t *takeover) jobs(plan *workflow.Plan) {
	gates, legs := map[*workflow.Job]*workflow.Node{}, map[*workflow.Job][]*workflow.Leg{}
	for _, n := range plan.Nodes {
		switch n.Kind {
		case workflow.JobGate:
			gates[n.Job] = n
		case workflow.LegEnd:
			legs[n.Job] = append(legs[n.Job], n.Leg)
		}
	}
	var visit func(gate *workflow.Node) bool
	visit = func(gate *workflow.Node) bool {
		if whole, known := t.whole[gate]; known {
			return whole
		}
		stands := true
		for _, need := range gate.Needs {
			stands = visit(gates[need.Job]) && stands
		}
		t.whole[gate] = stands && t.job(gate, legs[gate.Job], slices.Contains(plan.Dynamic, gate))
		return t.whole[gate]
	}
	for _, n := range plan.Nodes {
		if n.Kind == workflow.JobGate {
			visit(n)
		}
	}
}

// job takes over what it can of a job whose needs stand, and says whether that is
// all of it. The legs of a dynamic matrix are those that the run had.
func (t *takeover) job(gate *workflow.Node, legs []*workflow.Leg, dynamic bool) bool {
	if dynamic {
		for _, j := range t.ofJob[gate.ID] {
			legs = append(legs, &workflow.Leg{Job: gate.Job, ID: j.ID})
		}
	}
	whole := len(legs) > 0
	for _, leg := range legs {
		j := t.legs[leg.ID]
		if j != nil && j.Status == journal.Success && j.Outcome != nil && t.again[j.ID] == "" {
			if t.taken[gate.ID] == nil {
				t.taken[gate.ID] = map[string]steps.EarlierLeg{}
			}
			t.taken[gate.ID][leg.ID] = t.tell(j)
			continue
		}
		whole = false
		if gate.Job.Called != nil {
			if called, _ := workflow.CalledPlan(leg); called != nil {
				t.jobs(called)
			}
		}
	}
	return whole
}

// tell gives the events of a leg and of those that it called.
func (t *takeover) tell(j *journal.JobState) steps.EarlierLeg {
	var told steps.EarlierLeg
	for _, inner := range t.state.Jobs {
		if strings.HasPrefix(inner.ID, j.ID+workflow.CallSeparator) && inner.Outcome != nil {
			told = append(told, t.events(inner)...)
		}
	}
	return append(told, t.events(j)...)
}

// events tell a leg that has ended, without what it used: this run spends nothing
// on it.
func (t *takeover) events(j *journal.JobState) []event.Event {
	from := t.from(j)
	free := func(o event.Outcome) *event.Outcome {
		o.Usage = nil
		return &o
	}
	list := []event.Event{{Type: event.JobStarted, Job: j.ID, Name: j.Name, From: from}}
	for _, s := range j.Steps {
		if s.Outcome == nil {
			continue
		}
		if s.Condition != "" {
			list = append(list, event.Event{Type: event.Condition, Job: j.ID, Step: s.ID, Text: s.Condition, From: from})
		}
		info := s.Info
		list = append(list, event.Event{Type: event.StepFinished, Job: j.ID, Step: s.ID, Attempt: s.Attempts, Name: s.Name, StepInfo: &info, Outcome: free(*s.Outcome), From: from})
	}
	return append(list, event.Event{Type: event.JobFinished, Job: j.ID, Outcome: free(*j.Outcome), From: from})
}

// from is the run in which a leg has run.
func (t *takeover) from(j *journal.JobState) string {
	if j.From != "" {
		return j.From
	}
	return t.state.ID
}

// sessions has jobs run again with whose sessions steps of others go on that run
// again, and says whether there were any more of them.
func (t *takeover) sessions() (more bool) {
	for gate, whole := range t.whole {
		if whole {
			continue
		}
		prefix := strings.TrimSuffix(gate.ID, gate.Job.ID)
		for _, s := range gate.Job.Steps {
			source := workflow.SessionOf(s).Job
			if source == "" {
				continue
			}
			for job, legs := range t.taken {
				if !strings.EqualFold(job, prefix+source) {
					continue
				}
				for leg := range legs {
					t.again[leg] = fmt.Sprintf("%s/%s goes on with a session of it", gate.ID, s.ID)
					more = true
				}
			}
		}
	}
	return more
}

// unfit says why a leg that has succeeded cannot be taken over; empty where it can.
func unfit(ctx context.Context, dir string, j *journal.JobState) string {
	if names := j.Outcome.Withheld; len(names) > 0 {
		return "the record does not keep what holds a secret: " + strings.Join(names, ", ")
	}
	for _, w := range j.Outcome.Work {
		if !workspace.HasCommit(ctx, dir, w.Commit) {
			return "its work is no longer in the repository, branch " + w.Branch
		}
	}
	return ""
}

// takeOver finds what of the earlier run is taken over.
func (e *earlier) takeOver(ctx context.Context, p *prepared) error {
	if e == nil || !e.failed {
		return nil
	}
	if e.state.Status == journal.Success {
		return problem("run %s has succeeded: nothing of it failed; without --failed all of it runs again", e.state.ID)
	}
	t := newTakeover(e.state)
	for _, j := range e.state.Jobs {
		if j.Status == journal.Success && j.Outcome != nil {
			t.again[j.ID] = unfit(ctx, p.dir, j)
		}
	}
	t.decide(p.plan)
	for t.sessions() {
		t.decide(p.plan)
	}
	for _, j := range e.state.Jobs {
		if why := t.again[j.ID]; why != "" {
			e.notes = append(e.notes, fmt.Sprintf("job %s has succeeded in run %s and runs again: %s", j.ID, t.from(j), why))
		}
	}
	e.taken = t.taken
	if e.present {
		return e.compare(p, t)
	}
	return nil
}

// compare refuses to take over what the workflow of the project has made something
// else.
func (e *earlier) compare(p *prepared, t *takeover) error {
	was, problems, err := e.recorded(p.dir, e.changed(p.dir))
	if err != nil {
		return err
	}
	plan, _ := workflow.NewPlan(was, e.given.Job)
	if plan == nil || workflow.HasErrors(problems) {
		return problem("the workflow of run %s cannot be compared with that of the project; without --failed all of it runs again", e.state.ID)
	}
	t.decide(plan)
	now := map[string]*workflow.Job{}
	for _, job := range p.plannedJobs() {
		now[strings.ToLower(job.ID)] = job
	}
	for _, gate := range plan.Nodes {
		if gate.Kind != workflow.JobGate || len(t.taken[gate.ID]) == 0 {
			continue
		}
		switch job := now[strings.ToLower(gate.Job.ID)]; {
		case job == nil:
			return problem("job %s has succeeded in run %s, and the workflow of the project has no such job; without --failed all of it runs again", gate.Job.ID, e.state.ID)
		case outputsOf(job) != outputsOf(gate.Job):
			return problem("job %s has succeeded in run %s with other outputs than the workflow of the project gives it; without --failed all of it runs again", gate.Job.ID, e.state.ID)
		}
	}
	return nil
}

// outputsOf is what a job's outputs are made of, to be compared.
func outputsOf(job *workflow.Job) string {
	var b strings.Builder
	if job.Outputs != nil {
		for _, e := range job.Outputs.Entries {
			fmt.Fprintf(&b, "%q: %q\n", e.Key.Text, e.Value.Text)
		}
	}
	if job.Called != nil && job.Called.Call != nil {
		for _, o := range job.Called.Call.Outputs {
			fmt.Fprintf(&b, "%q: %q\n", o.Name.Value, o.Value.Text)
		}
	}
	return b.String()
}
