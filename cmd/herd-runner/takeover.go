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
	state  journal.RunState
	legs   map[string]*journal.JobState   // by id
	ofJob  map[string][]*journal.JobState // by the id of the job
	again  map[string]string              // legs that run again all the same, and why
	chosen map[string]string              // legs that are to run again, and the step that they go on at; empty: the first

	taken map[string]map[string]steps.EarlierLeg
	whole map[*workflow.Node]bool // by gate: all of the job is taken over
}

func newTakeover(state journal.RunState) *takeover {
	t := &takeover{state: state, legs: map[string]*journal.JobState{}, ofJob: map[string][]*journal.JobState{}, again: map[string]string{}, chosen: map[string]string{}}
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
	for _, j := range t.planned(plan) {
		gates[j.gate.Job], legs[j.gate.Job] = j.gate, j.legs
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
		t.whole[gate] = stands && t.job(gate, legs[gate.Job])
		return t.whole[gate]
	}
	for _, n := range plan.Nodes {
		if n.Kind == workflow.JobGate {
			visit(n)
		}
	}
}

// done finds the jobs none of whose legs will run, and the steps of others that no
// leg will: a matrix that is known only when it runs may have another leg this time,
// and then what needs it runs as well.
func (t *takeover) done(plan *workflow.Plan) (map[*workflow.Job]bool, map[*workflow.Step]bool) {
	jobs, ofJob := map[*workflow.Job]bool{}, map[*workflow.Step]bool{}
	gates := map[*workflow.Job]*workflow.Node{}
	planned := t.planned(plan)
	for _, j := range planned {
		gates[j.gate.Job] = j.gate
	}
	var done func(gate *workflow.Node) bool
	stands := func(gate *workflow.Node) bool {
		all := !slices.Contains(plan.Dynamic, gate)
		for _, need := range gate.Needs {
			all = done(gates[need.Job]) && all
		}
		return all
	}
	done = func(gate *workflow.Node) bool {
		if _, known := jobs[gate.Job]; !known {
			jobs[gate.Job] = stands(gate) && t.whole[gate]
		}
		return jobs[gate.Job]
	}
	for _, j := range planned {
		if done(j.gate) || !stands(j.gate) {
			continue
		}
		for _, s := range j.gate.Job.Steps {
			ofJob[s] = !slices.ContainsFunc(j.legs, func(leg *workflow.Leg) bool { return t.taken[j.gate.ID][leg.ID].Steps[s.ID] == nil })
		}
	}
	return jobs, ofJob
}

// plannedJob is a job of a plan with its legs; those of a dynamic matrix are the
// ones that the run had.
type plannedJob struct {
	gate *workflow.Node
	legs []*workflow.Leg
}

func (t *takeover) planned(plan *workflow.Plan) []plannedJob {
	var jobs []plannedJob
	at := map[*workflow.Job]int{}
	for _, n := range plan.Nodes {
		switch n.Kind {
		case workflow.JobGate:
			at[n.Job] = len(jobs)
			j := plannedJob{gate: n}
			if slices.Contains(plan.Dynamic, n) {
				for _, had := range t.ofJob[n.ID] {
					j.legs = append(j.legs, &workflow.Leg{Job: n.Job, ID: had.ID})
				}
			}
			jobs = append(jobs, j)
		case workflow.LegEnd:
			j := &jobs[at[n.Job]]
			j.legs = append(j.legs, n.Leg)
		}
	}
	return jobs
}

// job takes over what it can of a job whose needs stand, and says whether that is
// all of it.
func (t *takeover) job(gate *workflow.Node, legs []*workflow.Leg) bool {
	whole := len(legs) > 0
	take := func(leg string, earlier steps.EarlierLeg) {
		if t.taken[gate.ID] == nil {
			t.taken[gate.ID] = map[string]steps.EarlierLeg{}
		}
		t.taken[gate.ID][leg] = earlier
	}
	for _, leg := range legs {
		j := t.legs[leg.ID]
		step, chosen := t.chosen[leg.ID]
		if j != nil && j.Status == journal.Success && j.Outcome != nil && t.again[j.ID] == "" && !chosen && !t.chosenIn(leg.ID) {
			take(leg.ID, steps.EarlierLeg{Ended: t.tell(gate.Job, j)})
			continue
		}
		whole = false
		switch {
		case step != "":
			if before := t.before(j, gate.Job, step); len(before) > 0 {
				take(leg.ID, steps.EarlierLeg{Steps: before})
			}
		case gate.Job.Called != nil && !chosen:
			if called, _ := workflow.CalledPlan(leg); called != nil {
				t.jobs(called)
			}
		}
	}
	return whole
}

