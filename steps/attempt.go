package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/workflow"
)

// attemptEnd is how one attempt of a step ended.
type attemptEnd struct {
	cause   event.Cause // empty: success
	message string
	hint    string
	exit    sandbox.Exit
	turns   int
	session string
	retryAt time.Time
	err     error // points at the workflow file where it can
}

const roomHint = "a file system in memory gets its size from docker.tmpfs, /tmp at most half of docker.memory; another is the disk of this machine (herd-runner doctor)"

// blameLimit makes a limit of the box the cause of a failure that has none of
// its own, where one was reached.
func (e *attemptEnd) blameLimit() {
	if e.cause != event.CauseExitCode && e.cause != event.CauseNoResult {
		return
	}
	switch {
	case e.exit.PidsLimit:
		e.cause, e.hint = event.CauseResourceLimit, "raise docker.pids-limit, or let it start fewer processes at a time"
		e.message += ": the box was at its limit of processes"
	case len(e.exit.Full) > 0:
		e.cause, e.hint = event.CauseResourceLimit, roomHint
		e.message += ": no room was left in " + strings.Join(e.exit.Full, ", ")
	}
}

// blameFiles makes the limit of open files the cause of a script's failure where
// its last words say so: the kernel tells nobody else. A script that says it for
// nothing has failed all the same.
func (e *attemptEnd) blameFiles(stderr []byte) {
	said := strings.ToLower(string(stderr))
	if e.cause == event.CauseExitCode && (strings.Contains(said, "too many open files") || strings.Contains(said, "emfile")) {
		e.cause, e.hint = event.CauseResourceLimit, "raise the limit, docker.ulimits: {nofile: N}, or have it close what it does not use"
		e.message += ": it had too many open files"
	}
}

// attempts runs the step until it succeeds or its retries are used up.
func (s *stepRun) attempts(ctx context.Context) attemptEnd {
	retry, err := workflow.DecodeRetry(s.step.Retry, s.eval)
	if err != nil {
		return problem(err)
	}
	if s.step.TimeoutMinutes != nil {
		minutes, err := workflow.EvalTimeout(s.step.TimeoutMinutes, s.sc.env())
		if err != nil {
			return problem(err)
		}
		s.deadline = s.Now().Add(time.Duration(minutes * float64(time.Minute)))
	}
	s.retries = retry.Max
	if s.step.IsAgent() {
		defer s.keepSession()
	}
	for s.attempt = 1; ; s.attempt++ {
		end := s.once(ctx)
		if s.attempt > retry.Max || !retryable(retry, end) || s.cancelReason(s.leg) != "" {
			return end
		}
		out := s.outcomeOf(end)
		s.emit(event.Event{Type: event.StepRetry, Outcome: &out})
		if !s.pause(end) {
			return end
		}
	}
}

// once is one attempt, bounded by the step's timeout and ended by a cancel
// under which its condition no longer holds (SEMANTICS 8).
func (s *stepRun) once(ctx context.Context) attemptEnd {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.stop = func(cause error) { cancel(cause) }
	if d := s.bound(); !d.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadlineCause(ctx, d, errTimeout)
		defer stop()
	}
	watching := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(watching)
		s.watchCancel(done, cancel)
	}()
	var end attemptEnd
	switch {
	case s.step.IsAgent():
		end = s.runAgent(ctx)
	case s.step.Action != nil:
		end = s.runAction(ctx)
	case s.step.IsCheckout():
		end = s.checkout()
	case s.step.Uses != nil:
		end = problem(fmt.Errorf("action %s was not loaded", s.step.Uses.Text))
	default:
		end = s.runScript(ctx)
	}
	close(done)
	<-watching

	var full *diskFull
	switch cause := context.Cause(ctx); {
	case end.cause == "" || cause == nil:
	case errors.As(cause, &full):
		end.cause, end.message, end.hint = event.CauseResourceLimit, full.Error(), diskHint
	case errors.Is(cause, errTimeout):
		end.cause, end.message = event.CauseTimeout, s.timeoutMessage()
		end.hint = "raise timeout-minutes, or find out in the log above what it waited for"
	case errors.Is(cause, errCancelled):
		end.cause, end.message, end.hint = event.CauseCancelled, s.cancelReason(s.leg), ""
	}
	return end
}

