package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/images"
	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/gateway"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox/docker"
	"github.com/herd-runner/herd-runner/steps"
	"github.com/herd-runner/herd-runner/workflow"
)

// chooser finds the runtimes of steps that leave the choice to the runner. What
// steps ask of each other counts: those that go on with one session have runtimes
// that read it.
type chooser struct {
	factory *runtimes.Factory
	eval    func(*workflow.Step) workflow.EvalFunc
	// machine says what this machine has against a runtime; nil: only what the
	// file asks counts.
	machine func(*workflow.Step, runtimes.Runtime, runtimes.Config) string

	linked map[*workflow.Step][]*workflow.Step // by a session, both ways
	able   map[*workflow.Step]runtimes.Choice  // regardless of sessions
}

func newChooser(factory *runtimes.Factory, eval func(*workflow.Step) workflow.EvalFunc, files []*workflow.Workflow) *chooser {
	c := &chooser{factory: factory, eval: eval, linked: map[*workflow.Step][]*workflow.Step{}, able: map[*workflow.Step]runtimes.Choice{}}
	for _, w := range files {
		for _, job := range w.Jobs {
			for _, s := range job.Steps {
				if source := w.SessionSource(job, s); source != nil {
					c.linked[s] = append(c.linked[s], source)
					c.linked[source] = append(c.linked[source], s)
				}
			}
		}
	}
	return c
}

// isAuto says whether the step leaves the choice of its runtime to the runner.
func isAuto(step *workflow.Step) bool {
	at := step.Runtime.Get("type")
	return step.IsAgent() && at != nil && at.Text == runtimes.TypeAuto
}

// choice gives what a step with `runtime: auto` may have.
func (c *chooser) choice(step *workflow.Step) (runtimes.Choice, error) {
	r, err := workflow.DecodeRuntime(step.Runtime, c.eval(step))
	if err != nil {
		return runtimes.Choice{}, err
	}
	group := c.group(step)
	return c.factory.Choose(steps.RuntimeConfig(r), func(rt runtimes.Runtime, cfg runtimes.Config) string {
		if why := c.against(step, rt, cfg); why != "" {
			return why
		}
		for _, other := range group {
			if !c.reads(other, rt.Describe().SessionState) {
				return fmt.Sprintf("step %s, which shares its session, can not have one that reads it", other.ID)
			}
		}
		return ""
	}), nil
}

// group are the other steps that a session links to the step.
func (c *chooser) group(step *workflow.Step) []*workflow.Step {
	group := []*workflow.Step{step}
	for i := 0; i < len(group); i++ {
		for _, s := range c.linked[group[i]] {
			if !slices.Contains(group, s) {
				group = append(group, s)
			}
		}
	}
	return group[1:]
}

// reads says whether the step has, or can have, a runtime with such sessions. One
// that is not known yet may.
func (c *chooser) reads(step *workflow.Step, state []string) bool {
	r, err := workflow.DecodeRuntime(step.Runtime, c.eval(step))
	if err != nil {
		return true
	}
	cfg := steps.RuntimeConfig(r)
	if !isAuto(step) {
		rt, err := c.factory.Pick(cfg)
		return err != nil || slices.Equal(rt.Describe().SessionState, state)
	}
	choice, known := c.able[step]
	if !known {
		choice = c.factory.Choose(cfg, func(rt runtimes.Runtime, cfg runtimes.Config) string { return c.against(step, rt, cfg) })
		c.able[step] = choice
	}
	return slices.ContainsFunc(choice.Able, func(rt runtimes.Runtime) bool { return slices.Equal(rt.Describe().SessionState, state) })
}

func (c *chooser) against(step *workflow.Step, rt runtimes.Runtime, cfg runtimes.Config) string {
	if _, err := rt.Command(probe(cfg)); err != nil {
		return err.Error()
	}
	if c.machine == nil {
		return ""
	}
	return c.machine(step, rt, cfg)
}

// noneFits is the problem of a step that no runtime fits.
func noneFits(step *workflow.Step, choice runtimes.Choice) workflow.Problem {
	why, hint := "`runtime: auto` finds no runtime that fits this step", strings.Join(choice.Passed, "; ")+"; `herd-runner doctor` tells of credentials, `herd-runner runtimes` what each can do"
	if reason := common(choice.Passed); reason != "" {
		why, hint = why+": "+reason, ""
	}
	p := problemAt(step, step.Runtime.Get("type"), errors.New(why), hint)
	p.Rule = "auto"
	return p
}

