package steps

import (
	"maps"
	"slices"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/workflow"
)

// EarlierLeg is a leg that an earlier run has come to the end of: the events that
// tell it, those of a workflow that it called included. The last is its own
// JobFinished.
type EarlierLeg []event.Event

func (l EarlierLeg) outcome() *event.Outcome { return l[len(l)-1].Outcome }

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

// isEarlier says whether a leg may be taken over, before its gate has said so.
func (r *run) isEarlier(leg *workflow.Leg) bool {
	return r.Earlier[r.prefix+leg.Job.ID][leg.ID] != nil
}

// passesOver says whether a node has nothing to do: its job does not run, or its
// leg has been run before.
func (r *run) passesOver(n *workflow.Node) bool {
	switch n.Kind {
	case workflow.StepNode, workflow.LegStart, workflow.CallNode:
		return r.jobs[n.Job.ID].skip != "" || r.leg(n.Leg).earlier != nil
	}
	return false
}

// takeOver ends a leg as it ended in the earlier run.
func (r *run) takeOver(st *jobState, l *legState) {
	out := l.earlier.outcome()
	l.result = out.Conclusion
	for _, name := range outputOrder(l.leg.Job, out.Outputs) {
		l.outputs.Set(name, out.Outputs[name])
	}
	for _, w := range out.Work {
		l.works = append(l.works, Work{Name: w.Name, Branch: w.Branch, Commit: w.Commit, Changed: w.Changed})
	}
	for _, e := range l.earlier {
		r.emit(e)
	}
	st.mu.Lock()
	st.legs = append(st.legs, l)
	st.mu.Unlock()
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
