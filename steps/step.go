package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// hashFilesTimeout bounds one hashFiles call; GitHub's bound.
const hashFilesTimeout = 2 * time.Minute

// stepRun is one step being executed.
type stepRun struct {
	*run
	node *workflow.Node
	step *workflow.Step
	leg  *legState
	sc   *scope

	attempt   int
	deadline  time.Time // of timeout-minutes, over all attempts; zero: none
	cleanupAt time.Time // when a step that began after a cancel must end
	outputs   *expr.Object
	effects   effects
	bg        *backgroundRun  // nil: not in the background
	frame     *frame          // the action whose step this is; nil: of a job
	outer     <-chan struct{} // closed when the step that uses the action must end
	release   func()          // gives a background step's place back
	agent     agentState
	retries   int               // attempts that may follow the first
	place     *place            // where it works; nil: in the project
	mark      string            // of the place's files when the step began
	stop      func(cause error) // ends the attempt

	findingRoot bool

	refusedMu sync.Mutex // stdout and stderr both speak commands
	refused   string     // why the first refused workflow command was
}

// runStep executes one step: condition, env, attempts, outcome.
func (r *run) runStep(ctx context.Context, n *workflow.Node) {
	l := r.leg(n.Leg)
	if !r.beginOnce(n, l) {
		return
	}
	s := &stepRun{run: r, node: n, step: n.Step, leg: l, outputs: expr.NewObject(), release: func() {}, bg: l.background[strings.ToLower(n.Step.ID)]}
	if s.bg != nil {
		defer s.bg.end()
	}
	if told := l.earlier.Steps[n.Step.ID]; told != nil {
		s.takeOver(told)
		return
	}
	s.sc = &scope{run: r, job: n.Job, leg: l, view: l.now(), status: r.status(l)}
	s.live(ctx)
}

// live is a step from its condition to its outcome.
func (s *stepRun) live(ctx context.Context) {
	s.sc.onHost, s.sc.step = s.staysOnHost(), s
	s.sc.hostTemp = func() string { return s.hostTemp(ctx) }
	s.sc.work = func() string { return s.root(ctx) }
	if s.sc.status.cancelled || s.isCancelled() {
		s.cleanupAt = s.leg.cleanup(s.Now())
	}

	start := s.Now()
	// The step's env is part of what its condition sees, but its failure must
	// not hide a condition that says no.
	stepEnv, envErr := evalEnv(s.step.Env, s.sc)
	s.sc.stepEnv = overlaid(s.sc.stepEnv, stepEnv)
	ok, err := s.decideStep()
	if err == nil && ok && s.bg != nil {
		ok = s.takeSlot()
		defer s.release()
	}
	if err == nil && !ok {
		s.skipped()
		return
	}
	if s.killed() {
		s.effects.cancelHit = true
		s.record(event.Outcome{Outcome: resultCancelled, Conclusion: resultCancelled, Cause: event.CauseCancelled})
		return
	}
	budgetErr := s.openBudgets()
	s.emit(event.Event{Type: event.StepStarted, Name: s.name(), StepInfo: s.info()})
	end := attemptEnd{}
	switch {
	case err != nil:
		end = problem(fmt.Errorf("if: %w", err))
	case envErr != nil:
		end = problem(fmt.Errorf("env: %w", envErr))
	case budgetErr != nil:
		end = problem(budgetErr)
	case s.step.IsControl():
		end = s.control()
	default:
		end = s.settle(ctx, s.attempts(ctx))
	}
	s.finish(end, start)
}

// skipped records a step whose condition said no.
func (s *stepRun) skipped() {
	if s.step.Cancel != nil && !s.sc.status.success {
		// Nobody else will end the background step of a job that went wrong.
		s.leg.background[strings.ToLower(s.step.Cancel.Value)].stop()
	}
	s.effects.cancelHit = s.sc.status.cancelled
	s.record(event.Outcome{Outcome: resultSkipped, Conclusion: resultSkipped})
}

// killed says whether the second Ctrl-C came: nothing starts any more.
func (s *stepRun) killed() bool {
	select {
	case <-s.Kill:
		return true
	default:
		return false
	}
}

// staysOnHost says whether the step says docker: false; one that can not be
// evaluated fails later, with its reason.
func (s *stepRun) staysOnHost() bool {
	d, err := workflow.DecodeDocker(s.step.Docker, s.eval)
	return err == nil && d.Host
}

// finish turns the last attempt's end into the step's outcome and conclusion.
func (s *stepRun) finish(end attemptEnd, start time.Time) {
	out := s.outcomeOf(end)
	out.DurationMS = s.Now().Sub(start).Milliseconds()
	out.Conclusion = out.Outcome
	if out.Outcome == resultFailure && s.step.ContinueOnError != nil {
		tolerated, err := workflow.EvalBool(s.step.ContinueOnError, s.sc.env())
		if err != nil {
			out.Message += "; continue-on-error: " + err.Error()
		}
		if tolerated {
			out.Conclusion = resultSuccess
		}
	}
	// An explicit cancel is neither a failure nor a cancel of the job.
	s.effects.cancelHit = end.cause == event.CauseCancelled && !s.bg.wasStopped()
	s.effects.failed, s.effects.message = out.Conclusion == resultFailure, out.Message
	s.effects.infrastructure = s.effects.failed && end.cause == event.CauseInfrastructure
	if end.err != nil {
		s.note(s.node, "error", end.message, end.err)
	}
	s.record(out)
}

