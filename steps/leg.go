package steps

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// defaultJobTimeout is GitHub's.
const defaultJobTimeout = 360 * time.Minute

// cleanupTime is how long the always() and cancelled() steps of a cancelled leg
// may take altogether; GitHub's cancel timeout.
const cleanupTime = 5 * time.Minute

// legState is one leg while it runs. Its steps run one after the other, so its
// fields need no lock; r.legsMu guards only the finding of it.
type legState struct {
	leg   *workflow.Leg
	index int // 1-based order of starting, for directory names
	start time.Time
	begun bool

	steps *expr.Object // the steps context
	// env holds workflow, job and GITHUB_ENV variables; path the additions of
	// GITHUB_PATH, newest first.
	env  map[string]string
	path []string

	failed         bool // a step failed without continue-on-error
	broken         error
	cancelHit      bool // a step was stopped or skipped by a cancel
	infrastructure bool
	result         string
	outputs        *expr.Object
	usage          event.Usage

	boxes legBoxes

	expired   chan struct{} // closed at the job's timeout
	timer     *time.Timer
	cleanupAt time.Time // when the leg's clean-up steps must end; zero: not cancelled yet
}

// leg gives the state of a leg, made at its first use.
func (r *run) leg(leg *workflow.Leg) *legState {
	r.legsMu.Lock()
	defer r.legsMu.Unlock()
	l := r.legs[leg]
	if l == nil {
		l = &legState{leg: leg, index: len(r.legs) + 1, steps: expr.NewObject(), outputs: expr.NewObject(), expired: make(chan struct{})}
		r.legs[leg] = l
	}
	return l
}

// begin starts a leg at its first step: its environment is evaluated and its
// clock starts.
func (r *run) begin(n *workflow.Node, l *legState) {
	l.begun, l.start = true, r.Now()
	sc := &scope{run: r, job: n.Job, leg: l}
	name := l.leg.ID
	if n.Job.Name != nil {
		if s, err := workflow.EvalString(n.Job.Name, sc.env()); err == nil && s != "" {
			name = s
		}
	}
	r.emit(event.Event{Type: event.JobStarted, Job: l.leg.ID, Name: name})

	l.env = map[string]string{}
	timeout := defaultJobTimeout
	err := func() error {
		for _, block := range []*workflow.Value{r.Plan.Workflow.Env, n.Job.Env} {
			vars, err := evalEnv(block, sc)
			if err != nil {
				return err
			}
			maps.Copy(l.env, vars)
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
	expired := l.expired
	l.timer = time.AfterFunc(timeout, sync.OnceFunc(func() { close(expired) }))
}

// cancelReason says why the leg is cancelled, empty while it is not.
func (r *run) cancelReason(l *legState) string {
	if r.isCancelled() {
		return "the run was cancelled"
	}
	select {
	case <-r.jobs[l.leg.Job.ID].stop:
		return "another job of the matrix failed (strategy.fail-fast)"
	case <-l.expired:
		return "the job's timeout-minutes were over"
	default:
		return ""
	}
}

// status is what a leg's status functions say (SEMANTICS 1, 8).
func (r *run) status(l *legState) status {
	cancelled := r.cancelReason(l) != ""
	return status{success: !l.failed && !cancelled, failure: l.failed && !cancelled, cancelled: cancelled}
}

// endLeg evaluates outputs, decides the leg's result and lets its boxes go.
func (r *run) endLeg(ctx context.Context, n *workflow.Node) {
	st := r.jobs[n.Job.ID]
	if st.skip != "" {
		return
	}
	l := r.leg(n.Leg)
	if l.timer != nil {
		l.timer.Stop()
	}
	l.boxes.closeAll(ctx, r)
	outcome := resultSuccess
	switch {
	case l.cancelHit:
		outcome = resultCancelled
	case l.failed:
		outcome = resultFailure
	}
	sc := &scope{run: r, job: n.Job, leg: l, status: status{success: outcome == resultSuccess, failure: outcome == resultFailure, cancelled: outcome == resultCancelled}}
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
	if l.result == resultFailure && st.failFast && n.Leg.Total > 1 {
		st.stopOnce.Do(func() { close(st.stop) })
	}
	out := event.Outcome{Outcome: outcome, Conclusion: l.result, Outputs: stringMap(l.outputs), DurationMS: r.Now().Sub(l.start).Milliseconds()}
	if outcome == resultCancelled {
		out.Cause, out.Message = event.CauseCancelled, r.cancelReason(l)
	}
	if l.usage.Requests > 0 {
		out.Usage = &l.usage
	}
	r.emit(event.Event{Type: event.JobFinished, Job: l.leg.ID, Outcome: &out})
}

// evalOutputs fills the leg's outputs; one that holds a secret is dropped
// (SEMANTICS 31).
func (r *run) evalOutputs(n *workflow.Node, l *legState, sc *scope) {
	if n.Job.Outputs == nil {
		return
	}
	for _, e := range n.Job.Outputs.Entries {
		value, err := workflow.Evaluate(e.Value, sc.env())
		if err != nil {
			r.note(n, "error", "output "+e.Key.Text+": "+err.Error(), err)
			l.failed = true
			continue
		}
		v := outputString(value)
		if r.Masker.Contains(v) {
			r.note(n, "warning", "output "+e.Key.Text+" was dropped: it holds a secret", nil)
			continue
		}
		l.outputs.Set(e.Key.Text, v)
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
