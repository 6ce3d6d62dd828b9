package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/policy"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/steps"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// preflight looks at every step as far as it is known before the run: what it
// asks of policy, runtime and box. Blocks that depend on the run (matrix, needs,
// steps …) are looked at when their step starts.
func (p *prepared) preflight() []workflow.Problem {
	var problems []workflow.Problem
	said := map[workflow.Problem]bool{}
	p.walk(func(c *stepCheck) {
		for _, spec := range c.run() {
			p.specs, p.specSteps = append(p.specs, spec), append(p.specSteps, c.step)
		}
		for _, problem := range c.problems {
			if !said[problem] {
				said[problem] = true
				problems = append(problems, problem)
			}
		}
	})
	return problems
}

// walk visits all steps of a run, each with the inputs that it has.
func (p *prepared) walk(visit func(*stepCheck)) {
	f := flight{prepared: p, called: map[string]bool{}, visit: visit}
	f.jobs(p.plannedJobs(), nil)
}

type flight struct {
	*prepared
	called map[string]bool // workflows, with what is handed to them
	visit  func(*stepCheck)
}

func (f *flight) jobs(jobs []*workflow.Job, s scopes) {
	for _, job := range jobs {
		f.steps(job.Steps, s)
		if job.Called == nil {
			continue
		}
		k := handed(job.Called.Call.Inputs, job.With, f.at(nil, s).eval, typedInput)
		key := job.Called.File + "\x00" + expr.ToJSON(k.values) + strings.Join(k.unknown, ",")
		if !f.called[key] {
			f.called[key] = true
			f.jobs(job.Called.Jobs, scopes{job.Called.File: k})
		}
	}
}

func (f *flight) steps(list []*workflow.Step, s scopes) {
	for _, step := range list {
		check := f.at(step, s)
		switch {
		case f.earlier.hasStep(step):
			continue
		case step.Action != nil:
			k := handed(step.Action.Inputs, step.With, check.eval, textInput)
			f.steps(step.Action.Steps, s.with(step.Action.File, k))
			continue
		case step.Uses != nil:
			continue
		}
		f.visit(check)
	}
}

func (f *flight) at(step *workflow.Step, s scopes) *stepCheck {
	return &stepCheck{prepared: f.prepared, step: step, given: s}
}

// plannedJobs are the jobs of the plan in file order, but for those that have run
// before.
func (p *prepared) plannedJobs() []*workflow.Job {
	var jobs []*workflow.Job
	for _, n := range p.plan.Nodes {
		if n.Kind == workflow.JobGate && !p.earlier.has(n.Job) {
			jobs = append(jobs, n.Job)
		}
	}
	return jobs
}

// withInner gives the steps, each followed by those of the action it uses.
func withInner(steps []*workflow.Step) []*workflow.Step {
	var all []*workflow.Step
	for _, s := range steps {
		all = append(all, s)
		if s.Action != nil {
			all = append(all, withInner(s.Action.Steps)...)
		}
	}
	return all
}

// stepCheck is the preflight of one step.
type stepCheck struct {
	*prepared
	step     *workflow.Step
	given    scopes // inputs beside those of the run itself
	problems []workflow.Problem
}

func (c *stepCheck) run() []sandbox.Spec {
	if c.step.IsControl() {
		return nil
	}
	d, known := c.docker()
	if !known {
		c.laterBoxes = append(c.laterBoxes, c.step)
	}
	host := known && d.Host
	c.boxes = c.boxes || !host
	engine := ""
	if c.step.IsAgent() {
		c.agents = true
		engine = c.agent(d)
	}
	if w, err := workflow.DecodeWorkspace(c.step.Workspace, c.eval); err == nil && w.Mode == workflow.WorkspaceIsolated {
		if err := c.canIsolate(); err != nil {
			c.add(c.step.Workspace, err, "")
		} else if err := errors.Join(c.authorizeWork(w), c.canPush(w.Push)); err != nil {
			c.add(firstKey(c.step.Workspace, []string{"push"}), err, event.HintOf(err))
		}
	}
	if !known || host {
		return nil
	}
	spec := steps.BoxSpec(d, sandbox.Layout{}, defaultImage)
	spec.Project = c.dir
	if engine != "" {
		c.agentBoxes = append(c.agentBoxes, agentBox{c.step, engine, spec.Image})
	}
	return []sandbox.Spec{spec}
}

func (c *stepCheck) docker() (workflow.Docker, bool) {
	d, err := workflow.DecodeDocker(c.step.Docker, c.eval)
	if err != nil {
		c.wrong(c.step.Docker, err)
		return d, false
	}
	if d, err = c.authorize(d); err != nil {
		c.add(c.step.Docker, err, event.HintOf(err))
	}
	return d, true
}

