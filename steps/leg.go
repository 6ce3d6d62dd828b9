package steps

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/steps/command"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// defaultJobTimeout is GitHub's.
const defaultJobTimeout = 360 * time.Minute

// cleanupTime is how long the always() and cancelled() steps of a cancelled leg
// may take altogether; GitHub's cancel timeout.
const cleanupTime = 5 * time.Minute

// legState is one leg while it runs. Steps of a leg may run at the same time: mu
// guards what is below it.
type legState struct {
	leg     *workflow.Leg
	index   int // 1-based order of starting, for directory names
	start   time.Time
	once    sync.Once // for begin
	expired chan struct{}
	expiry  sync.Once     // for expire
	why     string        // of expired; set before it is closed
	timer   *time.Timer   // ends the leg at the job's timeout
	budgets []BudgetLevel // nearest first
	group   string        // its concurrency group; empty: it has none
	leave   func()        // gives its concurrency group up; nil: it has none
	earlier EarlierLeg    // what is taken over of it
	skip    string        // result when it never started: a cancel or its concurrency group came first
	broken  error         // the leg's own env or timeout could not be evaluated
	result  string        // after LegEnd
	outputs *expr.Object

	background map[string]*backgroundRun // by step id
	slots      chan struct{}             // bounds background scripts

	mu             sync.Mutex
	view           view
	failed         bool // a step failed without continue-on-error
	cancelHit      bool // a step was stopped or skipped by a cancel
	idle           bool // every job of the workflow that it calls was skipped
	infrastructure bool
	usage          event.Usage
	places         map[string]*place      // by their id
	sessions       map[string]keptSession // by step id in lower case
	works          []Work                 // done in isolated workspaces that are closed
	cleanupAt      time.Time              // when the leg's clean-up steps must end; zero: not cancelled yet

	boxes legBoxes
}

// view is what a step sees of the steps before it. A view is not changed while
// a step holds it.
type view struct {
	steps *expr.Object // the steps context
	// env holds workflow, job and GITHUB_ENV variables; path the additions of
	// GITHUB_PATH, newest first.
	env  map[string]string
	path []string
}

// leg gives the state of a leg, made at its first use.
func (r *run) leg(leg *workflow.Leg) *legState {
	r.legsMu.Lock()
	defer r.legsMu.Unlock()
	l := r.legs[leg]
	if l == nil {
		l = &legState{
			leg: leg, index: len(r.legs) + 1, earlier: r.jobs[leg.Job.ID].earlier[leg.ID], outputs: expr.NewObject(), expired: make(chan struct{}),
			view: view{steps: expr.NewObject(), env: map[string]string{}},
		}
		if leg.Job.IsConcurrent() {
			l.background = newBackground(leg.Job)
			l.slots = make(chan struct{}, maxBackground)
		}
		r.legs[leg] = l
	}
	return l
}

// begin starts a leg at its first step: its environment is evaluated and its
// clock starts.
func (r *run) begin(n *workflow.Node, l *legState) {
	l.start = r.Now()
	sc := &scope{run: r, job: n.Job, leg: l, view: l.view}
	name := l.leg.ID
	if n.Job.Name != nil {
		if s, err := workflow.EvalString(n.Job.Name, sc.env()); err == nil && s != "" {
			name = s
		}
	}
	r.emit(event.Event{Type: event.JobStarted, Job: l.leg.ID, Name: name})

	timeout := defaultJobTimeout
	l.budgets = r.Budgets
	err := func() (err error) {
		for _, block := range []*workflow.Value{r.Plan.Workflow.Env, n.Job.Env} {
			vars, err := evalEnv(block, sc)
			if err != nil {
				return err
			}
			maps.Copy(l.view.env, vars)
		}
		eval := func(v *workflow.Value) (expr.Value, error) { return workflow.Evaluate(v, sc.env()) }
		if l.budgets, err = within(r.Budgets, n.Job.Budget, eval, "job "+l.leg.ID, fmt.Sprintf("job %q", l.leg.ID)); err != nil {
			return err
		}
		if n.Job.TimeoutMinutes != nil {
			minutes, err := workflow.EvalTimeout(n.Job.TimeoutMinutes, sc.env())
			if err != nil {
				return err
			}
			timeout = time.Duration(minutes * float64(time.Minute))
		}
		return nil
	}()
	if err != nil {
		l.broken, l.failed = err, true
		r.note(n, "error", "job "+l.leg.ID+": "+err.Error(), err)
	}
	if n.Kind == workflow.CallNode {
		return // the jobs it calls have timeouts of their own
	}
	l.timer = time.AfterFunc(timeout, func() { l.expire("the job's timeout-minutes were over") })
}

