package steps

import (
	"slices"
	"sync"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// Results, in GitHub's words.
const (
	resultSuccess   = "success"
	resultFailure   = "failure"
	resultCancelled = "cancelled"
	resultSkipped   = "skipped"
)

// jobState is what is known of a job while and after it runs. Its fields are
// written by the job's own nodes and read by nodes that wait for them.
type jobState struct {
	job     *workflow.Job
	skip    string // result when the gate let nothing run: skipped, failure, cancelled
	result  string // after JobEnd
	outputs *expr.Object
	matrix  *expr.Array // {matrix, result, outputs} of every leg, in order
	usage   event.Usage
	// earlier are its legs that are taken over, by their ids; set by its gate.
	earlier     map[string]EarlierLeg
	takenOver   bool // all of them are
	maxParallel int  // strategy.max-parallel; 0: no limit
	failFast    bool

	// ancestors' results, this job's own included, for the jobs that need it.
	anyFailed, allSucceeded bool
	infrastructure          bool

	mu   sync.Mutex
	legs []*legState // in the order they ended

	// endures is what the job's condition says of a cancelled run; askedOnce
	// guards it.
	endures   bool
	askedOnce sync.Once

	// stop is closed when fail-fast cancels the legs still alive.
	stop     chan struct{}
	stopOnce sync.Once
}

func newJobState(job *workflow.Job) *jobState {
	return &jobState{job: job, outputs: expr.NewObject(), matrix: &expr.Array{}, stop: make(chan struct{})}
}

// failFastAfter cancels the siblings of a failed leg.
func (st *jobState) failFastAfter(l *legState) {
	if l.result == resultFailure && st.failFast && l.leg.Total > 1 {
		st.stopOnce.Do(func() { close(st.stop) })
	}
}

// status is what the status functions say of a job's ancestors or of a leg's
// earlier steps.
type status struct{ success, failure, cancelled bool }

// ancestry joins the ancestors' results of a job (SEMANTICS 6).
func (r *run) ancestry(job *workflow.Job) status {
	s := status{success: true, cancelled: r.isCancelled()}
	for _, need := range job.Needs {
		st := r.job(need.Value)
		s.success = s.success && st.allSucceeded
		s.failure = s.failure || st.anyFailed
	}
	s.success = s.success && !s.cancelled
	return s
}

// runGate decides whether a job runs, and expands its matrix where that is
// known only now.
func (r *run) runGate(n *workflow.Node) []*workflow.Node {
	job, st := n.Job, r.jobs[n.Job.ID]
	sc := &scope{run: r, job: job, status: r.ancestry(job)}
	if st.earlier = r.takesOver(job); st.earlier != nil {
		r.emit(event.Event{Type: event.Condition, Job: r.prefix + job.ID, From: r.Info.RerunOf})
	} else {
		ok, err := r.decideJob(n, sc)
		switch {
		case err != nil:
			r.failJob(n, "if", err)
			return nil
		case !ok:
			st.skip = resultSkipped
			if sc.status.cancelled {
				st.skip = resultCancelled
			}
			return nil
		}
	}
	if err := r.readStrategy(sc, st); err != nil {
		r.failJob(n, "strategy", err)
		return nil
	}
	if job.Strategy == nil || !r.isDynamic(n) {
		return nil
	}
	matrix, err := workflow.Evaluate(job.Strategy.Matrix, sc.env())
	if err != nil {
		r.failJob(n, "strategy.matrix", err)
		return nil
	}
	r.legsMu.Lock()
	defer r.legsMu.Unlock()
	nodes, err := r.Plan.Expand(n, matrix)
	if err != nil {
		r.failJob(n, "strategy.matrix", err)
		return nil
	}
	return nodes
}

func (r *run) isDynamic(gate *workflow.Node) bool {
	r.legsMu.Lock()
	defer r.legsMu.Unlock()
	for _, d := range r.Plan.Dynamic {
		if d == gate {
			return true
		}
	}
	return false
}

func (r *run) readStrategy(sc *scope, st *jobState) error {
	st.failFast = true
	s := st.job.Strategy
	if s == nil {
		return nil
	}
	if s.FailFast != nil {
		v, err := workflow.EvalBool(s.FailFast, sc.env())
		if err != nil {
			return err
		}
		st.failFast = v
	}
	var err error
	st.maxParallel, err = workflow.EvalMaxParallel(s.MaxParallel, sc.env())
	return err
}

// failJob ends a job whose gate can not be evaluated: it fails, it is never
// silently skipped (SEMANTICS 5).
func (r *run) failJob(n *workflow.Node, what string, err error) {
	r.jobs[n.Job.ID].skip = resultFailure
	r.note(n, "error", "job "+r.prefix+n.Job.ID+": "+what+": "+err.Error(), err)
}

// endJob joins a job's legs into its result and outputs.
func (r *run) endJob(n *workflow.Node) {
	st := r.jobs[n.Job.ID]
	st.result = st.skip
	if st.result == "" {
		st.result = joinLegs(st.legs)
	}
	for _, l := range st.legs {
		for _, k := range l.outputs.Keys() {
			v, _ := l.outputs.Get(k)
			if old, ok := st.outputs.Get(k); ok && expr.String(v) == "" && expr.String(old) != "" {
				continue
			}
			st.outputs.Set(k, v)
		}
		st.usage = st.usage.Add(l.usage)
		st.infrastructure = st.infrastructure || l.infrastructure
	}
	st.matrix = matrixOf(st.legs)
	st.takenOver = len(st.legs) > 0 && !slices.ContainsFunc(st.legs, func(l *legState) bool { return l.earlier.Ended == nil })
	before := r.ancestry(n.Job)
	st.allSucceeded = st.result == resultSuccess
	st.anyFailed = st.result == resultFailure || before.failure
	for _, need := range n.Job.Needs {
		st.allSucceeded = st.allSucceeded && r.job(need.Value).allSucceeded
	}
	if st.skip != "" {
		r.emit(event.Event{Type: event.JobFinished, Job: r.prefix + n.Job.ID, Outcome: &event.Outcome{Outcome: st.skip, Conclusion: st.skip}})
	}
}

// matrixOf is needs.<job>.matrix: what became of every leg.
func matrixOf(legs []*legState) *expr.Array {
	list := &expr.Array{}
	for _, l := range orderedLegs(legs) {
		o := expr.NewObject()
		o.Set("matrix", l.leg.Matrix)
		if l.leg.Matrix == nil {
			o.Set("matrix", nil)
		}
		o.Set("result", l.result)
		o.Set("outputs", l.outputs)
		list.Items = append(list.Items, o)
	}
	return list
}

// orderedLegs sorts legs as the plan has them.
func orderedLegs(legs []*legState) []*legState {
	ordered := slices.Clone(legs)
	slices.SortFunc(ordered, func(a, b *legState) int { return a.leg.Index - b.leg.Index })
	return ordered
}

// joinLegs: one failed leg fails the job; else one cancelled cancels it; where
// all were skipped so is the job.
func joinLegs(legs []*legState) string {
	result := resultSuccess
	if len(legs) > 0 && !slices.ContainsFunc(legs, func(l *legState) bool { return l.result != resultSkipped }) {
		result = resultSkipped
	}
	for _, l := range legs {
		switch l.result {
		case resultFailure:
			return resultFailure
		case resultCancelled:
			result = resultCancelled
		}
	}
	return result
}

// note tells the person about something at a node's place in the file.
func (r *run) note(n *workflow.Node, level, message string, err error) {
	note := event.Note{Level: level, Message: message, Hint: event.HintOf(err), File: r.Plan.Workflow.File, Line: n.Job.Pos.Line, Column: n.Job.Pos.Column}
	if n.Step != nil {
		note.File, note.Line, note.Column = n.Step.File, n.Step.Pos.Line, n.Step.Pos.Column
	}
	if at := placeInFile(err); at != nil {
		note.Line, note.Column, note.Hint = at.Pos.Line, at.Pos.Column, at.Hint
		if at.File != "" {
			note.File = at.File
		}
	}
	e := event.Event{Type: event.Notice, Job: r.prefix + n.Job.ID, Note: &note}
	if n.Leg != nil {
		e.Job = n.Leg.ID
	}
	if n.Step != nil {
		e.Step = n.Step.ID
	}
	r.emit(e)
}

// nodePanicked makes a panic of ours the failure of the node it happened in.
func (r *run) nodePanicked(n *workflow.Node, trace string) {
	message := "internal error, please report it: " + trace
	st := r.jobs[n.Job.ID]
	if n.Leg == nil {
		r.note(n, "error", message, nil)
		st.skip, st.result = resultFailure, resultFailure
		st.infrastructure, st.anyFailed, st.allSucceeded = true, true, false
		return
	}
	l := r.leg(n.Leg)
	l.mu.Lock()
	l.failed, l.infrastructure = true, true
	l.mu.Unlock()
	switch n.Kind {
	case workflow.LegStart:
		r.note(n, "error", message, nil)
		l.skip = resultFailure
		return
	case workflow.CallNode:
		r.note(n, "error", message, nil)
		return
	}
	if n.Kind == workflow.StepNode {
		r.emit(event.Event{Type: event.StepFinished, Job: l.leg.ID, Step: n.Step.ID, Name: n.Step.ID, Outcome: &event.Outcome{
			Outcome: resultFailure, Conclusion: resultFailure, Cause: event.CauseInfrastructure, Message: message,
		}})
		return
	}
	r.note(n, "error", message, nil)
	l.result = resultFailure
	st.mu.Lock()
	st.legs = append(st.legs, l)
	st.mu.Unlock()
}
