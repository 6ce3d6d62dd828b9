package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/gateway"
	"github.com/herd-runner/herd-runner/internal/journal"
	"github.com/herd-runner/herd-runner/internal/policy"
	"github.com/herd-runner/herd-runner/internal/workspace"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/steps"
	"github.com/herd-runner/herd-runner/steps/redact"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// prepared is a workflow with everything a run of it needs, all of it checked.
type prepared struct {
	flags    runFlags
	dir      string // absolute
	workflow *workflow.Workflow
	plan     *workflow.Plan

	// given is what it starts with, as a rerun would start with it again.
	given   journal.Given
	earlier *earlier     // the run that it goes on from; nil: none
	payload *expr.Object // github.event; nil: none given
	inputs  *expr.Object
	secrets map[string]string
	vars    *expr.Object
	env     map[string]string // --env-file
	masker  *redact.Masker

	policy   *policy.Policy
	runtimes *runtimes.Factory
	gateway  *gateway.Gateway // nil: no agent step
	// credentials are the operator's, secrets of the run as soon as they are known.
	credentials gateway.CredentialSource
	budgets     []steps.BudgetLevel
	backends    *backends
	boxes       bool // some step runs in a box
	// canIsolate says why the project can not have isolated workspaces.
	canIsolate func() error
	// canPush says why it has no such remote.
	canPush func(remote string) error
	agents  bool
	apis    []string       // that agent steps speak, as far as it is known before the run
	specs   []sandbox.Spec // of the boxes that are known before the run
	// specSteps are the steps that the specs are of.
	specSteps []*workflow.Step
	// laterBoxes are the steps whose box depends on the run.
	laterBoxes []*workflow.Step
	// agentBoxes are the agent steps in boxes that are known before the run.
	agentBoxes []agentBox
	app        *App
	chosen     []chosen // for `runtime: auto`
	describe   []string // for --dry-run
}

// prepare reads and checks everything that can be checked before a run starts.
func (a *App) prepare(ctx context.Context, src source, f runFlags) (*prepared, error) {
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return nil, problem("-C: %w", err)
	}
	if err := errors.Join(canWrite("--summary-file", dir, f.summaryFile), canWrite("--result-file", dir, f.resultFile)); err != nil {
		return nil, problem("%w", err)
	}
	if err := journal.CanCreate(dir); err != nil {
		return nil, infra(err)
	}
	p := &prepared{flags: f, dir: dir, app: a, earlier: src.earlier, masker: redact.New(), backends: &backends{app: a}}
	p.canIsolate = sync.OnceValue(func() error { return workspace.CanIsolate(dir) })
	p.canPush = func(remote string) error { return workspace.CanPush(ctx, dir, remote) }
	var problems []workflow.Problem
	if p.workflow, problems, err = src.workflow(dir); err != nil {
		return nil, err
	}
	if p.given, err = src.given(a, dir, f); err != nil {
		return nil, err
	}
	policyFile, err := a.policyFile(f)
	if err != nil {
		return nil, problem("--policy: %w", err)
	}
	if p.policy, err = policy.Load(policyFile, f.allow); err != nil {
		return nil, problem("%w", err)
	}
	p.credentials = masked(a.credentials(p.policy), p.masker)
	if err := a.show(p.workflow, p.permitted(problems)); err != nil {
		return nil, err
	}
	if p.plan, problems = workflow.NewPlan(p.workflow, p.given.Job); workflow.HasErrors(problems) {
		return nil, a.show(p.workflow, problems)
	}
	if err := p.readValues(a); err != nil {
		return nil, err
	}
	if err := p.earlier.takeOver(ctx, p); err != nil {
		return nil, err
	}
	if f.locked {
		lock, err := readLock(dir)
		if err != nil {
			return nil, problem("%w", err)
		}
		p.backends.pin = lock.pin
	}
	if p.runtimes, err = newFactory(); err != nil {
		return nil, infra(err)
	}
	if p.budgets, problems = p.runBudgets(); len(problems) > 0 {
		return nil, a.show(p.workflow, problems)
	}
	if problems, err = p.chooseRuntimes(ctx); err != nil {
		return nil, err
	}
	problems = append(problems, p.preflight()...)
	problems = append(problems, p.checkSources()...)
	problems = append(problems, p.missingSecrets()...)
	if err := a.show(p.workflow, problems); err != nil {
		return nil, err
	}
	if p.agents {
		if p.gateway, err = newGateway(a, p); err != nil {
			return nil, problem("%w", err)
		}
		if err := p.gateway.Preflight(ctx, p.apis, p.certainLanes(nil, p.plan)...); err != nil {
			return nil, problem("%w", err)
		}
	}
	return p, a.preflightBoxes(ctx, p)
}

