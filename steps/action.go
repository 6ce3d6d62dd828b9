package steps

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// frame is a composite action while it runs: what its steps see of each other.
// They run one after the other, in the one node of the step that uses it.
type frame struct {
	caller *stepRun
	action *workflow.Action
	inputs *expr.Object
	view   view

	failed, cancelHit bool
	cause             event.Cause // of the first step that failed
	message           string
}

// runAction is one attempt of a step that uses a composite action.
func (s *stepRun) runAction(ctx context.Context) attemptEnd {
	a := s.step.Action
	f := &frame{caller: s, action: a, view: view{steps: expr.NewObject(), env: maps.Clone(s.sc.view.env), path: s.sc.view.path}}
	var err error
	if f.inputs, err = f.evalInputs(); err != nil {
		return problem(err)
	}
	for _, step := range a.Steps {
		if ctx.Err() != nil {
			break // out of time, or ended by a cancel: step
		}
		inner := f.begin(ctx, step)
		inner.live(ctx)
		f.view = inner.after(f.view)
	}
	end := attemptEnd{cause: f.cause, message: f.message}
	switch {
	case ctx.Err() != nil && end.cause == "":
		end.cause = event.CauseCancelled // once says why
	case f.failed:
		end.exit.Code = 1
	case f.cancelHit:
		end.cause, end.message = event.CauseCancelled, s.cancelReason(s.leg)
	}
	if err := f.evalOutputs(); err != nil && end.cause == "" {
		return problem(err)
	}
	return end
}

// begin makes ready a step of the action.
func (f *frame) begin(ctx context.Context, step *workflow.Step) *stepRun {
	c := f.caller
	s := &stepRun{run: c.run, node: c.node, step: step, leg: c.leg, frame: f, outer: ctx.Done(), outputs: expr.NewObject(), release: func() {}}
	s.sc = f.scope()
	return s
}

// scope is what the action's own expressions see.
func (f *frame) scope() *scope {
	c := f.caller
	return &scope{run: c.run, job: c.node.Job, leg: c.leg, view: f.view, stepEnv: c.sc.stepEnv, onHost: c.sc.onHost, status: f.status(), frame: f, budgets: c.sc.budgets}
}

// status: success() and failure() ask about the action's own steps; cancelled()
// about the job.
func (f *frame) status() status {
	cancelled := f.caller.cancelReason(f.caller.leg) != ""
	return status{success: !f.failed && !cancelled, failure: f.failed && !cancelled, cancelled: cancelled}
}

// after gives what the steps after s see, given what s saw.
func (s *stepRun) after(v view) view {
	e := s.effects
	if e.record != nil && s.step.Declared {
		v.steps.Set(s.step.ID, e.record)
	}
	if len(e.env) > 0 {
		v.env = maps.Clone(v.env)
		for _, p := range e.env {
			v.env[p.Key] = p.Value
		}
	}
	for _, p := range e.path {
		v.path = append([]string{p}, v.path...)
	}
	return v
}

// apply takes the effects of an ended step. What it set for later steps is set
// for the job's later steps too, when the action has ended.
func (f *frame) apply(e effects, cause event.Cause) {
	if e.failed && !f.failed {
		f.cause, f.message = cause, "step "+e.step.ID+": "+e.message
	}
	f.failed = f.failed || e.failed
	f.cancelHit = f.cancelHit || e.cancelHit
	f.caller.effects.env = append(f.caller.effects.env, e.env...)
	f.caller.effects.path = append(f.caller.effects.path, e.path...)
}

// evalInputs evaluates what the step gives, in the step's scope, and the
// defaults of what it does not give. All inputs of an action are texts.
func (f *frame) evalInputs() (*expr.Object, error) {
	inputs := expr.NewObject()
	given, err := evalEnv(f.caller.step.With, f.caller.sc)
	if err != nil {
		return nil, fmt.Errorf("with: %w", err)
	}
	names := map[string]bool{}
	for k := range given {
		names[strings.ToLower(k)] = true
	}
	for _, in := range f.action.Inputs {
		if names[strings.ToLower(in.Name)] {
			continue
		}
		text, err := workflow.EvalString(in.Default, f.scope().env())
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", in.Name, err)
		}
		inputs.Set(in.Name, text)
	}
	for _, k := range slices.Sorted(maps.Keys(given)) {
		inputs.Set(k, given[k])
	}
	return inputs, nil
}

// evalOutputs gives the action's outputs to the step that uses it.
func (f *frame) evalOutputs() error {
	var first error
	sc := f.scope()
	for _, o := range f.action.Outputs {
		text, err := workflow.EvalString(o.Value, sc.env())
		if err != nil {
			if first == nil {
				first = fmt.Errorf("output %s: %w", o.Name.Value, err)
			}
			continue
		}
		f.caller.outputs.Set(o.Name.Value, text)
	}
	return first
}

// context gives the contexts of an action. secrets, needs and vars are not
// there, as at GitHub: what an action shall have is given to it.
func (f *frame) context(name string) (v expr.Value, ok, own bool) {
	switch name {
	case "inputs":
		return f.inputs, true, true
	case "needs", "secrets", "vars":
		return nil, false, true
	}
	return nil, false, false
}

// env is what only the processes of an action's steps get.
func (f *frame) env(env map[string]string, info sandbox.Info) {
	if f != nil {
		env["GITHUB_ACTION_PATH"] = path.Join(info.Workdir, f.action.Dir)
	}
}

// id names the step in its job; a step of an action has the id of the step that
// uses it before its own.
func (s *stepRun) id() string {
	if s.frame == nil {
		return s.step.ID
	}
	return s.frame.caller.id() + "/" + s.step.ID
}

// number is the place of the step in its job, for the names of its files.
func (s *stepRun) number() string {
	n := strconv.Itoa(s.step.Index + 1)
	if s.frame == nil {
		return n
	}
	return s.frame.caller.number() + "." + n
}

// scopeOf gives the scope that v is evaluated in: a block that a step of an
// action has from its caller sees what the caller sees.
func (s *stepRun) scopeOf(v *workflow.Value) *scope {
	file := v.File()
	for s.frame != nil && file != "" && file != s.frame.action.File {
		s = s.frame.caller
	}
	return s.sc
}

// statusNow is what the status functions would say now.
func (s *stepRun) statusNow() status {
	if s.frame != nil {
		return s.frame.status()
	}
	return s.status(s.leg)
}
