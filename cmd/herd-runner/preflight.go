package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/internal/report"
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
	seen := map[*workflow.Step]bool{}
	for _, part := range p.parts() {
		for _, job := range part.jobs {
			for _, step := range withInner(job.Steps) {
				if seen[step] || step.Uses != nil {
					continue
				}
				seen[step] = true
				check := stepCheck{prepared: p, step: step}
				for _, spec := range check.run() {
					p.specs, p.specSteps = append(p.specs, spec), append(p.specSteps, step)
				}
				problems = append(problems, check.problems...)
			}
		}
	}
	return problems
}

// plannedJobs are the jobs of the plan in file order.
func (p *prepared) plannedJobs() []*workflow.Job {
	var jobs []*workflow.Job
	for _, n := range p.plan.Nodes {
		if n.Kind == workflow.JobGate {
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
	problems []workflow.Problem
}

func (c *stepCheck) run() []sandbox.Spec {
	if c.step.IsControl() {
		return nil
	}
	d, known := c.docker()
	host := known && d.Host
	c.boxes = c.boxes || !host
	engine := ""
	if c.step.IsAgent() {
		c.agents = true
		engine = c.agent()
	}
	if w, err := workflow.DecodeWorkspace(c.step.Workspace, c.eval); err == nil && w.Mode == workflow.WorkspaceIsolated {
		if err := c.canIsolate(); err != nil {
			c.add(c.step.Workspace, err, "")
		}
	}
	if !known || host {
		return nil
	}
	spec := steps.BoxSpec(d, sandbox.Layout{}, defaultImage)
	if engine != "" {
		c.agentBoxes = append(c.agentBoxes, agentBox{c.step, engine, spec.Image})
	}
	return []sandbox.Spec{spec}
}

func (c *stepCheck) docker() (workflow.Docker, bool) {
	d, err := workflow.DecodeDocker(c.step.Docker, c.eval)
	if err != nil {
		return d, false
	}
	if d.Auth != "" && d.Auth != "gateway" {
		c.add(c.step.Docker, fmt.Errorf("docker.auth: %q is not supported yet", d.Auth), "leave it out: the gateway keeps credentials out of the box")
	}
	if d, err = c.authorize(d); err != nil {
		c.add(c.step.Docker, err, report.Hint(err))
	}
	return d, true
}

// agent checks the runtime and the prompt file of an agent step. It returns the
// engine whose program the box must have; "" for none, or where it is not known.
func (c *stepCheck) agent() (engine string) {
	r, err := workflow.DecodeRuntime(c.step.Runtime, c.eval)
	if err == nil {
		if r.Session != "" {
			c.add(c.step.Runtime, errors.New("runtime.session is not supported yet"), "remove it")
		}
		cfg := steps.RuntimeConfig(r)
		rt, err := c.pickRuntime(cfg)
		if err != nil {
			c.add(c.step.Runtime, err, report.Hint(err))
		} else {
			d := rt.Describe()
			if d.Type == runtimes.TypeCLI {
				engine = d.Engine
			}
			c.needs(d.APIsFor(cfg.Model))
		}
	}
	if c.step.PromptFile != nil {
		name, err := workflow.EvalString(c.step.PromptFile, c.envOf(c.step.PromptFile))
		if err != nil {
			return engine // depends on the run
		}
		if _, err := steps.ReadPromptFile(c.dir, name); err != nil {
			c.add(c.step.PromptFile, err, "")
		}
	}
	return engine
}

// needs notes whose API the step speaks. Of several the first may be one that
// it never asks: then the gateway looks when the step starts.
func (c *stepCheck) needs(apis []string) {
	if len(apis) == 1 && !slices.Contains(c.apis, apis[0]) {
		c.apis = append(c.apis, apis[0])
	}
}

func (c *stepCheck) add(at *workflow.Value, err error, hint string) {
	pos := c.step.Pos
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
	file := c.step.File
	if from := at.File(); from != "" {
		file = from
	}
	c.problems = append(c.problems, workflow.Problem{
		File: file, Line: pos.Line, Column: pos.Column, Length: length,
		Severity: workflow.SeverityError, Rule: rule, Message: err.Error(), Hint: hint,
	})
}

func (c *stepCheck) eval(v *workflow.Value) (expr.Value, error) {
	return workflow.Evaluate(v, c.envOf(v))
}

// envOf knows what is the same for the whole run, where v stands: the inputs of
// an action and of a called workflow are known only when it runs.
func (c *stepCheck) envOf(v *workflow.Value) expr.Env {
	env := c.staticEnv()
	file := v.File()
	if file == "" {
		file = c.step.File
	}
	if file == c.workflow.File {
		return env
	}
	return expr.Env{Context: func(name string) (expr.Value, bool) {
		if name == "inputs" {
			return nil, false
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
			return p.inputs, true
		case "vars":
			return p.vars, true
		}
		return nil, false
	}}
}
