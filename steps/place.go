package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// workTime bounds what is done to bring work back from a clone.
const workTime = 10 * time.Minute

// place is where steps work that do not work in the project: a clone, of all
// steps of a leg that share it or of one step. It is made at its first use.
type place struct {
	id    string // among the places of its leg
	name  string // for people
	mode  string
	merge []string
	push  string // the remote that its branch goes to; empty: none

	making sync.Mutex
	clone  Clone
	err    error

	boxes sync.WaitGroup // those that are not yet closed
	mu    sync.Mutex
	last  *asked // what the last box asked for; nil: there was none
}

// ownerOfPlace is the step that has its workspace to itself; nil where it is the
// leg's.
func (s *stepRun) ownerOfPlace() *stepRun {
	for x := s; ; x = x.frame.caller {
		switch {
		case x.step.OwnWorkspace:
			return x
		case x.frame == nil:
			return nil
		}
	}
}

// placeOf gives the place of a step that asks for w; nil is the project.
func (s *stepRun) placeOf(w workflow.Workspace) *place {
	if !w.Apart() {
		return nil
	}
	p := &place{id: w.Mode, name: s.leg.leg.ID, mode: w.Mode, merge: w.Merge, push: w.Push}
	if owner := s.ownerOfPlace(); owner != nil {
		p.id, p.name = w.Mode+" "+owner.id(), s.leg.leg.ID+"/"+owner.id()
	}
	l := s.leg
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.places[p.id]; known != nil {
		return known
	}
	if l.places == nil {
		l.places = map[string]*place{}
	}
	l.places[p.id] = p
	return p
}

// enter makes the clone that the step works in, where it is the first to.
func (s *stepRun) enter(ctx context.Context, a asked) (attemptEnd, bool) {
	if a.place == nil {
		return attemptEnd{}, true
	}
	p := a.place
	p.making.Lock()
	defer p.making.Unlock()
	if p.clone == nil && p.err == nil {
		p.clone, p.err = s.Workspace.Clone(ctx, a.mode, p.name, s.workOf(p.merge))
		if p.err != nil && ctx.Err() != nil {
			err := p.err
			p.err = nil // a step after the cancel may try again
			return boxFailed(err), false
		}
	}
	if p.err != nil {
		return boxFailed(p.err), false
	}
	return attemptEnd{}, true
}

// workOf lists the work of jobs, in the order of the jobs and of their legs.
func (s *stepRun) workOf(jobs []string) []Work {
	var list []Work
	for _, id := range jobs {
		st := s.job(id)
		if st == nil {
			continue
		}
		for _, l := range orderedLegs(st.legs) {
			list = append(list, l.works...)
		}
	}
	return list
}

// ready makes the workspace ready for an attempt: a retry that does not go on
// with a session finds what the first attempt found.
func (s *stepRun) ready(ctx context.Context, a asked) (attemptEnd, bool) {
	if end, ok := s.enter(ctx, a); !ok {
		return end, false
	}
	p := a.place
	if p == nil || s.retries == 0 || s.agent.session != "" {
		return attemptEnd{}, true
	}
	do := p.clone.Save
	if s.attempt > 1 {
		if s.leg.background != nil && s.ownerOfPlace() == nil {
			return attemptEnd{cause: event.CauseExitCode, exit: sandbox.Exit{Code: 1},
				message: "it cannot be tried again: other steps of its job work in the same workspace, which would have to be reset",
				hint:    "say `workspace: isolated` at the step, for a clone of its own"}, false
		}
		s.leg.boxes.letGo(context.Background(), s.run, func(b *sharedBox) bool { return b.place == p })
		p.boxes.Wait()
		do = p.clone.Reset
	}
	if err := do(); err != nil {
		return boxFailed(fmt.Errorf("workspace of %s: %w", p.name, err)), false
	}
	return attemptEnd{}, true
}

// root is the directory on the host that the step works in.
func (s *stepRun) root(ctx context.Context) string {
	if s.findingRoot { // its workspace asks for hashFiles
		return s.Workspace.Root()
	}
	s.findingRoot = true
	defer func() { s.findingRoot = false }()
	w, err := workflow.DecodeWorkspace(s.step.Workspace, s.eval)
	if err == nil {
		if p := s.placeOf(w); p != nil {
			if _, ok := s.enter(ctx, asked{mode: w.Mode, place: p}); ok {
				return p.clone.Root()
			}
		}
	}
	return s.Workspace.Root()
}

// settle ends the use of a clone by the step: one of its own brings its work
// back, and an agent's part of a shared one is told.
func (s *stepRun) settle(ctx context.Context, end attemptEnd) attemptEnd {
	own := map[string]bool{workflow.WorkspaceIsolated + " " + s.id(): true, workflow.WorkspaceCopy + " " + s.id(): true}
	var err error
	for id, p := range s.leg.knownPlaces() {
		if !own[id] {
			continue
		}
		s.leg.boxes.letGo(ctx, s.run, func(b *sharedBox) bool { return b.place == p })
		err = errors.Join(err, s.closePlace(ctx, s.node, s.leg, p, s.outputs, end.cause == ""))
	}
	if err != nil && end.cause == "" {
		end = boxFailed(err)
	}
	if s.step.IsAgent() && s.place != nil && s.place.mode == workflow.WorkspaceIsolated && s.place.clone != nil {
		s.since(ctx, s.place, s.mark)
	}
	return end
}

