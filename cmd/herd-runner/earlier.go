package main

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
	"github.com/herd-runner/herd-runner/internal/workspace"
	"github.com/herd-runner/herd-runner/steps"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// earlier is the run that a rerun goes on from. What is asked of nil, no earlier
// run, changes nothing.
type earlier struct {
	state    journal.RunState
	given    journal.Given
	attempts int // up to now
	// failed says that what has not succeeded runs again, from that the job or step
	// JOB[/STEP] does, each with what needs it; with neither everything runs again.
	failed bool
	from   string
	// present says that the workflow of the project is taken, not the recorded one.
	present bool

	taken map[string]map[string]steps.EarlierLeg
	// Of the plan, what will not run whatever comes.
	done      map[*workflow.Job]bool
	doneSteps map[*workflow.Step]bool
	notes     []string // for the person
}

// openEarlier reads the record of a run that is over. Of a rerun that ended before
// it began, it is that of the run which it was to go on from.
func openEarlier(dir string, r *journal.Reader) (*earlier, error) {
	e, err := readEarlier(r)
	if err != nil || len(e.state.Jobs) > 0 || e.state.Info.RerunOf == "" {
		return e, err
	}
	before, err := journal.Open(dir, e.state.Info.RerunOf)
	if err != nil || before.ID >= r.ID { // ids sort by age
		return e, nil //nolint:nilerr // its own record is enough to begin anew
	}
	from, err := openEarlier(dir, before)
	if err != nil {
		return nil, err
	}
	from.attempts = e.attempts
	return from, nil
}

func readEarlier(r *journal.Reader) (*earlier, error) {
	live, err := stillAlive(r)
	if err != nil {
		return nil, infra(err)
	}
	if live {
		return nil, problem("run %s still goes on: `herd-runner logs -f %s` follows it, `herd-runner cancel %s` ends it", r.ID, r.ID, r.ID)
	}
	e := &earlier{}
	if e.given, err = r.Given(); err != nil {
		return nil, problem("%w", err)
	}
	if e.state, err = journal.State(r); err != nil {
		return nil, infra(err)
	}
	e.attempts = max(e.state.Info.Attempt, 1)
	if len(e.given.Withheld) > 0 {
		return nil, problem("run %s was given what holds a secret, and its record does not keep that: %s; start anew with `herd-runner run`",
			r.ID, strings.Join(e.given.Withheld, ", "))
	}
	if e.given.Vars == nil {
		e.given.Vars = map[string]string{}
	}
	return e, nil
}

// dyingTime bounds how long a killed runner's run may still count as alive: a process
// that it was just starting holds the lock until it has begun.
const dyingTime = 2 * time.Second

// stillAlive says whether a run goes on, some while after its runner was killed too.
func stillAlive(r *journal.Reader) (bool, error) {
	live, err := r.Alive()
	if err != nil || !live {
		return live, err
	}
	state, err := journal.State(r)
	if err != nil {
		return true, err
	}
	tick, dead := time.NewTicker(10*time.Millisecond), time.After(dyingTime)
	defer tick.Stop()
	for live && err == nil && !r.HeldBy(state.Info.PID) {
		select {
		case <-tick.C:
			live, err = r.Alive()
		case <-dead:
			return true, nil
		}
	}
	return live, err
}

// attempt counts the runs that go on from each other.
func (e *earlier) attempt() int { return e.attempts + 1 }

// workflow reads the workflow as the run had it, or as it is now.
func (e *earlier) workflow(dir string) (*workflow.Workflow, []workflow.Problem, error) {
	name, changed := e.given.Workflow, e.changed(dir)
	if e.present {
		if len(changed) > 0 {
			e.notes = append(e.notes, fmt.Sprintf("%s changed since run %s: what is there now is used", haveThey(changed), e.state.ID))
		}
		return readWorkflow(dir, name)
	}
	if len(changed) > 0 {
		e.notes = append(e.notes, fmt.Sprintf("%s changed since run %s: what that run had is used; --workflow-from-project takes what is there now", haveThey(changed), e.state.ID))
	}
	return e.recorded(dir, changed)
}

// recorded reads the workflow as the run had it.
func (e *earlier) recorded(dir string, changed []string) (*workflow.Workflow, []workflow.Problem, error) {
	for _, file := range changed {
		if e.given.Files[file].Text == nil {
			return nil, nil, problem("%s held a secret, so that run %s did not record it, and it has changed since; --workflow-from-project takes what is there now", file, e.state.ID)
		}
	}
	name := e.given.Workflow
	main, err := e.text(dir, name)
	if err != nil {
		return nil, nil, problem("workflow: %w", err)
	}
	w, _, problems := workflow.Load(name, main, func(file string) ([]byte, error) { return e.text(dir, file) })
	if w == nil {
		w = &workflow.Workflow{File: name}
	}
	w.Src = main
	return w, problems, nil
}

