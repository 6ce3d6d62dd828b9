package steps

import (
	"maps"
	"slices"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/steps/command"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// EarlierLeg is what an earlier run has done of a leg, as the events that tell it.
type EarlierLeg struct {
	// Ended are of a leg that has come to its end, those of a workflow that it
	// called included; the last is its own JobFinished.
	Ended []event.Event
	// Steps are of a leg that goes on, by the id of the step; the last of each is
	// its StepFinished.
	Steps map[string][]event.Event
}

// takesOver gives the legs of a job that are taken over from an earlier run. A job
// of which something it needs has run again runs again itself.
func (r *run) takesOver(job *workflow.Job) map[string]EarlierLeg {
	legs := r.Earlier[r.prefix+job.ID]
	if len(legs) == 0 || !r.stands(job) {
		return nil
	}
	return legs
}

// stands says whether all that a job needs was taken over from an earlier run.
func (r *run) stands(job *workflow.Job) bool {
	return !slices.ContainsFunc(job.Needs, func(need workflow.Name) bool { return !r.job(need.Value).takenOver })
}

// isEarlier says whether a step may be taken over, before the gate of its job has
// said so.
func (r *run) isEarlier(n *workflow.Node) bool {
	earlier := r.Earlier[r.prefix+n.Job.ID][n.Leg.ID]
	return earlier.Ended != nil || earlier.Steps[n.Step.ID] != nil
}

// passesOver says whether a node has nothing to do: its job does not run, or its
// leg has been run before.
func (r *run) passesOver(n *workflow.Node) bool {
	switch n.Kind {
	case workflow.StepNode, workflow.LegStart, workflow.CallNode:
		return r.jobs[n.Job.ID].skip != "" || r.leg(n.Leg).earlier.Ended != nil
	}
	return false
}

// takeOver ends a leg as it ended in the earlier run.
func (r *run) takeOver(st *jobState, l *legState) {
	told := l.earlier.Ended
	out := told[len(told)-1].Outcome
	l.result = out.Conclusion
	for _, name := range outputOrder(l.leg.Job, out.Outputs) {
		l.outputs.Set(name, out.Outputs[name])
	}
	for _, w := range out.Work {
		l.works = append(l.works, Work{Name: w.Name, Branch: w.Branch, Commit: w.Commit, Changed: w.Changed})
	}
	for _, e := range told {
		r.emit(e)
	}
	st.mu.Lock()
	st.legs = append(st.legs, l)
	st.mu.Unlock()
}

// takeOver ends a step as it ended in the earlier run: what comes after it sees
// what it saw then.
func (s *stepRun) takeOver(told []event.Event) {
	out := *told[len(told)-1].Outcome
	for _, name := range slices.Sorted(maps.Keys(out.Outputs)) {
		s.outputs.Set(name, out.Outputs[name])
	}
	if v, err := expr.FromJSON([]byte(out.Outputs["structured"])); err == nil && s.step.IsAgent() {
		switch v.(type) {
		case *expr.Array, *expr.Object:
			s.outputs.Set("structured", v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(out.Env)) {
		s.effects.env = append(s.effects.env, command.Pair{Key: name, Value: out.Env[name]})
	}
	s.effects.path = out.Path
	s.effects.failed, s.effects.message = out.Conclusion == resultFailure, out.Message
	s.publish(out)
	for _, e := range told {
		s.run.emit(e)
	}
}

// outputOrder lists the names of outputs as the job sets them, and then the others.
func outputOrder(job *workflow.Job, outputs map[string]string) []string {
	var declared []string
	if job.Outputs != nil {
		for _, e := range job.Outputs.Entries {
			declared = append(declared, e.Key.Text)
		}
	}
	if job.Called != nil && job.Called.Call != nil {
		for _, o := range job.Called.Call.Outputs {
			declared = append(declared, o.Name.Value)
		}
	}
	var order []string
	for _, name := range slices.Concat(declared, slices.Sorted(maps.Keys(outputs))) {
		if _, ok := outputs[name]; ok && !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	return order
}

// told gives what was done in isolated workspaces as the journal tells it.
func told(works []Work) []event.Work {
	var list []event.Work
	for _, w := range works {
		list = append(list, event.Work{Name: w.Name, Branch: w.Branch, Commit: w.Commit, Changed: w.Changed})
	}
	return list
}
