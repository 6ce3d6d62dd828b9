package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// maxGroupWait bounds the wait for a group, a day as at GitHub.
const maxGroupWait = 24 * time.Hour

// GroupRequest asks for a concurrency group.
type GroupRequest struct {
	workflow.Concurrency
	Job string // the leg's id; empty for the run
	// Waiting is told, in words for the person, whom the request waits for:
	// when the wait begins and when that changes.
	Waiting func(message string)
}

// Group is a concurrency group held.
type Group struct {
	// Lost is closed when its holder is to end for another's sake; Why then says
	// why. The group is held until Release, which is called once.
	Lost    <-chan struct{}
	Why     func() string
	Release func() error
}

// GroupRefused is the error of a request that the rules of its group cancelled.
type GroupRefused struct{ Message string }

func (e *GroupRefused) Error() string { return e.Message }

// enter waits for the run's own concurrency group. Without ok nothing may start.
func (r *run) enter(ctx context.Context) (leave func(), ok bool) {
	v := r.Plan.Workflow.Concurrency
	if v == nil || r.AcquireGroup == nil {
		return func() {}, true
	}
	env := expr.Env{Context: func(name string) (expr.Value, bool) { return r.Contexts(name, false) }}
	c, err := workflow.EvalConcurrency(v, env)
	if err != nil {
		r.refused = resultFailure
		r.tellRun("error", "concurrency: "+plainMessage(err), err)
		return func() {}, false
	}
	leave, err = r.hold(ctx, GroupRequest{Concurrency: c, Job: strings.TrimSuffix(r.prefix, workflow.CallSeparator), Waiting: func(m string) { r.tellRun("notice", m, nil) }}, func(why string) {
		r.cancelFor(why)
		r.tellRun("warning", "cancelling: "+why, nil)
	})
	var refused *GroupRefused
	switch {
	case err == nil:
		return leave, true
	case ctx.Err() != nil:
		r.cancel()
	case errors.As(err, &refused):
		r.cancelFor(refused.Message)
	default:
		r.refused, r.broken = resultFailure, true
		r.tellRun("error", "concurrency: "+err.Error(), err)
	}
	return func() {}, false
}

// begun prepares what the plan needs.
func (r *run) begun() bool {
	if r.Begin == nil {
		return true
	}
	err := r.Begin()
	if err != nil {
		r.refused, r.broken = resultFailure, true
		r.tellRun("error", err.Error(), err)
	}
	return err == nil
}

// plainMessage leaves out the place and the hint, which the note has.
func plainMessage(err error) string {
	if at := placeInFile(err); at != nil {
		return at.Msg
	}
	return err.Error()
}

// tellRun tells the person about the run as a whole, at the place err points at.
func (r *run) tellRun(level, message string, err error) {
	note := event.Note{Level: level, Message: message, Hint: event.HintOf(err)}
	if at := placeInFile(err); at != nil {
		note.File, note.Line, note.Column, note.Hint = r.Plan.Workflow.File, at.Pos.Line, at.Pos.Column, at.Hint
	}
	r.emit(event.Event{Type: event.Notice, Note: &note})
}

// hold acquires a group and calls lost when another takes it over. leave gives
// it up.
func (r *run) hold(ctx context.Context, req GroupRequest, lost func(why string)) (leave func(), err error) {
	if slices.ContainsFunc(r.groups, func(held string) bool { return strings.EqualFold(held, req.Group) }) {
		return nil, &GroupRefused{Message: fmt.Sprintf("concurrency group %q is held by the job that calls this workflow: waiting for it would never end", req.Group)}
	}
	waited := false
	tell, begun := req.Waiting, r.Now()
	req.Waiting = func(m string) {
		waited = true
		tell(m)
	}
	g, err := r.AcquireGroup(ctx, req)
	if err != nil {
		return nil, err
	}
	if waited {
		tell(fmt.Sprintf("concurrency group %q is free, after %.1f s", req.Group, r.Now().Sub(begun).Seconds()))
	}
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-g.Lost:
			lost(g.Why())
		case <-done:
		}
	})
	return func() {
		close(done)
		watch.Wait()
		if err := g.Release(); err != nil {
			r.tellRun("warning", "concurrency group "+req.Group+": "+err.Error(), nil)
		}
	}, nil
}

// startLeg waits for the leg's concurrency group. A leg that is cancelled before
// it has it never starts: none of its steps run, whatever their conditions.
func (r *run) startLeg(ctx context.Context, n *workflow.Node) {
	if r.AcquireGroup == nil {
		return
	}
	l := r.leg(n.Leg)
	c, err := workflow.EvalConcurrency(n.Job.Concurrency, (&scope{run: r, job: n.Job, leg: l, view: l.view}).env())
	if err != nil {
		l.skip = resultFailure
		r.note(n, "error", "job "+l.leg.ID+": concurrency: "+plainMessage(err), err)
		return
	}
	ctx, stop := r.untilCancelled(ctx, l)
	defer stop()
	tell := func(m string) {
		r.emit(event.Event{Type: event.Notice, Job: l.leg.ID, Note: &event.Note{Level: "notice", Message: m}})
	}
	l.leave, err = r.hold(ctx, GroupRequest{Concurrency: c, Job: l.leg.ID, Waiting: tell}, l.expire)
	var refused *GroupRefused
	switch {
	case err == nil:
		l.group = c.Group
	case ctx.Err() != nil:
		l.skip = resultCancelled
		l.expire(fmt.Sprintf("concurrency group %q was not free in time", c.Group))
	case errors.As(err, &refused):
		l.skip = resultCancelled
		l.expire(refused.Message)
	default:
		l.skip, l.infrastructure = resultFailure, true
		r.note(n, "error", "job "+l.leg.ID+": concurrency: "+err.Error(), err)
	}
}

// untilCancelled gives a context that ends when the leg is cancelled, unless it
// was already: a job whose condition lets it run after a cancel may wait, but
// not for ever.
func (r *run) untilCancelled(ctx context.Context, l *legState) (context.Context, func()) {
	run, job, longest := r.cancelled, r.jobs[l.leg.Job.ID].stop, maxGroupWait
	if r.isCancelled() || r.cancelReason(l) != "" {
		run, job, longest = nil, nil, cleanupTime
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ctx.Done():
		case <-run:
		case <-job:
		case <-r.Kill:
		}
		cancel()
	})
	return ctx, func() {
		cancel()
		watch.Wait()
	}
}

// endUnstarted ends a leg that never started.
func (r *run) endUnstarted(st *jobState, l *legState) {
	l.result = l.skip
	st.mu.Lock()
	st.legs = append(st.legs, l)
	st.mu.Unlock()
	st.failFastAfter(l)
	out := event.Outcome{Outcome: l.skip, Conclusion: l.skip}
	if l.skip == resultCancelled {
		out.Cause, out.Message = event.CauseCancelled, r.cancelReason(l)
	}
	r.emit(event.Event{Type: event.JobFinished, Job: l.leg.ID, Outcome: &out})
}