func haveThey(files []string) string {
	if len(files) == 1 {
		return files[0] + " has"
	}
	return strings.Join(files, ", ") + " have"
}

// text gives a file as the run has read it.
func (e *earlier) text(dir, name string) ([]byte, error) {
	switch f := e.given.Files[name]; {
	case f == nil:
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	case f.Text != nil:
		return []byte(*f.Text), nil
	}
	return e.now(dir, name)
}

// now gives a file as it is in the project.
func (e *earlier) now(dir, name string) ([]byte, error) {
	if name == e.given.Workflow {
		return readSource(dir, name)
	}
	return projectFile(dir)(name)
}

// changed lists the files that are no longer as the run has read them.
func (e *earlier) changed(dir string) []string {
	var names []string
	for _, name := range sortedKeys(e.given.Files) {
		text, err := e.now(dir, name)
		if err != nil || !e.given.Files[name].Is(text) {
			names = append(names, name)
		}
	}
	return names
}

// missing says which secrets and variables the run had that were not given anew.
func (e *earlier) missing(secrets, env map[string]string) error {
	if e == nil {
		return nil
	}
	for _, name := range e.given.Secrets {
		if !hasFold(secrets, name) {
			return problem("run %s had the secret %s, and secrets are never recorded: export it and pass --secret %s, or give it with --secret-file", e.state.ID, name, name)
		}
	}
	for _, name := range e.given.Env {
		if _, ok := env[name]; !ok {
			return problem("run %s had %s from an --env-file, which is not recorded: pass --env-file again", e.state.ID, name)
		}
	}
	return nil
}

// recall makes the github context that of the run, but for what is each attempt's
// own.
func (e *earlier) recall(context *expr.Object) {
	if e == nil {
		return
	}
	if v, err := expr.FromJSON(e.given.GitHub); err == nil {
		if recorded, ok := v.(*expr.Object); ok {
			for _, key := range recorded.Keys() {
				if !slices.Contains(notRecalled, key) {
					v, _ := recorded.Get(key)
					context.Set(key, v)
				}
			}
		}
	}
	context.Set("run_attempt", strconv.Itoa(e.attempt()))
}

// info says in a run's own that it goes on from this one.
func (e *earlier) info(i event.RunInfo) event.RunInfo {
	if e != nil {
		i.Attempt, i.RerunOf = e.attempt(), e.state.ID
	}
	return i
}

// has says whether a job of the rerun will not run, because it has run before.
func (e *earlier) has(job *workflow.Job) bool { return e != nil && e.done[job] }

// hasStep is has for a step of a job that goes on.
func (e *earlier) hasStep(step *workflow.Step) bool { return e != nil && e.doneSteps[step] }

// legs are those that are taken over.
func (e *earlier) legs() map[string]map[string]steps.EarlierLeg {
	if e == nil {
		return nil
	}
	return e.taken
}

// tell puts what the person should know into the record of the rerun.
func (e *earlier) tell(a *App, sink event.Sink) {
	if e == nil {
		return
	}
	for _, n := range e.notes {
		sink.Emit(event.Event{Type: event.Notice, Time: a.Now(), Note: &event.Note{Level: "notice", Message: n}})
	}
}

// describe is what a dry run says of it.
func (e *earlier) describe() []string {
	if e == nil {
		return nil
	}
	lines := append([]string{fmt.Sprintf("attempt %d, goes on from run %s", e.attempt(), e.state.ID)}, e.notes...)
	var taken []string
	for _, legs := range e.taken {
		for leg, earlier := range legs {
			if earlier.Ended != nil {
				taken = append(taken, leg)
			}
			for step := range earlier.Steps {
				taken = append(taken, leg+"/"+step)
			}
		}
	}
	slices.Sort(taken)
	for _, what := range taken {
		lines = append(lines, "taken over: "+what)
	}
	return lines
}

// recover brings back what the steps of a killed run, of which jobs are taken over,
// did to a copy of the project.
func (e *earlier) recover(a *App, p *prepared, sink event.Sink) error {
	if e == nil || len(e.taken) == 0 || e.state.Status != journal.Died {
		return nil
	}
	rep, err := workspace.Recover(p.dir, e.state.Dir)
	tell := func(level, message string) {
		sink.Emit(event.Event{Type: event.Notice, Time: a.Now(), Note: &event.Note{Level: level, Message: message}})
	}
	if len(rep.Changed) > 0 {
		tell("notice", fmt.Sprintf("what the steps of run %s had done to their copy of the project has come back to it", e.state.ID))
	}
	for _, n := range rep.Notices {
		tell("warning", n)
	}
	return err
}