// common is the reason for which several were passed over, all of them; empty
// where they differ.
func common(passed []string) string {
	if len(passed) < 2 {
		return ""
	}
	_, reason, _ := strings.Cut(passed[0], ": ")
	for _, p := range passed[1:] {
		if !strings.HasSuffix(p, ": "+reason) {
			return ""
		}
	}
	return reason
}

// noteAuto tells, without a machine to run on, what may become of the step.
func (c *chooser) noteAuto(step *workflow.Step) []workflow.Problem {
	choice, err := c.choice(step)
	if err != nil {
		return nil // depends on the run, or is reported
	}
	if len(choice.Able) == 0 {
		return []workflow.Problem{noneFits(step, choice)}
	}
	note := problemAt(step, step.Runtime.Get("type"), errors.New("auto is the first of these whose credential and program are there: "+paths(choice.Able)),
		strings.Join(choice.Passed, "; "))
	note.Severity, note.Rule = workflow.SeverityNote, "auto"
	return []workflow.Problem{note}
}

// graphAuto says below a graph what may become of `runtime: auto` in it.
func (a *App) graphAuto(w *workflow.Workflow, plan *workflow.Plan) error {
	factory, err := newFactory()
	if err != nil {
		return infra(err)
	}
	chooser := newChooser(factory, func(*workflow.Step) workflow.EvalFunc { return constantEval }, withCalled(w))
	for _, job := range (&prepared{plan: plan}).plannedJobs() {
		for _, step := range withInner(job.Steps) {
			if !isAuto(step) {
				continue
			}
			for _, p := range chooser.noteAuto(step) {
				fmt.Fprintf(a.Stdout, "%s/%s: %s\n", job.ID, step.ID, p.Message)
			}
		}
	}
	return nil
}

func paths(rts []runtimes.Runtime) string {
	names := make([]string, len(rts))
	for i, rt := range rts {
		names[i] = rt.Describe().Path()
	}
	return strings.Join(names, ", ")
}

// chosen is what became of `runtime: auto` of a step.
type chosen struct {
	step *workflow.Step
	why  string
}

// chooseRuntimes puts a runtime in place of each `runtime: auto`, before anything
// else looks at the steps: nothing is chosen later, and nothing else falls in.
func (p *prepared) chooseRuntimes(ctx context.Context) ([]workflow.Problem, error) {
	checks := map[*workflow.Step]*stepCheck{}
	var order []*stepCheck
	p.walk(func(c *stepCheck) {
		if checks[c.step] == nil {
			checks[c.step] = c
			order = append(order, c)
		}
	})
	order = slices.DeleteFunc(order, func(c *stepCheck) bool { return !isAuto(c.step) })
	if len(order) == 0 {
		return nil, nil
	}
	var files []*workflow.Workflow
	for _, part := range p.parts() {
		files = append(files, part.workflow)
	}
	eval := func(s *workflow.Step) workflow.EvalFunc {
		if c := checks[s]; c != nil {
			return c.eval
		}
		return (&stepCheck{prepared: p, step: s}).eval
	}
	m, err := p.newMachine(ctx)
	if err != nil {
		return nil, err
	}
	chooser := newChooser(p.runtimes, eval, files)
	chooser.machine = m.against
	var problems []workflow.Problem
	picked := map[*workflow.Step]runtimes.Description{}
	for _, c := range order {
		choice, err := chooser.choice(c.step)
		switch {
		case err != nil:
			problems = append(problems, problemAt(c.step, c.step.Runtime.Get("type"),
				errors.New("`runtime: auto` is decided before the run, and this block depends on the run: "+err.Error()), "say the engine, or write what is known before"))
			continue
		case len(choice.Able) == 0:
			problems = append(problems, noneFits(c.step, choice))
			continue
		}
		d := choice.Able[0].Describe()
		picked[c.step] = d
		p.chosen = append(p.chosen, chosen{c.step, m.why(c.step, choice)})
	}
	for step, d := range picked {
		step.ChooseRuntime(d.Type, d.Engine)
	}
	for _, c := range p.chosen {
		p.describe = append(p.describe, fmt.Sprintf("%s:%d: step %s: %s", c.step.File, c.step.Pos.Line, c.step.ID, c.why))
	}
	return problems, nil
}

// tellChosen puts the choices into the record of the run.
func (p *prepared) tellChosen(a *App, sink event.Sink) {
	for _, c := range p.chosen {
		sink.Emit(event.Event{Type: event.Notice, Time: a.Now(), Note: &event.Note{
			Level: "notice", Message: "step " + c.step.ID + ": " + c.why, File: c.step.File, Line: c.step.Pos.Line, Column: c.step.Pos.Column,
		}})
	}
}

