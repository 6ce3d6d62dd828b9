package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/steps"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// checkAgents tells what the agent steps of a file, and of all it uses, ask of
// runtimes that these can not do, and which of their prompt files can not be read.
// What holds expressions is looked at before or in the run. dir is absolute.
func checkAgents(dir string, w *workflow.Workflow) ([]workflow.Problem, error) {
	factory, err := newFactory()
	if err != nil {
		return nil, err
	}
	files := withCalled(w)
	chooser := newChooser(factory, func(*workflow.Step) workflow.EvalFunc { return constantEval }, files)
	var problems []workflow.Problem
	for _, file := range files {
		for _, job := range file.Jobs {
			for _, step := range withInner(job.Steps) {
				problems = append(problems, checkPromptFile(dir, step, constantEnv)...)
				switch {
				case isAuto(step):
					problems = append(problems, chooser.noteAuto(step)...)
				case step.IsAgent():
					rt, _, found := checkRuntime(factory, step, constantEval)
					problems = append(problems, found...)
					problems = append(problems, checkSource(factory, rt, step, file.SessionSource(job, step), constantEval)...)
				}
			}
		}
	}
	return problems, nil
}

// constantEnv knows no context.
var constantEnv = expr.Env{Context: func(string) (expr.Value, bool) { return nil, false }}

func constantEval(v *workflow.Value) (expr.Value, error) { return workflow.Evaluate(v, constantEnv) }

// withCalled is a workflow and all that it calls, each once.
func withCalled(w *workflow.Workflow) []*workflow.Workflow {
	files := []*workflow.Workflow{w}
	for i := 0; i < len(files); i++ {
		for _, job := range files[i].Jobs {
			if called := job.Called; called != nil && !slices.Contains(files, called) {
				files = append(files, called)
			}
		}
	}
	return files
}

// checkSources is checkSource for the steps of a run.
func (p *prepared) checkSources() []workflow.Problem {
	var problems []workflow.Problem
	for _, w := range withCalled(p.workflow) {
		for _, job := range w.Jobs {
			for _, step := range job.Steps {
				source := w.SessionSource(job, step)
				if source == nil {
					continue
				}
				eval := (&stepCheck{prepared: p, step: step}).eval
				rt, _, _ := checkRuntime(p.runtimes, step, eval)
				problems = append(problems, checkSource(p.runtimes, rt, step, source, eval)...)
			}
		}
	}
	return problems
}

// checkRuntime chooses the runtime of an agent step and tells what it can not
// do, each at the key that asks for it. The runtime is nil where there is none
// such, or where the block depends on the run.
func checkRuntime(factory *runtimes.Factory, step *workflow.Step, eval workflow.EvalFunc) (runtimes.Runtime, runtimes.Config, []workflow.Problem) {
	r, err := workflow.DecodeRuntime(step.Runtime, eval)
	if err != nil {
		return nil, runtimes.Config{}, nil
	}
	var problems []workflow.Problem
	cfg := steps.RuntimeConfig(r)
	if cfg.Type == runtimes.TypeAuto {
		return nil, cfg, nil
	}
	rt, err := factory.Pick(cfg)
	if err != nil {
		return nil, cfg, append(problems, problemAt(step, firstKey(step.Runtime, []string{"engine", "type"}), err, event.HintOf(err)))
	}
	hint := ""
	if err = runtimes.Check(rt, cfg); err != nil {
		hint = whoCan(factory, rt, cfg)
	} else {
		_, err = rt.Command(probe(cfg))
	}
	var wrong runtimes.Problems
	switch {
	case errors.As(err, &wrong):
		for _, p := range wrong {
			problems = append(problems, problemAt(step, entryOf(firstKey(step.Runtime, p.Keys), p.Entry), errors.New(p.Text), hint))
		}
	case err != nil:
		problems = append(problems, problemAt(step, step.Runtime, err, event.HintOf(err)))
	}
	return rt, cfg, problems
}

// checkSource tells where a step goes on with the session of another whose agent
// keeps its sessions in another way.
func checkSource(factory *runtimes.Factory, rt runtimes.Runtime, step, source *workflow.Step, eval workflow.EvalFunc) []workflow.Problem {
	if rt == nil || source == nil || len(rt.Describe().SessionState) == 0 {
		return nil
	}
	r, err := workflow.DecodeRuntime(source.Runtime, eval)
	if err != nil {
		return nil
	}
	other, err := factory.Pick(steps.RuntimeConfig(r))
	if err != nil || slices.Equal(other.Describe().SessionState, rt.Describe().SessionState) {
		return nil
	}
	return []workflow.Problem{problemAt(step, step.Runtime.Get("session"),
		fmt.Errorf("step %q runs with %s, whose sessions runtime %s cannot go on with", source.ID, other.Describe().Name, rt.Describe().Name),
		"give both steps the same runtime")}
}

// probe is a task in some box: a command line that can not be made then can not
// be made later.
func probe(cfg runtimes.Config) runtimes.Task {
	return runtimes.Task{
		Prompt: "-", Config: cfg,
		SessionID:  "00000000-0000-4000-8000-000000000000",
		Credential: runtimes.Credential{Kind: "api-key", Token: "-"},
		Box: sandbox.Info{Backend: "docker", Workdir: "/workspace", Home: "/home", Temp: "/tmp",
			Runner: "/herd-runner", Gateway: "127.0.0.1:1"},
	}
}

// firstKey is the value at the first of keys that the block has, else the block.
func firstKey(block *workflow.Value, keys []string) *workflow.Value {
	for _, key := range keys {
		if v := block.Get(key); v != nil {
			return v
		}
	}
	return block
}

// entryOf is the item or the key of v that reads entry, else v.
func entryOf(v *workflow.Value, entry string) *workflow.Value {
	if entry == "" {
		return v
	}
	for _, item := range v.Items {
		if item.Text == entry {
			return item
		}
	}
	for _, e := range v.Entries {
		if e.Key.Text == entry {
			return e.Key
		}
	}
	return v
}

// whoCan names the runtimes that could do what cfg asks; "" for none, or where
// no runtime could.
func whoCan(factory *runtimes.Factory, not runtimes.Runtime, cfg runtimes.Config) string {
	var can []string
	for _, d := range factory.All() {
		other, err := factory.Pick(runtimes.Config{Type: d.Type, Engine: d.Engine})
		if err == nil && d.Name != not.Describe().Name && d.Engine != "command" && runtimes.Check(other, cfg) == nil {
			can = append(can, d.Type+"/"+d.Engine)
		}
	}
	if len(can) == 0 {
		return ""
	}
	return "runtimes that can (type/engine): " + strings.Join(can, ", ") + "; `herd-runner runtimes` shows all"
}
