package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/distribution/reference"

	"github.com/herd-runner/herd-runner/images"
	"github.com/herd-runner/herd-runner/internal/policy"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/steps/redact"
	"github.com/herd-runner/herd-runner/workflow"
)

// wantedImage is an image that a person names or a workflow uses.
type wantedImage struct {
	spec  sandbox.Spec // Image and Pull only
	named bool         // by the person
}

// wantedImages reads the arguments of a verb: images, workflows, or none for all
// workflows of the project. Each image comes once, and is pulled as the one who
// wants it most says.
func (a *App) wantedImages(dir string, args []string) ([]wantedImage, error) {
	var all []wantedImage
	if len(args) == 0 {
		found, err := findWorkflows(dir)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			args = append(args, f.file)
		}
	}
	for _, arg := range args {
		if ext := filepath.Ext(arg); ext == ".yml" || ext == ".yaml" {
			used, err := a.usedImages(dir, arg)
			if err != nil {
				return nil, err
			}
			for _, spec := range used {
				all = want(all, wantedImage{spec: spec})
			}
			continue
		}
		if _, err := reference.ParseNormalizedNamed(arg); err != nil {
			return nil, problem("%q is no image (%w) and no workflow (NAME.yml)", arg, err)
		}
		all = want(all, wantedImage{spec: sandbox.Spec{Image: arg, Pull: "always"}, named: true})
	}
	return all, nil
}

// eager is the order of docker.pull.
var eager = map[string]int{"never": 0, "": 1, "missing": 1, "always": 2}

func want(all []wantedImage, image wantedImage) []wantedImage {
	for i, have := range all {
		if have.spec.Image == image.spec.Image {
			if eager[image.spec.Pull] > eager[have.spec.Pull] {
				all[i].spec.Pull = image.spec.Pull
			}
			all[i].named = have.named || image.named
			return all
		}
	}
	return append(all, image)
}

// usedImages are the images of a workflow that are known before a run of it. It
// asks neither for what a run needs besides, nor for the operator's permission:
// nothing is started.
func (a *App) usedImages(dir, file string) ([]sandbox.Spec, error) {
	p, err := a.survey(dir, file)
	if err != nil {
		return nil, err
	}
	for _, step := range p.laterBoxes {
		fmt.Fprintf(a.Stderr, "%s:%d: the image of this step depends on the run, name it as well\n", step.File, step.Pos.Line)
	}
	var used []sandbox.Spec
	for _, spec := range p.specs {
		used = append(used, sandbox.Spec{Image: spec.Image, Pull: spec.Pull})
	}
	return used, nil
}

// survey reads a workflow as far as it is known before any run.
func (a *App) survey(dir, file string) (*prepared, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, problem("-C: %w", err)
	}
	p := &prepared{flags: runFlags{dir: dir}, dir: abs, app: a, masker: redact.New(), backends: &backends{app: a}}
	p.canIsolate, p.canPush = func() error { return nil }, func(string) error { return nil }
	var problems []workflow.Problem
	if p.workflow, problems, err = readWorkflow(abs, file); err != nil {
		return nil, err
	}
	if err := a.show(p.workflow, withoutPolicy(problems)); err != nil {
		return nil, err
	}
	if p.plan, problems = workflow.NewPlan(p.workflow, ""); workflow.HasErrors(problems) {
		return nil, a.show(p.workflow, problems)
	}
	if p.policy, err = policy.Load("", nil); err != nil {
		return nil, infra(err)
	}
	if p.runtimes, err = newFactory(); err != nil {
		return nil, infra(err)
	}
	if p.inputs, problems = workflow.ResolveInputs(p.workflow.On, "workflow_dispatch", nil); workflow.HasErrors(problems) {
		p.inputs = nil // some must be given: what uses them depends on the run
	}
	return p, a.show(p.workflow, withoutPolicy(p.preflight()))
}

// withoutPolicy drops what only a run is refused for.
func withoutPolicy(problems []workflow.Problem) []workflow.Problem {
	var kept []workflow.Problem
	for _, pr := range problems {
		if pr.Severity != workflow.SeverityNote && !strings.HasPrefix(pr.Rule, "policy") {
			kept = append(kept, pr)
		}
	}
	return kept
}

// buildAdvice says how an image of ours is made.
func buildAdvice(ref string) string {
	args, ok := images.BuildArgs(ref)
	if !ok {
		return "images herd-runner/… are built here, this one with: herd-runner image build --tag " + ref + "; or name another one in docker.image"
	}
	return "build it: herd-runner image build " + strings.Join(args, " ") + ", or add --build to the run; or name another one in docker.image"
}