// record makes the step's result visible to later steps and to the journal.
func (s *stepRun) record(out event.Outcome) {
	s.publish(out)
	out.Outputs, out.Path = stringMap(s.outputs), s.effects.path
	if len(s.effects.env) > 0 {
		out.Env = map[string]string{}
	}
	for _, p := range s.effects.env {
		out.Env[p.Key] = p.Value
	}
	s.emit(event.Event{Type: event.StepFinished, Name: s.name(), StepInfo: s.info(), Outcome: &out})
}

// publish makes the step's result visible to later steps. A background step's is
// kept until somebody waits for it.
func (s *stepRun) publish(out event.Outcome) {
	o := expr.NewObject()
	o.Set("outputs", s.outputs)
	o.Set("outcome", out.Outcome)
	o.Set("conclusion", out.Conclusion)
	s.effects.step, s.effects.record = s.step, o
	switch {
	case s.frame != nil:
		s.frame.apply(s.effects, out.Cause)
	case s.bg != nil:
		s.bg.keep(s.effects)
	default:
		s.leg.apply(s.effects)
	}
}

func (s *stepRun) outcomeOf(end attemptEnd) event.Outcome {
	out := event.Outcome{
		Outcome: resultSuccess, Cause: end.cause, ExitCode: end.exit.Code,
		Message: end.message, Hint: end.hint, Usage: s.agent.usage, Turns: end.turns,
		SessionID: end.session, PeakMemory: end.exit.PeakMemory, CPUMS: end.exit.CPU.Milliseconds(),
	}
	if end.cause == event.CauseRateLimited {
		out.RetryAt = end.retryAt
	}
	switch end.cause {
	case "":
	case event.CauseCancelled:
		out.Outcome = resultCancelled
	default:
		out.Outcome = resultFailure
	}
	return out
}

// problem is the end of a step whose own keys can not be evaluated or honoured.
func problem(err error) attemptEnd {
	end := attemptEnd{cause: event.CauseExitCode, message: err.Error(), err: err, exit: sandbox.Exit{Code: 1}}
	if at := placeInFile(err); at != nil {
		end.hint = at.Hint
	}
	var refusal interface{ PolicyRule() string }
	if errors.As(err, &refusal) {
		end.cause = event.CausePolicyDenied
	}
	return end
}

// boxFailed is the end of a step whose box could not be had or died.
func boxFailed(err error) attemptEnd {
	end := attemptEnd{cause: event.CauseInfrastructure, message: err.Error(), exit: sandbox.Exit{Code: 1}}
	var refused *CloneRefused
	if errors.As(err, &refused) {
		end.cause, end.message, end.hint = event.CauseExitCode, refused.Message, refused.Hint
	}
	var failed *sandbox.Error
	if errors.As(err, &failed) {
		end.hint = failed.Advice
		switch failed.Kind {
		case sandbox.KindOOM:
			end.cause = event.CauseOOM
		case sandbox.KindFiles:
			end.hint = "is there room for it, and may it be written there? " + roomHint
		}
	}
	return end
}

func (s *stepRun) emit(e event.Event) {
	e.Job, e.Step, e.Attempt = s.leg.leg.ID, s.id(), s.attempt
	s.run.emit(e)
}

func (s *stepRun) eval(v *workflow.Value) (expr.Value, error) {
	return workflow.Evaluate(v, s.scopeOf(v).env())
}

// name is what the person calls the step.
func (s *stepRun) name() string {
	if s.step.Name != nil {
		if name, err := workflow.EvalString(s.step.Name, s.sc.env()); err == nil && name != "" {
			return name
		}
	}
	if s.step.Declared {
		return s.step.ID
	}
	if s.step.IsControl() {
		return controlName(s.step)
	}
	text := s.step.Run
	switch {
	case s.step.IsAgent():
		text = s.step.Prompt
	case s.step.Uses != nil:
		text = s.step.Uses
	}
	if text == nil {
		return s.step.ID
	}
	return firstLine(text.Text)
}

func (s *stepRun) info() *event.StepInfo {
	info := &event.StepInfo{Kind: "run", File: s.step.File, Line: s.step.Pos.Line, Number: s.number()}
	switch {
	case s.step.IsControl():
		info.Kind = "control"
	case s.step.Uses != nil:
		info.Kind = "action"
	}
	if s.step.IsAgent() {
		info.Kind = "agent"
		info.Runtime, info.Engine, info.Model = s.agent.describe.Type, s.agent.describe.Engine, s.agent.model
	}
	return info
}

func firstLine(s string) string {
	for i, c := range s {
		if c == '\n' {
			return s[:i]
		}
		if i > 60 {
			return s[:i] + "…"
		}
	}
	return s
}
