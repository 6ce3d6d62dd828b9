package steps

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/workflow"
)

// closeTime bounds the removal of one box.
const closeTime = time.Minute

// legBoxes are the boxes that the run: steps of a leg share, by what they asked
// for. Safe for concurrent use.
type legBoxes struct {
	mu   sync.Mutex
	open map[string]*sharedBox
}

// sharedBox is a box with the steps that use it now. A dropped one takes no
// further step and is closed when the last has left it.
type sharedBox struct {
	sandbox.Box
	key     string
	users   *occupants
	dropped bool
	host    bool
	place   *place      // nil: it sees the project
	used    atomic.Bool // a step has ended here, so what all steps find is there
	scripts slots       // of the scripts that run now
}

// slots are numbers that one holder each has at a time: scripts one after the other
// have one file, which is cheaper than a new one for each. Safe for concurrent use.
type slots struct {
	mu    sync.Mutex
	taken []bool
}

// take gives the lowest number that is free, from 0.
func (s *slots) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := slices.Index(s.taken, false)
	if n < 0 {
		n = len(s.taken)
		s.taken = append(s.taken, false)
	}
	s.taken[n] = true
	return n
}

func (s *slots) give(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[n] = false
}

// asked is what a step asks of its box, evaluated and allowed.
type asked struct {
	docker workflow.Docker
	mode   string // workspace mode
	place  *place // nil: the step works in the project
}

// ask evaluates a step's docker: and workspace: blocks and puts them before the
// operator's policy.
func (s *stepRun) ask() (asked, error) {
	a, w, err := s.asks(s.step, s.eval)
	if err != nil {
		return asked{}, err
	}
	s.place = s.placeOf(w)
	a.place = s.place
	return a, nil
}

// asks is what a step asks for by itself; its place is yet to be found.
func (r *run) asks(step *workflow.Step, eval workflow.EvalFunc) (a asked, w workflow.Workspace, err error) {
	if a.docker, err = workflow.DecodeDocker(step.Docker, eval); err != nil {
		return a, w, err
	}
	if w, err = workflow.DecodeWorkspace(step.Workspace, eval); err != nil {
		return a, w, err
	}
	if w.Push != "" {
		if err := r.AuthorizeWork(w); err != nil {
			return a, w, err
		}
	}
	a.mode = w.Mode
	a.docker, err = r.Authorize(a.docker)
	return a, w, err
}

// gateway says whether an agent in the box reaches its model.
func (a asked) gateway() bool {
	return !Direct(a.docker.Auth) && (a.docker.Network.Gateway == nil || *a.docker.Network.Gateway)
}

// useBox gives the box of a run: step, started if the leg has none like it. The
// caller leaves it with leaveBox.
func (s *stepRun) useBox(ctx context.Context, a asked) (*sharedBox, error) {
	key, err := a.key()
	if err != nil {
		return nil, err
	}
	boxes := &s.leg.boxes
	boxes.mu.Lock()
	defer boxes.mu.Unlock()
	shared := boxes.open[key]
	if shared == nil {
		box, users, err := s.startBox(ctx, a, "", nil)
		if err != nil {
			return nil, err
		}
		shared = &sharedBox{Box: box, key: key, users: users, host: a.docker.Host, place: a.place}
		if boxes.open == nil {
			boxes.open = map[string]*sharedBox{}
		}
		boxes.open[key] = shared
	}
	shared.users.enter(s)
	return shared, nil
}

// hostTemp gives the temporary directory of the leg's steps on the host; empty
// where there is none, which the step itself then tells.
func (s *stepRun) hostTemp(ctx context.Context) string {
	a := asked{docker: workflow.Docker{Host: true}}
	if w, err := workflow.DecodeWorkspace(s.step.Workspace, s.eval); err == nil {
		a.mode, a.place = w.Mode, s.placeOf(w)
	}
	if _, ok := s.enter(ctx, a); !ok {
		return ""
	}
	box, err := s.useBox(ctx, a)
	if err != nil {
		return ""
	}
	defer s.leaveBox(ctx, box, false)
	return box.Info().Temp
}