// chosenIn says whether something was chosen in the workflow that a leg calls.
func (t *takeover) chosenIn(leg string) bool {
	for chosen := range t.chosen {
		if strings.HasPrefix(chosen, leg+workflow.CallSeparator) {
			return true
		}
	}
	return false
}

// tell gives the events of a leg and of those that it called.
func (t *takeover) tell(job *workflow.Job, j *journal.JobState) []event.Event {
	if job.Called == nil {
		return t.leg(j)
	}
	var told []event.Event
	for _, inner := range t.state.Jobs {
		if strings.HasPrefix(inner.ID, j.ID+workflow.CallSeparator) && inner.Outcome != nil {
			told = append(told, t.leg(inner)...)
		}
	}
	return append(told, t.leg(j)...)
}

// leg tells a leg that has ended.
func (t *takeover) leg(j *journal.JobState) []event.Event {
	from := t.from(j)
	list := []event.Event{{Type: event.JobStarted, Job: j.ID, Name: j.Name, From: from}}
	for _, s := range j.Steps {
		list = append(list, t.step(s, from)...)
	}
	return append(list, event.Event{Type: event.JobFinished, Job: j.ID, Outcome: free(*j.Outcome), From: from})
}

// step tells a step that has ended.
func (t *takeover) step(s *journal.StepState, from string) []event.Event {
	if s.Outcome == nil {
		return nil
	}
	if s.From != "" {
		from = s.From
	}
	var list []event.Event
	if s.Condition != "" {
		list = append(list, event.Event{Type: event.Condition, Job: s.Job, Step: s.ID, Text: s.Condition, From: from})
	}
	info := s.Info
	return append(list, event.Event{Type: event.StepFinished, Job: s.Job, Step: s.ID, Attempt: s.Attempts, Name: s.Name, StepInfo: &info, Outcome: free(*s.Outcome), From: from})
}

// free is an outcome without what it used: this run spends nothing on it.
func free(o event.Outcome) *event.Outcome {
	o.Usage = nil
	return &o
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
	if e == nil || !e.failed && e.from == "" {
		return nil
	}
	if e.failed && e.state.Status == journal.Success {
		return problem("run %s has succeeded: nothing of it failed; without --failed all of it runs again", e.state.ID)
	}
	t := newTakeover(e.state)
	for _, j := range e.state.Jobs {
		if j.Status == journal.Success && j.Outcome != nil {
			t.again[j.ID] = unfit(ctx, p.dir, j)
		}
	}
	if e.from != "" {
		if err := t.choose(p, e.from); err != nil {
			return err
		}
	}
	t.decide(p.plan)
	for t.sessions() {
		t.decide(p.plan)
	}
	for _, j := range e.state.Jobs {
		if _, chosen := t.chosen[j.ID]; !chosen && t.again[j.ID] != "" {
			e.notes = append(e.notes, fmt.Sprintf("job %s has succeeded in run %s and runs again: %s", j.ID, t.from(j), t.again[j.ID]))
		}
	}
	if leg := t.cutShort(); leg != "" {
		return problem("--from %s: what %s needs has not succeeded, or runs again, so that all of it does; --from %s says so", e.from, leg, leg)
	}
	for _, leg := range sortedKeys(t.chosen) {
		if t.goesOn(leg) {
			e.notes = append(e.notes, fmt.Sprintf("%s goes on at %s, without what the steps before it left in HOME and RUNNER_TEMP", leg, t.chosen[leg]))
		}
	}
	e.taken = t.taken
	e.done, e.doneSteps = t.done(p.plan)
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
	for _, j := range t.planned(p.plan) {
		now[strings.ToLower(j.gate.Job.ID)] = j.gate.Job
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