var (
	errTimeout   = errors.New("timeout")
	errCancelled = errors.New("cancelled")
)

// bound is when this attempt must have ended; zero: no bound of its own.
func (s *stepRun) bound() time.Time {
	d := s.deadline
	if c := s.cleanupAt; !c.IsZero() && (d.IsZero() || c.Before(d)) {
		d = c
	}
	return d
}

func (s *stepRun) timeoutMessage() string {
	if s.deadline.IsZero() && s.cleanupAt.IsZero() {
		return "the step that uses this action ran out of time"
	}
	if s.deadline.IsZero() || (!s.cleanupAt.IsZero() && s.cleanupAt.Before(s.deadline)) {
		return "the clean-up steps of a cancelled job have " + cleanupTime.String()
	}
	minutes, _ := workflow.EvalTimeout(s.step.TimeoutMinutes, s.sc.env())
	return fmt.Sprintf("timeout-minutes: %v is over", minutes)
}

// watchCancel waits for a cancel of the leg and stops the step unless its
// condition still holds then. A `cancel:` step always stops it.
func (s *stepRun) watchCancel(done <-chan struct{}, cancel context.CancelCauseFunc) {
	stopped := s.bg.stopped()
	run, job, expired := s.cancelled, s.jobs[s.node.Job.ID].stop, s.leg.expired
	if s.sc.status.cancelled || s.step.Action != nil {
		// Started after the cancel: it is meant to run. Of an action, the step
		// that runs is stopped, and its clean-up steps run.
		run, job, expired = nil, nil, nil
	}
	for {
		select {
		case <-done:
			return
		case <-stopped:
			cancel(errCancelled)
			return
		case <-run:
			run = nil
		case <-job:
		case <-expired:
		}
		if s.cancelReason(s.leg) == "" {
			continue // the run is cancelled, but not this job
		}
		sc := *s.sc
		sc.status = s.statusNow()
		if ok, err := workflow.Condition(s.step.If, sc.env()); err != nil || !ok {
			cancel(errCancelled)
			return
		}
		run, job, expired = nil, nil, nil
	}
}

// retryable says whether an attempt that ended so may be tried again.
func retryable(retry workflow.Retry, end attemptEnd) bool {
	switch end.cause {
	case "", event.CauseCancelled, event.CausePolicyDenied:
		return false
	}
	if end.err != nil {
		return false
	}
	on := retry.On
	if len(on) == 0 {
		on = []string{string(event.CauseRateLimited), string(event.CauseStalled), string(event.CauseInfrastructure)}
	}
	for _, c := range on {
		if c == string(end.cause) {
			return true
		}
	}
	return false
}

// retryBackoff is the wait before attempt n+1 where nobody said until when.
func retryBackoff(attempt int) time.Duration {
	return min(time.Second<<min(attempt-1, 6), time.Minute)
}

// pause waits before the next attempt: until the rate limit ends where that is
// known, else by back-off. false: cancelled or out of time meanwhile.
func (s *stepRun) pause(end attemptEnd) bool {
	wait := retryBackoff(s.attempt)
	if !end.retryAt.IsZero() {
		wait = max(0, end.retryAt.Sub(s.Now()))
	}
	if d := s.bound(); !d.IsZero() && s.Now().Add(wait).After(d) {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.bg.stopped():
	case <-s.outer:
	case <-s.cancelled:
	case <-s.jobs[s.node.Job.ID].stop:
	case <-s.leg.expired:
	}
	return false
}