// leaveBox ends the use of a shared box. A broken one takes no further step.
func (s *stepRun) leaveBox(ctx context.Context, shared *sharedBox, broken bool) {
	boxes := &s.leg.boxes
	boxes.mu.Lock()
	defer boxes.mu.Unlock()
	empty := shared.users.leave(s)
	for key, open := range boxes.open {
		if broken && open == shared {
			delete(boxes.open, key)
			shared.dropped = true
		}
	}
	if shared.dropped && empty {
		s.closeLater(ctx, shared.Box)
	}
}

// hostKey is the key of the "box" that is the bare host.
const hostKey = "host"

// key is the same for steps that may share a box.
func (a asked) key() (string, error) {
	at := ""
	if a.place != nil {
		at = a.place.id
	}
	if a.docker.Host {
		return at + hostKey, nil
	}
	d, err := json.Marshal(a.docker)
	return at + a.mode + string(d), err
}

// startBox gives a new box, one that was started ahead where there is one. step
// is empty for one that the leg's run: steps share. Who uses the box enters its
// users.
func (s *stepRun) startBox(ctx context.Context, a asked, step string, model ModelSession) (sandbox.Box, *occupants, error) {
	start := s.Now()
	key, err := a.key()
	if err != nil {
		return nil, nil, err
	}
	var box sandbox.Box
	var users *occupants
	if e := s.ahead.take(s.node, key, model); e != nil {
		box, users = e.wait(ctx), &e.users
	}
	if box == nil {
		users = &occupants{}
		var gateway func(net.Conn)
		if model != nil && a.gateway() {
			gateway = model.Serve
		}
		if box, err = s.openBox(ctx, a, s.leg.leg.ID, s.id(), step != "", gateway, users); err != nil {
			return nil, nil, err
		}
	}
	if !a.docker.Host {
		info := box.Info()
		s.emit(event.Event{Type: event.BoxStarted, Box: &event.BoxInfo{
			Backend: info.Backend, ID: info.ID, Image: info.Image, Reused: info.Reused, StartMS: s.Now().Sub(start).Milliseconds(),
		}})
		for _, n := range info.Notices {
			s.emit(event.Event{Type: event.Notice, Note: &event.Note{Level: "notice", Message: n}})
		}
	}
	return box, users, nil
}

// layout is what the workspace gives a box.
func (r *run) layout(a asked, leg, step string) (sandbox.Layout, error) {
	switch {
	case a.place != nil:
		return a.place.clone.Box(a.docker.Host, leg, step)
	case a.docker.Host:
		return r.Workspace.Box(hostMode, leg, step)
	}
	return r.Workspace.Box(a.mode, leg, step)
}

// openBox starts a box for a step. own says that no other step shares it. gateway
// answers what is called from the box as its model, nil: nothing listens there.
func (r *run) openBox(ctx context.Context, a asked, leg, step string, own bool, gateway func(net.Conn), users *occupants) (sandbox.Box, error) {
	if a.docker.Network.Mode != "allow" {
		return r.startSpec(ctx, a, leg, step, own, gateway, nil)
	}
	way, err := r.openWay(leg, a.docker.Network.Allow, users)
	if err != nil {
		return nil, err
	}
	box, err := r.startSpec(ctx, a, leg, step, own, gateway, way.Serve)
	if err != nil {
		way.Close()
		return nil, err
	}
	return guarded{box, way}, nil
}

// startSpec starts the box that a step asks for.
func (r *run) startSpec(ctx context.Context, a asked, leg, step string, own bool, gateway, egress func(net.Conn)) (sandbox.Box, error) {
	backend, err := r.Backend(ctx, a.docker.Host)
	if err != nil {
		return nil, err
	}
	owner := ""
	if own {
		owner = step
	}
	layout, err := r.layout(a, leg, owner)
	if err != nil {
		return nil, err
	}
	spec := BoxSpec(a.docker, layout, r.DefaultImage)
	spec.Project, spec.Workflow = r.Info.Dir, r.Info.File
	spec.Run, spec.Job, spec.Step = r.Info.ID, leg, step
	spec.Gateway, spec.Egress = gateway, egress
	if spec.Keep && !a.docker.Host {
		if spec.Session, err = r.SessionDir(spec); err != nil {
			return nil, err
		}
	}
	box, err := backend.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	box = a.place.watch(box, a)
	if a.docker.Host && !own {
		return reusable{box, func() { r.Workspace.Reuse(layout, isOwn) }}, nil
	}
	return box, nil
}

