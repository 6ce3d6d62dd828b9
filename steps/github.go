package steps

import (
	"fmt"
	"path"
	"strings"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// github is the context at one place of the run: what is the same for the whole
// run, and what differs by job, step and action.
func (s *scope) github() (expr.Value, bool) {
	v, ok := s.run.Contexts("github", s.onHost)
	base, isObject := v.(*expr.Object)
	if !isObject {
		return v, ok
	}
	o := clone(base)
	if root := s.workRoot(); s.onHost && root != s.run.Workspace.Root() {
		o.Set("workspace", root)
	}
	if s.leg != nil {
		o.Set("job", s.job.ID)
	}
	if s.frame != nil {
		o.Set("action_path", path.Join(s.root(o), s.frame.action.Dir))
		o.Set("action_status", s.frame.result())
	}
	if s.step == nil {
		return o, ok
	}
	o.Set("action", s.step.actionName())
	o.Set("action_ref", "")
	o.Set("action_repository", "")
	if temp := s.temp(); temp != "" {
		info := sandbox.Info{Temp: temp}
		o.Set("event_path", eventPath(info))
		files := s.step.commandFiles(info)
		for _, f := range commandFileVars {
			o.Set(strings.ToLower(strings.TrimPrefix(f[0], "GITHUB_")), files.path(f[1]))
		}
	}
	return o, ok
}

// root is the top of the project as the steps see it.
func (s *scope) root(github *expr.Object) string {
	if w, _ := github.Get("workspace"); expr.String(w) != "" {
		return expr.String(w)
	}
	return s.run.Workspace.Root()
}

// runner is the context with the directories of the step's own machine.
func (s *scope) runner() (expr.Value, bool) {
	v, ok := s.run.Contexts("runner", s.onHost)
	base, isObject := v.(*expr.Object)
	if !isObject {
		return v, ok
	}
	o := clone(base)
	if temp := s.temp(); temp != "" {
		o.Set("temp", temp)
		o.Set("tool_cache", toolCache(temp))
	}
	return o, ok
}

// temp is RUNNER_TEMP where the scope stands; empty where it is not known.
func (s *scope) temp() string {
	if s.onHost && s.hostTemp != nil {
		return s.hostTemp()
	}
	runner, _ := s.run.Contexts("runner", s.onHost)
	if o, ok := runner.(*expr.Object); ok {
		temp, _ := o.Get("temp")
		return expr.String(temp)
	}
	return ""
}

const toolCacheDir = "_tool"

// toolCache is RUNNER_TOOL_CACHE, which the first script of a box finds empty.
func toolCache(temp string) string { return path.Join(temp, toolCacheDir) }

// actionName is github.action: the id of the job's step, or, for a step without
// one, what it uses and how many of these come before it.
func (s *stepRun) actionName() string {
	for s.frame != nil {
		s = s.frame.caller
	}
	if s.step.Declared {
		return s.step.ID
	}
	name, before := unnamed(s.step), 0
	for _, other := range s.node.Job.Steps[:s.step.Index] {
		if !other.Declared && unnamed(other) == name {
			before++
		}
	}
	if before > 0 {
		return fmt.Sprintf("%s_%d", name, before+1)
	}
	return name
}

func unnamed(s *workflow.Step) string {
	switch {
	case s.IsCheckout():
		return "__actions_checkout"
	case s.Uses != nil:
		return "__self"
	}
	return "__run"
}

// result is github.action_status: how the action's steps went so far.
func (f *frame) result() string {
	switch st := f.status(); {
	case st.cancelled:
		return resultCancelled
	case st.failure:
		return resultFailure
	}
	return resultSuccess
}