// since tells what an agent changed in its clone after the mark: its outputs
// patch and changed-files.
func (s *stepRun) since(ctx context.Context, p *place, mark string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTime)
	defer cancel()
	w, err := p.clone.Since(ctx, mark)
	if err != nil {
		s.note(s.node, "warning", "what "+s.id()+" changed cannot be told: "+err.Error(), nil)
		return
	}
	s.setWork(s.outputs, w)
}

// setWork puts work into outputs, where they have nothing of that name.
func (r *run) setWork(outputs *expr.Object, w Work) {
	set := func(name, v string) {
		if old, ok := outputs.Get(name); ok && expr.String(old) != "" {
			return
		}
		if r.Masker.Contains(v) {
			r.tellRun("warning", "output "+name+" of "+w.Name+" was dropped: it holds a secret", nil)
			v = ""
		}
		outputs.Set(name, v)
	}
	files := &expr.Array{}
	for _, f := range w.Changed {
		files.Items = append(files.Items, strings.ToValidUTF8(f, "\uFFFD"))
	}
	set("patch", strings.ToValidUTF8(w.Patch, "\uFFFD"))
	set("branch", w.Branch)
	set("changed-files", string(expr.AppendJSON(nil, files)))
}

// closePlace brings the work of a place back, pushes it where that is asked for and
// who did it has succeeded, and removes the place. Every box of it has been let go.
func (r *run) closePlace(ctx context.Context, n *workflow.Node, l *legState, p *place, outputs *expr.Object, succeeded bool) error {
	p.boxes.Wait()
	p.making.Lock()
	defer p.making.Unlock()
	if p.clone == nil {
		return nil
	}
	defer func() { p.clone = nil }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTime)
	defer cancel()
	w, err := p.clone.Finish(ctx, func(ctx context.Context, argv []string, stdout io.Writer) error {
		return r.inPlace(ctx, l, p, argv, stdout)
	})
	for _, notice := range w.Notices {
		r.note(n, "warning", notice, nil)
	}
	if err != nil {
		return fmt.Errorf("the work of %s was not brought back: %w", p.name, err)
	}
	if w.Branch != "" {
		r.note(n, "notice", p.name+": "+filesChanged(len(w.Changed))+", on branch "+w.Branch, nil)
		l.mu.Lock()
		l.works = append(l.works, w)
		l.mu.Unlock()
	}
	if p.mode == workflow.WorkspaceIsolated {
		r.setWork(outputs, w)
	}
	err = r.push(ctx, n, p, w, succeeded)
	if err := p.clone.Remove(); err != nil {
		r.tellRun("warning", "remove the workspace of "+p.name+": "+err.Error(), nil)
	}
	return err
}

// push sends the branch of work that succeeded to the remote of its place.
func (r *run) push(ctx context.Context, n *workflow.Node, p *place, w Work, succeeded bool) error {
	switch {
	case p.push == "" || w.Branch == "":
		return nil
	case !succeeded:
		r.note(n, "notice", w.Branch+" was not pushed to "+p.push+": "+p.name+" has not succeeded", nil)
		return nil
	}
	if err := p.clone.Push(ctx, w.Branch, p.push); err != nil {
		return fmt.Errorf("the work of %s is on branch %s, and was not pushed: %w", p.name, w.Branch, err)
	}
	r.note(n, "notice", "pushed "+w.Branch+" to "+p.push, nil)
	return nil
}

func filesChanged(n int) string {
	if n == 1 {
		return "1 file changed"
	}
	return fmt.Sprintf("%d files changed", n)
}

// knownPlaces are the places of the leg so far, by their ids.
func (l *legState) knownPlaces() map[string]*place {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.places)
}

// watch counts a box that was started in the place until it is closed.
func (p *place) watch(box sandbox.Box, a asked) sandbox.Box {
	if p == nil {
		return box
	}
	p.boxes.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = &a
	return &watchedBox{Box: box, closed: sync.OnceFunc(p.boxes.Done)}
}

type watchedBox struct {
	sandbox.Box
	closed func()
}

func (b *watchedBox) Close(ctx context.Context) error {
	defer b.closed()
	return b.Box.Close(ctx)
}

// inPlace runs a program where the steps of a place ran, in a box of its own.
func (r *run) inPlace(ctx context.Context, l *legState, p *place, argv []string, stdout io.Writer) error {
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	if last == nil {
		return errors.New("no step ran there")
	}
	a := *last
	backend, err := r.Backend(ctx, a.docker.Host)
	if err != nil {
		return err
	}
	layout, err := p.clone.Box(a.docker.Host, l.leg.ID, "")
	if err != nil {
		return err
	}
	if !a.docker.Host {
		a.docker.Network = workflow.Network{Mode: "none"}
	}
	spec := BoxSpec(a.docker, layout, r.DefaultImage)
	spec.Project, spec.Workflow = r.Info.Dir, r.Info.File
	spec.Run, spec.Job, spec.Keep = r.Info.ID, l.leg.ID, false
	box, err := backend.Start(ctx, spec)
	if err != nil {
		return err
	}
	defer r.closeBox(ctx, box)
	info := box.Info()
	env := environment{over: overlaid(map[string]string{"HOME": info.Home, "PATH": sandbox.DefaultPath}, info.Env)}
	stderr := &tail{limit: 4 << 10, next: func([]byte) {}}
	exit, err := box.Exec(ctx, sandbox.Process{
		Argv: argv, Env: env.list(), Dir: path.Clean(info.Workdir), Stdout: stdout, Stderr: stderr, Kill: r.Kill,
	})
	switch {
	case err != nil:
		return err
	case exit.Code != 0:
		return fmt.Errorf("%s: %s", exitMessage(exit), strings.TrimSpace(string(stderr.bytes())))
	}
	return nil
}