// machine knows what a runtime needs of where the run is: a credential, or answers
// to replay, and the agent's program.
type machine struct {
	*prepared
	ctx      context.Context     //nolint:containedctx // it is used while the choice is made
	replayed map[string][]string // APIs by step; nil: models are asked

	// What was asked for already.
	asked map[string]credentialEntry // by API
	held  map[string]held            // by image
}

// held are the agents' programs in an image.
type held struct {
	programs []string
	err      error
}

func (p *prepared) newMachine(ctx context.Context) (*machine, error) {
	m := &machine{prepared: p, ctx: ctx, asked: map[string]credentialEntry{}, held: map[string]held{}}
	if p.flags.replay == "" {
		return m, nil
	}
	lanes, err := gateway.Inspect(under(p.dir, p.flags.replay))
	if err != nil {
		return nil, problem("--replay: %w", err)
	}
	m.replayed = map[string][]string{}
	for _, lane := range lanes {
		step := lane.Lane.Step[strings.LastIndexByte(lane.Lane.Step, '/')+1:]
		for _, e := range lane.Exchanges {
			m.replayed[step] = append(m.replayed[step], e.API)
		}
	}
	return m, nil
}

func (m *machine) credential(api string) credentialEntry {
	if _, known := m.asked[api]; !known {
		m.asked[api] = credentialOf(m.ctx, m.credentials, api)
	}
	return m.asked[api]
}

// against says why the step can not have the runtime here; "" where it can.
func (m *machine) against(step *workflow.Step, rt runtimes.Runtime, cfg runtimes.Config) string {
	d := rt.Describe()
	if m.replayed != nil {
		if !slices.Contains(m.replayed[step.ID], d.API) {
			return "the cassette has no answers of " + d.API + " for it"
		}
	} else if problem := m.credential(d.API).Problem; problem != "" {
		what, _, _ := strings.Cut(problem, ";") // `doctor` says what to do about it
		return what
	}
	box, err := workflow.DecodeDocker(step.Docker, (&stepCheck{prepared: m.prepared, step: step}).eval)
	if err != nil {
		return "its box is not known before the run"
	}
	if err := steps.CheckAuth(box, d, cfg); err != nil {
		return err.Error()
	}
	if d.Type != runtimes.TypeCLI {
		return ""
	}
	if box.Host {
		if _, err := exec.LookPath(d.Engine); err != nil {
			return "its program is not on this machine"
		}
		return ""
	}
	image := box.Image
	if image == "" {
		image = defaultImage
	}
	have, known := m.held[image]
	if !known {
		have.programs, have.err = m.programs(image)
		m.held[image] = have
	}
	switch {
	case have.err != nil:
		return have.err.Error()
	case !slices.Contains(have.programs, d.Engine):
		return "the image " + image + " has not its program"
	}
	return ""
}

// programs are the agents' programs in an image, as it says itself, or its name
// where it is not there yet.
func (m *machine) programs(image string) ([]string, error) {
	backend, err := m.backends.get(m.ctx, false)
	if err != nil {
		return nil, err
	}
	if labels, err := backend.(*docker.Backend).ImageLabels(m.ctx, image); err == nil {
		if list, said := labels[images.LabelEngines]; said {
			return strings.Split(list, ","), nil
		}
	}
	if args, ok := images.BuildArgs(image); ok {
		return images.ParseEngines(args[1])
	}
	return nil, fmt.Errorf("the image %s does not say which programs it has", image)
}

// why tells of the choice that was made, in one line.
func (m *machine) why(step *workflow.Step, choice runtimes.Choice) string {
	d := choice.Able[0].Describe()
	var reasons []string
	if r, err := workflow.DecodeRuntime(step.Runtime, (&stepCheck{prepared: m.prepared, step: step}).eval); err == nil {
		if asked := runtimes.Asked(steps.RuntimeConfig(r)); len(asked) > 0 {
			words := make([]string, len(asked))
			for i, f := range asked {
				words[i] = string(f)
			}
			reasons = append(reasons, "it has "+strings.Join(words, ", "))
		}
	}
	if m.replayed != nil {
		reasons = append(reasons, "the cassette has its answers")
	} else {
		c := m.credential(d.API)
		reasons = append(reasons, fmt.Sprintf("%s from %s, %s", c.Kind, c.Origin, c.Basis))
	}
	if d.Type == runtimes.TypeCLI {
		reasons = append(reasons, "its program is there")
	}
	line := "runtime auto is " + d.Path() + ": " + strings.Join(reasons, "; ")
	if len(choice.Passed) > 0 {
		line += ". Passed over: " + strings.Join(choice.Passed, "; ")
	}
	return line
}
