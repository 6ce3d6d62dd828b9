package main

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/herd-runner/herd-runner/internal/github"
	"github.com/herd-runner/herd-runner/internal/workspace"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// contexts gives the contexts that are the same for the whole run. Each is
// built at its first use: a workflow that never asks for github.sha must not
// pay for reading the repository.
func (p *prepared) contexts(runID, root string) func(name string, onHost bool) (expr.Value, bool) {
	var mu sync.Mutex
	built := map[string]expr.Value{}
	return func(name string, onHost bool) (expr.Value, bool) {
		mu.Lock()
		defer mu.Unlock()
		key := name
		if onHost {
			key += " on the host"
		}
		if v, ok := built[key]; ok {
			return v, true
		}
		v, ok := p.context(name, runID, place(root, onHost))
		if ok {
			built[key] = v
		}
		return v, ok
	}
}

// place is where the workspace is for a step.
func place(root string, onHost bool) string {
	if onHost {
		return root
	}
	return workspace.BoxDir
}

func (p *prepared) context(name, runID, workspaceDir string) (expr.Value, bool) {
	switch name {
	case "github":
		return p.githubContext(runID, workspaceDir), true
	case "inputs":
		return p.inputs, true
	case "vars":
		return p.vars, true
	case "secrets":
		o := expr.NewObject()
		for _, k := range sortedKeys(p.secrets) {
			o.Set(k, p.secrets[k])
		}
		if _, ok := o.Get("GITHUB_TOKEN"); !ok {
			if token := p.app.Getenv("GITHUB_TOKEN"); token != "" {
				p.masker.Add(token)
				o.Set("GITHUB_TOKEN", token)
			}
		}
		return o, true
	case "runner":
		return p.runnerContext(workspaceDir), true
	}
	return nil, false
}

// runnerContext says what the step's machine is: boxes are Linux.
func (p *prepared) runnerContext(workspaceDir string) *expr.Object {
	o := expr.NewObject()
	goos := "linux"
	if workspaceDir != workspace.BoxDir {
		goos = runtime.GOOS
	}
	name, _ := os.Hostname()
	o.Set("name", name)
	o.Set("os", github.RunnerOS(goos))
	o.Set("arch", github.RunnerArch(runtime.GOARCH))
	o.Set("environment", "self-hosted")
	if workspaceDir == workspace.BoxDir {
		o.Set("temp", workspace.BoxTemp)
	} else {
		o.Set("temp", os.TempDir())
	}
	return o
}

// githubContext is github as a step sees it whose workspace is workspaceDir.
func (p *prepared) githubContext(runID, workspaceDir string) *expr.Object {
	checkout, err := github.ReadCheckout(p.dir)
	if err != nil {
		checkout = github.Checkout{} // a broken checkout is as good as none
	}
	file := p.workflow.File
	if rel, err := filepath.Rel(checkout.Root, under(p.dir, file)); err == nil && checkout.Root != "" && filepath.IsLocal(rel) {
		file = rel
	}
	token := p.secrets["GITHUB_TOKEN"]
	if token == "" {
		token = p.app.Getenv("GITHUB_TOKEN")
	}
	p.masker.Add(token)
	context := github.Context(github.Options{
		Getenv: p.app.Getenv, Workspace: workspaceDir, Workflow: p.name(), File: file, RunID: runID,
		Token: token, EventName: p.given.EventName, Event: p.payload, OwnEvent: p.flags.event != "", Inputs: p.inputs,
	}, checkout)
	p.earlier.recall(context)
	return context
}

// environment gives the variables every step starts with: GitHub's, then
// --env-file.
func (p *prepared) environment(contexts func(string, bool) (expr.Value, bool), runID string) func(sandbox.Info) map[string]string {
	hostname, _ := os.Hostname()
	return func(info sandbox.Info) map[string]string {
		v, _ := contexts("github", info.Backend == "host")
		context, _ := v.(*expr.Object)
		env := github.Environment(context, github.Runner{
			GOOS: info.OS, GOARCH: info.Arch, Name: hostname, RunID: runID,
		})
		maps.Copy(env, p.env)
		return env
	}
}