// preflightBoxes asks the backend whether the boxes can be had, and shows what
// can not at its place in the file.
func (a *App) preflightBoxes(ctx context.Context, p *prepared) error {
	if !p.boxes {
		return nil
	}
	if err := workspace.Check(p.dir); err != nil {
		return infra(err)
	}
	backend, err := p.backends.get(ctx, false)
	if err != nil {
		return infra(err)
	}
	if p.flags.build {
		if err := a.buildMissing(ctx, p); err != nil {
			return errors.Join(err, p.backends.close(ctx))
		}
	}
	var problems []workflow.Problem
	code := exitProblem
	asked := map[string]bool{}
	for i, spec := range p.specs {
		key := fmt.Sprintf("%+v", spec)
		if asked[key] {
			continue
		}
		asked[key] = true
		if err := backend.Preflight(ctx, []sandbox.Spec{spec}); err != nil {
			problems = append(problems, p.boxProblem(p.specSteps[i], err))
			if failed := (*sandbox.Error)(nil); !errors.As(err, &failed) || failed.Kind != sandbox.KindLocked {
				code = exitInfra
			}
		}
	}
	lacking, err := p.lackingImages(ctx, p.backends.docker)
	if err != nil {
		return errors.Join(infra(err), p.backends.close(ctx))
	}
	if len(lacking) > 0 {
		problems, code = append(problems, lacking...), exitInfra
	}
	if a.show(p.workflow, problems) != nil {
		return errors.Join(shown(code), p.backends.close(ctx))
	}
	return nil
}

// boxProblem places the reason why a step's box can not be had.
func (p *prepared) boxProblem(step *workflow.Step, err error) workflow.Problem {
	key := "image"
	if failed := (*sandbox.Error)(nil); errors.As(err, &failed) && failed.Kind == sandbox.KindAccess {
		key = "user"
	}
	check := stepCheck{prepared: p, step: step}
	check.add(firstKey(step.Docker, []string{key}), err, event.HintOf(err))
	problem := check.problems[0]
	problem.Rule = "box"
	return problem
}

// show renders problems and is an error when one of them is.
func (a *App) show(w *workflow.Workflow, problems []workflow.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	w.RenderText(a.Stderr, problems, a.color(a.Stderr))
	if workflow.HasErrors(problems) {
		return shown(exitProblem)
	}
	return nil
}

// permitted drops the problems that the operator's policy allows.
func (p *prepared) permitted(problems []workflow.Problem) []workflow.Problem {
	kept := problems[:0:0]
	for _, pr := range problems {
		if pr.Severity == workflow.SeverityNote {
			continue // for who validates the file
		}
		if rule, ok := strings.CutPrefix(pr.Rule, "policy:"); ok {
			if _, allowed := p.policy.Allows(rule); allowed {
				continue
			}
		}
		kept = append(kept, pr)
	}
	return kept
}

func (p *prepared) name() string {
	if p.workflow.Name != nil && p.workflow.Name.Text != "" {
		return p.workflow.Name.Text
	}
	return p.workflow.File
}

