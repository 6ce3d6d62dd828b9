package main

import (
	"errors"
	"maps"

	"github.com/herd-runner/herd-runner/internal/journal"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// source is where a run has its workflow and what it starts with from.
type source struct {
	file    string   // of the workflow
	earlier *earlier // the run whose record says all of it; nil: file and flags do
}

func (s source) workflow(dir string) (*workflow.Workflow, []workflow.Problem, error) {
	if s.earlier != nil {
		return s.earlier.workflow(dir)
	}
	return readWorkflow(dir, s.file)
}

func (s source) given(a *App, dir string, f runFlags) (journal.Given, error) {
	if s.earlier != nil {
		return s.earlier.given, nil
	}
	g := journal.Given{Workflow: s.file, Job: f.job}
	var err error
	if g.Inputs, err = readInputs(dir, f.inputsFile, f.inputs); err != nil {
		return g, err
	}
	if g.Vars, err = pairs("--var", f.vars); err != nil {
		return g, err
	}
	if err := a.readEvent(&g, dir, f); err != nil {
		return g, err
	}
	g.InputsEvent = g.EventName
	if len(g.Inputs) > 0 && f.eventName == "" {
		// Who gives inputs dispatches the workflow, whatever event CI is in.
		g.InputsEvent = "workflow_dispatch"
	}
	return g, nil
}

// readEvent takes the event from --event, or from GitHub's environment.
func (a *App) readEvent(g *journal.Given, dir string, f runFlags) error {
	file := f.event
	if file == "" && a.Getenv("GITHUB_ACTIONS") == "true" {
		file = a.Getenv("GITHUB_EVENT_PATH")
	}
	g.EventName = f.eventName
	if g.EventName == "" {
		g.EventName = a.Getenv("GITHUB_EVENT_NAME")
	}
	if g.EventName == "" {
		g.EventName = "workflow_dispatch"
	}
	if file == "" {
		return nil
	}
	b, err := readBounded(under(dir, file))
	if err != nil {
		return problem("--event: %w", err)
	}
	payload, err := readPayload(b)
	if err != nil {
		return problem("--event %s: %w", file, err)
	}
	g.Payload = expr.AppendJSON(nil, payload)
	return nil
}

// readPayload reads github.event.
func readPayload(b []byte) (*expr.Object, error) {
	v, err := expr.FromJSON(b)
	if err != nil {
		return nil, err
	}
	o, ok := v.(*expr.Object)
	if !ok {
		return nil, errors.New("expected a JSON object")
	}
	return o, nil
}

// notRecalled are the fields of the github context that each run has its own of,
// and the event, which is made of what else is recorded.
var notRecalled = []string{"event", "event_path", "token", "triggering_actor", "workspace"}

// toRecord is what the run starts with, but for what is secret.
func (p *prepared) toRecord(contexts func(string, bool) (expr.Value, bool)) journal.Given {
	g := p.given
	g.Files = map[string]*journal.File{}
	keep := func(name string, text []byte) {
		g.Files[name] = journal.NewFile(text, !p.masker.Contains(string(text)))
	}
	for _, name := range sortedKeys(p.workflow.Sources) {
		keep(name, p.workflow.Sources[name])
	}
	keep(g.Workflow, p.workflow.Src)
	withhold := func(kind string, values map[string]string) map[string]string {
		kept := maps.Clone(values)
		for _, name := range sortedKeys(values) {
			if p.masker.Contains(name + "=" + values[name]) {
				delete(kept, name)
				g.Withheld = append(g.Withheld, kind+" "+p.masker.String(name))
			}
		}
		return kept
	}
	g.Inputs, g.Vars = withhold("input", g.Inputs), withhold("variable", g.Vars)
	if p.masker.Contains(string(g.Payload)) {
		g.Payload, g.Withheld = nil, append(g.Withheld, "the event")
	}
	v, _ := contexts("github", true)
	if context, ok := v.(*expr.Object); ok {
		kept := expr.NewObject()
		for _, key := range context.Keys() {
			if v, _ := context.Get(key); !p.masker.Contains(string(expr.AppendJSON(nil, v))) {
				kept.Set(key, v)
			}
		}
		for _, key := range notRecalled {
			kept.Delete(key)
		}
		g.GitHub = expr.AppendJSON(nil, kept)
	}
	g.Secrets, g.Env = sortedKeys(p.secrets), sortedKeys(p.env)
	return g
}