// beginOnce begins the leg at its first step. One that is cancelled before that
// never starts: none of its steps runs, also no always() one.
func (r *run) beginOnce(n *workflow.Node, l *legState) (started bool) {
	l.once.Do(func() {
		if l.skip == "" && r.cancelReason(l) != "" {
			l.skip = resultCancelled
		}
		if l.skip == "" {
			r.begin(n, l)
		}
	})
	return l.skip == ""
}

// expire cancels the leg alone.
func (l *legState) expire(why string) {
	l.expiry.Do(func() {
		l.why = why
		close(l.expired)
	})
}

// now gives what a step that starts now sees.
func (l *legState) now() view {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view
}

// effects are what an ended step changes for the steps after it.
type effects struct {
	step    *workflow.Step
	record  *expr.Object // its entry in the steps context
	env     []command.Pair
	path    []string // in the order they were written
	failed  bool     // its conclusion is failure
	message string   // why it failed

	cancelHit, infrastructure bool
}

// apply makes the effects of a step seen.
func (l *legState) apply(e effects) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = l.failed || e.failed
	l.cancelHit = l.cancelHit || e.cancelHit
	l.infrastructure = l.infrastructure || e.infrastructure
	if e.step.Declared {
		if l.background != nil { // another step may be reading it
			l.view.steps = clone(l.view.steps)
		}
		l.view.steps.Set(e.step.ID, e.record)
	}
	if len(e.env) > 0 {
		l.view.env = maps.Clone(l.view.env)
		for _, p := range e.env {
			l.view.env[p.Key] = p.Value
		}
	}
	for _, p := range e.path {
		l.view.path = append([]string{p}, l.view.path...)
	}
}

func clone(o *expr.Object) *expr.Object {
	c := expr.NewObject()
	for _, k := range o.Keys() {
		v, _ := o.Get(k)
		c.Set(k, v)
	}
	return c
}

// spend adds to the leg's usage.
func (l *legState) spend(u event.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.usage = l.usage.Add(u)
}

// cleanup gives the time by which a cancelled leg's steps must end; the first
// step that starts after the cancel sets it.
func (l *legState) cleanup(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cleanupAt.IsZero() {
		l.cleanupAt = now.Add(cleanupTime)
	}
	return l.cleanupAt
}

// cancelReason says why the leg is cancelled, empty while it is not.
func (r *run) cancelReason(l *legState) string {
	if r.isCancelled() && !r.endures(l.leg.Job) {
		return r.why
	}
	select {
	case <-r.jobs[l.leg.Job.ID].stop:
		return "another job of the matrix failed (strategy.fail-fast)"
	case <-l.expired:
		return l.why
	default:
		return ""
	}
}

// endures says whether a job goes on although the run is cancelled: as at
// GitHub, where its own condition still holds, such as always().
func (r *run) endures(job *workflow.Job) bool {
	st := r.jobs[job.ID]
	st.askedOnce.Do(func() {
		if job.If == nil {
			return
		}
		sc := &scope{run: r, job: job, status: r.ancestry(job)}
		ok, err := workflow.Condition(job.If, sc.env())
		st.endures = ok && err == nil
	})
	return st.endures
}

// status is what a leg's status functions say (SEMANTICS 1, 8).
func (r *run) status(l *legState) status {
	cancelled := r.cancelReason(l) != ""
	l.mu.Lock()
	defer l.mu.Unlock()
	return status{success: !l.failed && !cancelled, failure: l.failed && !cancelled, cancelled: cancelled}
}

