package steps

import (
	"context"
	"fmt"
	"sync"

	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// runCall runs the workflow that a leg's job calls, as a run inside of this one:
// with a plan, jobs and contexts of its own, under the same bounds.
func (r *run) runCall(ctx context.Context, n *workflow.Node) {
	l := r.leg(n.Leg)
	if l.skip != "" {
		return
	}
	r.begin(n, l)
	if l.broken != nil {
		return
	}
	fail := func(err error) {
		l.failed = true
		r.note(n, "error", "job "+l.leg.ID+": "+err.Error(), err)
	}
	child, err := r.callee(n, l)
	if err != nil {
		fail(err)
		return
	}
	stop := child.cancelWith(r, l)
	leave, ok := child.enter(ctx)
	if ok {
		child.schedule(ctx)
	}
	leave()
	stop()

	out := child.outcome()
	switch out.Outcome {
	case resultFailure:
		l.failed = true
	case resultCancelled:
		l.cancelHit = true
		if r.cancelReason(l) == "" {
			l.expire(out.Message)
		}
	}
	l.idle = child.idle()
	l.infrastructure = child.infrastructure()
	if out.Usage != nil {
		l.spend(*out.Usage)
	}
	if err := child.callOutputs(l); err != nil {
		fail(err)
	}
}

// callee makes the run of the called workflow. What it gets is evaluated in the
// scope of the job that calls it.
func (r *run) callee(n *workflow.Node, l *legState) (*run, error) {
	job := n.Job
	if job.Called == nil {
		return nil, fmt.Errorf("workflow %s was not loaded", job.Uses.Text)
	}
	plan, problems := workflow.CalledPlan(l.leg)
	if plan == nil {
		return nil, fmt.Errorf("workflow %s: %s", job.Uses.Text, problems[0].Message)
	}
	caller := (&scope{run: r, job: job, leg: l, view: l.view, status: r.status(l)}).env()
	inputs, err := workflow.EvalCallInputs(job, caller, expr.Env{Context: func(name string) (expr.Value, bool) { return r.Contexts(name, false) }})
	if err != nil {
		return nil, err
	}
	secrets, err := r.callSecrets(job, caller)
	if err != nil {
		return nil, err
	}
	o := r.Options
	o.Plan = plan
	if !r.stands(job) {
		o.Earlier = nil
	}
	o.Contexts = func(name string, onHost bool) (expr.Value, bool) {
		switch name {
		case "inputs":
			return inputs, true
		case "secrets":
			return secrets, true
		}
		return r.Contexts(name, onHost)
	}
	seen := expr.Env{Context: func(name string) (expr.Value, bool) { return o.Contexts(name, false) }}
	eval := func(v *workflow.Value) (expr.Value, error) { return workflow.Evaluate(v, seen) }
	if o.Budgets, err = within(l.budgets, job.Called.Budget, eval, "workflow "+l.leg.ID, fmt.Sprintf("workflow %s, called by job %q", job.Called.File, l.leg.ID)); err != nil {
		return nil, fmt.Errorf("workflow %s: %w", job.Uses.Text, err)
	}
	child := newRun(o)
	child.cleanup, child.bounds, child.disk = r.cleanup, r.bounds, r.disk
	child.ahead = newAhead(child, r.ahead.bound())
	child.prefix = l.leg.ID + workflow.CallSeparator
	child.groups = append(child.groups, r.groups...)
	if l.group != "" {
		child.groups = append(child.groups, l.group)
	}
	return child, nil
}

// callSecrets gives the secrets of the called workflow: all of the caller's, or
// those that are named. The token it has in any case, as at GitHub.
func (r *run) callSecrets(job *workflow.Job, caller expr.Env) (expr.Value, error) {
	const token = "GITHUB_TOKEN"
	all, _ := r.Contexts("secrets", false)
	if job.InheritsSecrets() {
		return all, nil
	}
	secrets := expr.NewObject()
	if o, ok := all.(*expr.Object); ok {
		if v, ok := o.Get(token); ok {
			secrets.Set(token, v)
		}
	}
	v, err := workflow.Evaluate(job.Secrets, caller)
	if err != nil {
		return nil, err
	}
	if named, ok := v.(*expr.Object); ok {
		for _, k := range named.Keys() {
			item, _ := named.Get(k)
			text := expr.String(item)
			if text != "" {
				r.Masker.Add(text)
			}
			secrets.Set(k, text)
		}
	}
	return secrets, nil
}

// cancelWith cancels the run when the leg that called it is, until stop is
// called.
func (r *run) cancelWith(parent *run, l *legState) (stop func()) {
	if why := parent.cancelReason(l); why != "" {
		r.cancelFor(why)
		return func() {}
	}
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		cancelled := parent.cancelled
		for {
			select {
			case <-cancelled:
				cancelled = nil
			case <-parent.jobs[l.leg.Job.ID].stop:
			case <-l.expired:
			case <-done:
				return
			}
			if why := parent.cancelReason(l); why != "" {
				r.cancelFor(why)
				return
			}
		}
	})
	return func() {
		close(done)
		watch.Wait()
	}
}

// idle says whether every job was skipped: then the job that calls the workflow
// is skipped too, as at GitHub.
func (r *run) idle() bool {
	for _, st := range r.jobs {
		if st.result != resultSkipped {
			return false
		}
	}
	return true
}

// infrastructure says whether a failure was the machine's.
func (r *run) infrastructure() bool {
	if r.broken {
		return true
	}
	for _, st := range r.jobs {
		if st.infrastructure {
			return true
		}
	}
	return false
}

// callOutputs evaluates what the called workflow gives to the leg that called
// it; what holds a secret is dropped (SEMANTICS 31).
func (r *run) callOutputs(l *legState) error {
	env := expr.Env{Context: func(name string) (expr.Value, bool) {
		if name == "jobs" {
			return r.jobsContext(), true
		}
		return r.Contexts(name, false)
	}}
	var first error
	for _, o := range r.Plan.Workflow.Call.Outputs {
		v, err := workflow.Evaluate(o.Value, env)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		text := outputString(v)
		if r.Masker.Contains(text) {
			r.tellRun("warning", "output "+o.Name.Value+" was dropped: it holds a secret", nil)
			continue
		}
		l.outputs.Set(o.Name.Value, text)
	}
	return first
}

func (r *run) jobsContext() *expr.Object {
	jobs := expr.NewObject()
	for _, job := range r.Plan.Workflow.Jobs {
		st := r.jobs[job.ID]
		if st == nil {
			continue
		}
		o := expr.NewObject()
		o.Set("result", st.result)
		o.Set("outputs", st.outputs)
		jobs.Set(job.ID, o)
	}
	return jobs
}