// agent checks the runtime and the prompt file of an agent step. It returns the
// engine whose program the box must have; "" for none, or where it is not known.
func (c *stepCheck) agent(d workflow.Docker) (engine string) {
	if _, err := workflow.DecodeRuntime(c.step.Runtime, c.eval); err != nil {
		c.wrong(c.step.Runtime, err)
	}
	rt, cfg, problems := checkRuntime(c.runtimes, c.step, c.eval)
	c.problems = append(c.problems, problems...)
	if err := c.policy.Check(policy.BaseURLDemands(cfg.BaseURL)); err != nil {
		c.add(firstKey(c.step.Runtime, []string{"base-url"}), err, event.HintOf(err))
	}
	cfg.Model, cfg.FallbackModel = c.policy.Model(cfg.Model), c.policy.Model(cfg.FallbackModel)
	if key, err := c.modelProblem(cfg); err != nil {
		c.add(firstKey(c.step.Runtime, []string{key}), err, event.HintOf(err))
	}
	if rt != nil {
		about := rt.Describe()
		if about.Type == runtimes.TypeCLI {
			engine = about.Engine
		}
		if !steps.Direct(d.Auth) {
			c.needs(about.APIsFor(cfg))
		}
		c.auth(d, rt, cfg)
	}
	c.problems = append(c.problems, checkPromptFile(c.dir, c.step, c.envOf(c.step.PromptFile))...)
	return engine
}

func checkPromptFile(dir string, step *workflow.Step, env expr.Env) []workflow.Problem {
	if step.PromptFile == nil {
		return nil
	}
	name, err := workflow.EvalString(step.PromptFile, env)
	if err != nil {
		return nil // depends on the run
	}
	if _, err := steps.ReadPromptFile(dir, name); err != nil {
		return []workflow.Problem{problemAt(step, step.PromptFile, err, "")}
	}
	return nil
}

// needs notes whose API the step speaks. Of several the first may be one that
// it never asks: then the gateway looks when the step starts.
func (c *stepCheck) needs(apis []string) {
	if len(apis) == 1 && !slices.Contains(c.apis, apis[0]) {
		c.apis = append(c.apis, apis[0])
	}
}

func (c *stepCheck) add(at *workflow.Value, err error, hint string) {
	c.problems = append(c.problems, problemAt(c.step, at, err, hint))
}

// problemAt is an error of a step, placed at the value it comes from.
func problemAt(step *workflow.Step, at *workflow.Value, err error, hint string) workflow.Problem {
	pos := step.Pos
	if at != nil {
		pos = at.Pos
	}
	length := 1
	if at != nil && at.Kind == workflow.Scalar {
		length = max(1, len([]rune(strings.SplitN(at.Text, "\n", 2)[0])))
	}
	rule := "preflight"
	var refused interface{ PolicyRule() string }
	if errors.As(err, &refused) {
		rule = "policy"
	}
	file := step.File
	if from := at.File(); from != "" {
		file = from
	}
	return workflow.Problem{
		File: file, Line: pos.Line, Column: pos.Column, Length: length,
		Severity: workflow.SeverityError, Rule: rule, Message: err.Error(), Hint: hint,
	}
}

// wrong reports what is wrong with a block that does not depend on the run.
func (c *stepCheck) wrong(block *workflow.Value, err error) {
	if c.known(block) {
		c.problems = append(c.problems, workflow.Problems(c.step.File, err)...)
	}
}

// known says whether everything that the expressions in v use is known.
func (c *stepCheck) known(v *workflow.Value) bool {
	if v == nil {
		return true
	}
	for _, item := range v.Items {
		if !c.known(item) {
			return false
		}
	}
	for _, e := range v.Entries {
		if !c.known(e.Key) || !c.known(e.Value) {
			return false
		}
	}
	if v.Kind != workflow.Scalar {
		return true
	}
	_, err := c.eval(v)
	return err == nil
}

func (c *stepCheck) eval(v *workflow.Value) (expr.Value, error) {
	return workflow.Evaluate(v, c.envOf(v))
}

// envOf knows what is the same for the whole run, where v stands, and the inputs
// of an action and of a called workflow as far as its callers give constants.
func (c *stepCheck) envOf(v *workflow.Value) expr.Env {
	env := c.staticEnv()
	file := v.File()
	if file == "" && c.step != nil {
		file = c.step.File
	}
	k := c.given[file]
	if file == c.workflow.File {
		k = knownInputs{values: c.inputs}
	}
	return expr.Env{Context: func(name string) (expr.Value, bool) {
		if name == "inputs" {
			return k.values, k.values != nil && k.cover(v)
		}
		return env.Context(name)
	}}
}

// staticEnv knows what is the same for the whole run. Anything else is an error
// here, which leaves the block for later.
func (p *prepared) staticEnv() expr.Env {
	return expr.Env{Context: func(name string) (expr.Value, bool) {
		switch name {
		case "inputs":
			return p.inputs, p.inputs != nil
		case "vars":
			return p.vars, p.vars != nil
		}
		return nil, false
	}}
}