// reusable is a box on the host that gives its directories to the next one when
// it closes: files made and removed for each job would cost more than starting
// the job's processes.
type reusable struct {
	sandbox.Box
	release func()
}

func (b reusable) Close(ctx context.Context) error {
	err := b.Box.Close(ctx)
	if err == nil {
		b.release()
	}
	return err
}

// hostMode asks the workspace for the directories of a step without a box.
const hostMode = "host"

// drop lets the leg's shared boxes go: what ran in them must not see what comes
// after an agent step. The host stays.
func (b *legBoxes) drop(ctx context.Context, r *run) {
	b.letGo(ctx, r, func(b *sharedBox) bool { return !b.host })
}

func (b *legBoxes) closeAll(ctx context.Context, r *run) {
	b.letGo(ctx, r, func(*sharedBox) bool { return true })
}

func (b *legBoxes) letGo(ctx context.Context, r *run, which func(b *sharedBox) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, shared := range b.open {
		if !which(shared) {
			continue
		}
		delete(b.open, key)
		shared.dropped = true
		if shared.users.empty() {
			r.closeLater(ctx, shared.Box)
		}
	}
}

// closeLater removes a box beside the run, which waits for it at its end.
func (r *run) closeLater(ctx context.Context, box sandbox.Box) {
	r.cleanup.Go(func() { r.closeBox(ctx, box) })
}

func (r *run) closeBox(ctx context.Context, box sandbox.Box) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if err := box.Close(ctx); err != nil {
		r.emit(event.Event{Type: event.Notice, Note: &event.Note{Level: "warning", Message: "remove box: " + err.Error(), Hint: "the next start of herd-runner removes what is left"}})
	}
}

// BoxSpec is what a docker: block and a workspace ask of the sandbox. Pure.
func BoxSpec(d workflow.Docker, l sandbox.Layout, defaultImage string) sandbox.Spec {
	spec := sandbox.Spec{
		Image: d.Image, Pull: d.Pull,
		Memory: d.Memory, CPUs: d.CPUs, CPUShares: d.CPUShares, CPUPeriod: d.CPUPeriod, CPUQuota: d.CPUQuota,
		PidsLimit: d.PidsLimit, ShmSize: d.ShmSize,
		Network:    sandbox.Network{Mode: d.Network.Mode},
		User:       d.User,
		Mounts:     l.Mounts,
		Env:        maps.Clone(l.Env),
		Labels:     d.Labels,
		Workdir:    l.Workdir,
		Home:       l.Home,
		Temp:       l.Temp,
		Ports:      d.Ports,
		OCIRuntime: d.OCIRuntime, HostConfig: d.HostConfig, Privileged: d.Privileged,
		MaxContainers: d.MaxContainers,
	}
	if spec.Env == nil {
		spec.Env = map[string]string{}
	}
	maps.Copy(spec.Env, d.Env)
	if spec.Image == "" {
		spec.Image = defaultImage
	}
	if spec.Network.Mode == "" {
		spec.Network.Mode = "bridge"
	}
	if spec.User == "" {
		spec.User = l.User
	} else {
		spec.AllowRoot = true // the policy has allowed it where it is root
	}
	spec.WritableRoot = d.ReadOnly != nil && !*d.ReadOnly
	spec.Reuse = d.Reuse
	spec.Keep = d.Reuse || d.Ephemeral != nil && !*d.Ephemeral
	for _, v := range d.Volumes {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: v.Source, Target: v.Target, ReadOnly: v.ReadOnly, Here: true})
	}
	for _, t := range d.Tmpfs {
		spec.Tmpfs = append(spec.Tmpfs, sandbox.Tmpfs{Target: t.Target, Size: t.Size, Exec: t.Exec})
	}
	for _, u := range d.Ulimits {
		spec.Ulimits = append(spec.Ulimits, sandbox.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
	}
	return spec
}
