package steps

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/herd-runner/herd-runner/steps/command"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// scope is what expressions see at one place of a run: a job's gate (leg nil),
// a leg, or a step (stepEnv set). Contexts are built when asked for.
type scope struct {
	run     *run
	job     *workflow.Job
	leg     *legState
	view    view
	stepEnv map[string]string // the step's own env on top of the leg's
	onHost  bool              // the step runs without a box
	// hostTemp makes and gives RUNNER_TEMP of a step on the host; nil outside of
	// steps.
	hostTemp func() string
	// work gives the directory on the host that the step works in; nil: the
	// project's.
	work    func() string
	step    *stepRun // what it is the scope of; nil: of a job
	status  status
	frame   *frame        // the action that the step is of; nil: of a job
	budgets []BudgetLevel // of a step; nil: those of its leg, or of the run
}

func (s *scope) env() expr.Env { return expr.Env{Context: s.context, Function: s.function} }

func (s *scope) context(name string) (expr.Value, bool) {
	if s.frame != nil {
		if v, ok, own := s.frame.context(name); own {
			return v, ok
		}
	}
	switch name {
	case "needs":
		return s.needs(), true
	case "strategy":
		return s.strategy(), true
	case "matrix":
		if s.leg == nil || s.leg.leg.Matrix == nil {
			return nil, true
		}
		return s.leg.leg.Matrix, true
	case "steps":
		if s.leg == nil {
			return nil, false
		}
		return s.view.steps, true
	case "budget":
		return s.budget(), true
	case "job":
		o := expr.NewObject()
		switch {
		case s.status.cancelled:
			o.Set("status", resultCancelled)
		case s.status.failure:
			o.Set("status", resultFailure)
		default:
			o.Set("status", resultSuccess)
		}
		return o, true
	case "env":
		m := map[string]string{}
		maps.Copy(m, s.view.env)
		maps.Copy(m, s.stepEnv)
		o := expr.NewCaseSensitiveObject()
		for _, k := range slices.Sorted(maps.Keys(m)) {
			o.Set(k, m[k])
		}
		return o, true
	case "github":
		return s.github()
	case "runner":
		return s.runner()
	}
	return s.run.Contexts(name, s.onHost)
}

func (s *scope) needs() *expr.Object {
	needs := expr.NewObject()
	for _, need := range s.job.Needs {
		st := s.run.job(need.Value)
		o := expr.NewObject()
		o.Set("result", st.result)
		o.Set("outputs", st.outputs)
		if st.job.Strategy != nil {
			o.Set("matrix", st.matrix)
		}
		needs.Set(st.job.ID, o)
	}
	return needs
}

func (s *scope) strategy() *expr.Object {
	o := expr.NewObject()
	st := s.run.jobs[s.job.ID]
	total, index := 1, 0
	if s.leg != nil {
		total, index = s.leg.leg.Total, s.leg.leg.Index
	}
	parallel := total
	if st.maxParallel > 0 {
		parallel = st.maxParallel
	}
	o.Set("fail-fast", st.failFast)
	o.Set("job-index", float64(index))
	o.Set("job-total", float64(total))
	o.Set("max-parallel", float64(parallel))
	return o
}

func (s *scope) function(name string) (expr.Func, bool) {
	constant := func(v bool) (expr.Func, bool) {
		return expr.Func{Call: func([]expr.Value) (expr.Value, error) { return v, nil }}, true
	}
	switch name {
	case "success":
		return constant(s.status.success)
	case "failure":
		return constant(s.status.failure)
	case "cancelled":
		return constant(s.status.cancelled)
	case "always":
		return constant(true)
	case "hashfiles":
		return expr.Func{Min: 1, Max: 255, Call: s.hashFiles}, true
	}
	return expr.Func{}, false
}

func (s *scope) hashFiles(args []expr.Value) (expr.Value, error) {
	patterns := make([]string, len(args))
	for i, a := range args {
		patterns[i] = expr.String(a)
	}
	ctx, cancel := context.WithTimeout(context.Background(), hashFilesTimeout)
	defer cancel()
	return command.HashFiles(ctx, s.workRoot(), patterns)
}

func (s *scope) workRoot() string {
	if s.work != nil {
		return s.work()
	}
	return s.run.Workspace.Root()
}

// placeInFile finds the place in the workflow file that an error points at.
func placeInFile(err error) *workflow.EvalError {
	var at *workflow.EvalError
	if errors.As(err, &at) {
		return at
	}
	return nil
}