// readValues reads secrets and environment, and takes what the run is given.
func (p *prepared) readValues(a *App) (err error) {
	f := p.flags
	if p.secrets, err = readSecrets(p.dir, f.secretFile, f.secrets, a.Getenv); err != nil {
		return err
	}
	for _, v := range p.secrets {
		p.masker.Add(v)
	}
	if f.envFile != "" {
		b, err := readBounded(under(p.dir, f.envFile))
		if err != nil {
			return problem("--env-file: %w", err)
		}
		if p.env, err = parseDotEnv(f.envFile, b); err != nil {
			return problem("--env-file: %w", err)
		}
	}
	if err := p.earlier.missing(p.secrets, p.env); err != nil {
		return err
	}
	p.vars, _ = expr.FromGo(p.given.Vars).(*expr.Object)
	if len(p.given.Payload) > 0 {
		if p.payload, err = readPayload(p.given.Payload); err != nil {
			return problem("event: %w", err)
		}
	}
	var problems []workflow.Problem
	p.inputs, problems = workflow.ResolveInputs(p.workflow.On, p.given.InputsEvent, p.given.Inputs)
	for i := range problems {
		problems[i].File = p.workflow.File
	}
	return a.show(p.workflow, problems)
}

// labels are the "job/step" known before the run.
func (p *prepared) labels() []string { return labelsOf(nil, p.plan) }

// eventJSON is github.event for GITHUB_EVENT_PATH: the payload, or what is known
// of the event without one.
func eventJSON(contexts func(string, bool) (expr.Value, bool)) []byte {
	v, _ := contexts("github", true)
	github, ok := v.(*expr.Object)
	if !ok {
		return []byte("{}")
	}
	event, ok := github.Get("event")
	if _, is := event.(*expr.Object); !ok || !is {
		return []byte("{}")
	}
	return expr.AppendJSON(nil, event)
}

// missingSecrets finds secrets that the workflow, or one that inherits its
// secrets, names and nobody gave. A called workflow may declare that it does
// without.
func (p *prepared) missingSecrets() []workflow.Problem {
	var problems []workflow.Problem
	for _, part := range p.parts() {
		if !part.inherits {
			continue
		}
		optional := map[string]bool{}
		if part.workflow.Call != nil {
			for _, s := range part.workflow.Call.Secrets {
				optional[strings.ToLower(s.Name)] = !s.Required
			}
		}
		for _, ref := range workflow.References(part.workflow, part.jobs) {
			if ref.Name != "secrets" || len(ref.Path) == 0 {
				continue
			}
			name := ref.Path[0]
			if strings.EqualFold(name, "GITHUB_TOKEN") || name == "*" || hasFold(p.secrets, name) || optional[strings.ToLower(name)] {
				continue
			}
			problems = append(problems, workflow.Problem{
				File: part.workflow.File, Line: ref.Pos.Line, Column: ref.Pos.Column, Length: ref.Length,
				Severity: workflow.SeverityError, Rule: "secret",
				Message: fmt.Sprintf("secret %q was not given", name),
				Hint:    fmt.Sprintf("export it and pass --secret %s, or put it into a file for --secret-file", name),
			})
		}
	}
	return problems
}

func hasFold(m map[string]string, name string) bool {
	for k := range m {
		if strings.EqualFold(k, name) {
			return true
		}
	}
	return false
}

func (p *prepared) authorize(d workflow.Docker) (workflow.Docker, error) {
	if err := p.policy.Authorize(d, p.dir); err != nil {
		return d, err
	}
	var err error
	d.Volumes, err = policy.ResolveVolumes(d, p.dir)
	return d, err
}

func (p *prepared) authorizeWork(w workflow.Workspace) error {
	return p.policy.Check(policy.WorkspaceDemands(w))
}

func (p *prepared) serverTools() bool {
	_, ok := p.policy.Allows("server-tools")
	return ok
}

func (p *prepared) agentSecrets() bool {
	_, ok := p.policy.Allows("agent-secrets")
	return ok
}

// pickRuntime also asks the policy: a credential goes to where base-url says, and
// models cost.
func (p *prepared) pickRuntime(cfg runtimes.Config) (runtimes.Runtime, error) {
	if err := p.policy.Check(policy.BaseURLDemands(cfg.BaseURL)); err != nil {
		return nil, err
	}
	if _, err := p.modelProblem(cfg); err != nil {
		return nil, err
	}
	rt, err := p.runtimes.Pick(cfg)
	if err != nil {
		return nil, err
	}
	return rt, runtimes.Check(rt, cfg)
}

// sortedKeys gives a map's keys in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