// endLeg evaluates outputs, decides the leg's result and lets its boxes go.
func (r *run) endLeg(ctx context.Context, n *workflow.Node) {
	st := r.jobs[n.Job.ID]
	if st.skip != "" {
		return
	}
	l := r.leg(n.Leg)
	if l.earlier.Ended != nil {
		r.takeOver(st, l)
		return
	}
	if l.leave != nil {
		defer l.leave()
	}
	if l.skip != "" {
		r.endUnstarted(st, l)
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.joinAll() // the implicit wait-all
	l.boxes.closeAll(ctx, r)
	r.closePlaces(ctx, n, l)
	outcome := resultSuccess
	switch {
	case l.cancelHit:
		outcome = resultCancelled
	case l.failed:
		outcome = resultFailure
	case l.idle:
		outcome = resultSkipped
	}
	sc := &scope{run: r, job: n.Job, leg: l, view: l.now(), status: status{success: outcome == resultSuccess, failure: outcome == resultFailure, cancelled: outcome == resultCancelled}}
	r.evalOutputs(n, l, sc)

	l.result = outcome
	if outcome == resultFailure && n.Job.ContinueOnError != nil {
		tolerated, err := workflow.EvalBool(n.Job.ContinueOnError, sc.env())
		if err != nil {
			r.note(n, "error", "continue-on-error: "+err.Error(), err)
		}
		if tolerated {
			l.result = resultSuccess
		}
	}
	st.mu.Lock()
	st.legs = append(st.legs, l)
	st.mu.Unlock()
	st.failFastAfter(l)
	out := event.Outcome{Outcome: outcome, Conclusion: l.result, Outputs: stringMap(l.outputs), Work: told(l.works), DurationMS: r.Now().Sub(l.start).Milliseconds()}
	if outcome == resultCancelled {
		out.Cause, out.Message = event.CauseCancelled, r.cancelReason(l)
	}
	if l.usage.Requests > 0 {
		out.Usage = &l.usage
	}
	r.emit(event.Event{Type: event.JobFinished, Job: l.leg.ID, Outcome: &out})
}

// closePlaces brings back the work of the workspaces that the leg's steps share.
func (r *run) closePlaces(ctx context.Context, n *workflow.Node, l *legState) {
	for _, id := range slices.Sorted(maps.Keys(l.places)) {
		if err := r.closePlace(ctx, n, l, l.places[id], l.outputs, !l.failed && !l.cancelHit); err != nil {
			r.note(n, "error", err.Error(), nil)
			l.failed, l.infrastructure = true, true
		}
	}
}

// evalOutputs fills the leg's outputs; one that holds a secret is dropped
// (SEMANTICS 31).
func (r *run) evalOutputs(n *workflow.Node, l *legState, sc *scope) {
	if n.Job.Outputs == nil {
		return
	}
	for _, e := range n.Job.Outputs.Entries {
		given := expr.NewObject()
		if err := e.EvaluateInto(given, sc.env()); err != nil {
			r.note(n, "error", "output "+e.Key.Text+": "+err.Error(), err)
			l.failed = true
			continue
		}
		for _, name := range given.Keys() {
			value, _ := given.Get(name)
			v := outputString(value)
			if r.Masker.Contains(v) {
				r.note(n, "warning", "output "+name+" was dropped: it holds a secret", nil)
				continue
			}
			l.outputs.Set(name, v)
		}
	}
}

func stringMap(o *expr.Object) map[string]string {
	if o.Len() == 0 {
		return nil
	}
	m := make(map[string]string, o.Len())
	for _, k := range o.Keys() {
		v, _ := o.Get(k)
		m[k] = outputString(v)
	}
	return m
}

// evalEnv evaluates an env: mapping.
func evalEnv(block *workflow.Value, sc *scope) (map[string]string, error) {
	if block == nil {
		return nil, nil
	}
	v, err := workflow.Evaluate(block, sc.env())
	if err != nil {
		return nil, err
	}
	o, ok := v.(*expr.Object)
	if !ok {
		return nil, nil
	}
	m := make(map[string]string, o.Len())
	for _, k := range o.Keys() {
		item, _ := o.Get(k)
		m[k] = expr.String(item)
	}
	return m, nil
}
