package verify

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/sandbox"
)

// Bounds of what a box under attack may take.
const (
	probeTime  = 90 * time.Second
	closeTime  = time.Minute
	answerSize = 64 << 10
)

// smallMemory is what a box has in which memory is used up, in bytes.
const smallMemory = 192 << 20

// minKey is of a credential that is looked for, in bytes: a shorter one could be
// a word.
const minKey = 16

// sandboxNamespaces are those that no box shares with the runner's machine.
var sandboxNamespaces = []string{"ipc", "mnt", "net", "pid", "uts"}

// ReadOnly is the workspace in which nothing can be written.
const ReadOnly = "ro"

// Target is a box under attack.
type Target struct {
	Name string       // for the person
	Spec sandbox.Spec // without a layout
	// Workspace is what the box sees of the project, in the workflow's words; ""
	// is the project itself.
	Workspace string
	// Token is the box's own for the gateway, where Spec.Gateway is set.
	Token string
	// Env is what the step's processes get beside the box's environment.
	Env map[string]string
}

func (t Target) hasGateway() bool { return t.Spec.Gateway != nil }

// Options say who attacks what.
type Options struct {
	Backend sandbox.Backend
	// Layout prepares the project that the target's boxes see, a stand-in.
	Layout func(ctx context.Context, t Target) (sandbox.Layout, error)
	// Finish brings back what boxes did to it, in whichever workspace.
	Finish func() error
	// Project is the stand-in on this machine.
	Project *Project
	// Clean is what makes output harmless to a terminal.
	Clean func(string) string
	// Keys are the real credentials that no box may have.
	Keys []string
	// Local says that the engine runs on this machine.
	Local bool
	// Forwarded counts the requests that the gateway let through.
	Forwarded func() int
	// Tell gets every finding as soon as it is there; nil: nobody.
	Tell func(Finding)
}

// Finding is what came of one attack on one box.
type Finding struct {
	Box      string  `json:"box"`
	Attack   string  `json:"attack"`
	Threats  []int   `json:"threats"`
	Expected string  `json:"expected"`
	Verdict  Verdict `json:"verdict"`
	Seen     string  `json:"seen"`
	// By is what in the configuration opens it, where the verdict is open.
	By string `json:"by,omitempty"`
}

// Run attacks the boxes, one after the other, and gives all findings. An error
// means that nothing can be told.
func Run(ctx context.Context, o Options, targets []Target) ([]Finding, error) {
	r := &running{Options: o, salt: rand.Text()}
	for _, key := range o.Keys {
		if len(key) >= minKey {
			r.digests = append(r.digests, digest(r.salt, key))
		}
	}
	loopback, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen where no box may reach: %w", err)
	}
	defer loopback.Close()
	go func() {
		for {
			conn, err := loopback.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	r.loopback = loopback.Addr().String()
	for _, t := range targets {
		if err := r.attack(ctx, t); err != nil {
			return r.findings, fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return r.findings, r.afterwards(targets)
}

type running struct {
	Options
	salt     string
	digests  []string
	loopback string
	findings []Finding
}

// attack tries everything on one target.
func (r *running) attack(ctx context.Context, t Target) (err error) {
	layout, err := r.Layout(ctx, t)
	if err != nil {
		return err
	}
	box, err := r.start(ctx, t.Spec, layout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeBox(ctx, box)) }()
	f := r.facts(t, box)
	if f.Neighbours, err = r.neighbour(ctx, t, layout, func(around []string) { f.Neighbours = around; r.inside(ctx, t, box, f) }); err != nil {
		return err
	}
	small := t.Spec
	if small.Memory == 0 || small.Memory > smallMemory {
		small.Memory = smallMemory
	}
	return r.exhaust(ctx, t, small, layout)
}

// neighbour starts another box, and calls during while a server runs there.
func (r *running) neighbour(ctx context.Context, t Target, layout sandbox.Layout, during func(addresses []string)) ([]string, error) {
	spec := t.Spec
	spec.Gateway, spec.Ports = nil, nil // two cannot have the same ports
	box, err := r.start(ctx, spec, layout)
	if err != nil {
		return nil, fmt.Errorf("another box: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	first := make(chan []byte, 1)
	done := make(chan error, 1)
	go func() {
		_, err := box.Exec(ctx, r.process(t, box, "listen", r.facts(t, box), &firstLine{got: first}))
		done <- err
	}()
	var list []string
	select {
	case line := <-first:
		err = json.Unmarshal(line, &list)
	case err = <-done:
		err = errors.Join(errors.New("another box does not listen"), err)
		done <- nil
	case <-time.After(probeTime):
		err = errors.New("another box does not listen in time")
	}
	if err == nil {
		during(list)
	}
	cancel()
	<-done
	return list, errors.Join(err, closeBox(ctx, box))
}

// inside tries what takes the box as it is.
func (r *running) inside(ctx context.Context, t Target, box sandbox.Box, f facts) {
	for _, a := range Attacks() {
		if a.only != nil && !a.only(t) {
			continue
		}
		switch a.room {
		case inBox:
			r.found(a, t, r.try(ctx, t, box, a, f))
		case outside:
			r.found(a, t, r.handle(ctx, t, box, a, f))
		case after:
			got := r.try(ctx, t, box, a, f)
			if got.Hole || got.Error != "" {
				r.found(a, t, got)
			} else {
				r.Project.remember(a.Name, t, got.Seen)
			}
		}
	}
}

// exhaust tries what uses up a box, in one that has little.
func (r *running) exhaust(ctx context.Context, t Target, spec sandbox.Spec, layout sandbox.Layout) error {
	for _, a := range Attacks() {
		if a.room != smallBox || a.only != nil && !a.only(t) {
			continue
		}
		spec.Ports = nil
		box, err := r.start(ctx, spec, layout)
		if err != nil {
			return fmt.Errorf("a small box: %w", err)
		}
		f := r.facts(t, box)
		f.Memory = spec.Memory
		r.found(a, t, r.try(ctx, t, box, a, f))
		if err := closeBox(ctx, box); err != nil {
			return err
		}
	}
	return nil
}

func (r *running) start(ctx context.Context, spec sandbox.Spec, l sandbox.Layout) (sandbox.Box, error) {
	return r.Backend.Start(ctx, Placed(spec, l))
}

// Placed is a box's specification with what a workspace gives it.
func Placed(spec sandbox.Spec, l sandbox.Layout) sandbox.Spec {
	spec.Mounts = append(append([]sandbox.Mount{}, l.Mounts...), spec.Mounts...)
	spec.Workdir, spec.Home, spec.Temp = l.Workdir, l.Home, l.Temp
	if spec.User == "" {
		spec.User = l.User
	}
	spec.Keep, spec.Reuse, spec.Session = false, false, ""
	return spec
}

func closeBox(ctx context.Context, box sandbox.Box) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return box.Close(ctx)
}

func (r *running) facts(t Target, box sandbox.Box) facts {
	info := box.Info()
	f := facts{
		Runner: info.Runner, Workdir: info.Workdir, Home: info.Home, Temp: info.Temp,
		PidsLimit: t.Spec.PidsLimit, Beside: r.Project.beside, BesideText: r.Project.besideText, RecordText: r.Project.recordText,
		Loopback: r.loopback, Gateway: info.Gateway, Token: t.Token, Egress: info.Egress,
		Salt: r.salt, Digests: r.digests,
		MountPoints: t.mountPoints(),
	}
	if f.PidsLimit == 0 {
		f.PidsLimit = defaultPids
	}
	f.MountPoints = append(f.MountPoints, info.Workdir, info.Workdir+"/.herd", info.Workdir+"/.git", info.Home, info.Temp)
	f.MountPoints = append(f.MountPoints, r.Project.mountPoints...)
	if r.Local {
		f.Namespaces = ownNamespaces()
	}
	return f
}

// defaultPids is of boxes that ask for no limit of their own.
const defaultPids = 512

// mountPoints are those that the configuration itself asks for.
func (t Target) mountPoints() []string {
	var list []string
	if t.Workspace == "isolated" { // its git borrows from two stores
		list = append(list, "/herd/git-objects-1", "/herd/git-objects/info/alternates")
	}
	for _, m := range t.Spec.Mounts {
		list = append(list, filepath.Clean(m.Target))
	}
	for _, m := range t.Spec.Tmpfs {
		list = append(list, filepath.Clean(m.Target))
	}
	return list
}

// process is a probe, or a servant, in the box.
func (r *running) process(t Target, box sandbox.Box, name string, f facts, stdout interface{ Write([]byte) (int, error) }) sandbox.Process {
	info := box.Info()
	stdin, _ := json.Marshal(f)
	env := map[string]string{"PATH": sandbox.DefaultPath, "HOME": info.Home, "RUNNER_TEMP": info.Temp}
	for _, more := range []map[string]string{info.Env, t.Env} {
		for k, v := range more {
			env[k] = v
		}
	}
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	return sandbox.Process{Argv: []string{info.Runner, "attack", name}, Env: list, Dir: info.Workdir, Stdin: bytes.NewReader(stdin), Stdout: stdout}
}

// try runs a probe and reads its answer.
func (r *running) try(ctx context.Context, t Target, box sandbox.Box, a Attack, f facts) answer {
	name := a.probe
	if name == "" {
		name = a.Name
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	before := r.Forwarded()
	out := &bounded{limit: answerSize}
	exit, err := box.Exec(ctx, r.process(t, box, name, f, out))
	switch {
	case err != nil && a.room == smallBox && isOOM(err), exit.OOMKilled:
		return held("the kernel ended it for memory")
	case err != nil:
		return unable("%v", err)
	case exit.Stopped:
		return unable("no answer within %v", probeTime)
	}
	var got answer
	if err := json.Unmarshal(out.b.Bytes(), &got); err != nil {
		return unable("exit %d, and %q is no answer", exit.Code, cutText(out.b.String()))
	}
	if a.Name == "gateway-to-elsewhere" && !got.Hole && r.Forwarded() != before {
		return hole("the gateway forwarded %d requests that it should have refused", r.Forwarded()-before)
	}
	if a.Name == "gateway-without-token" && !got.Hole && got.Error == "" && r.Forwarded() != before+1 {
		return hole("the gateway forwarded %d requests, one had the box's token", r.Forwarded()-before)
	}
	return got
}

func isOOM(err error) bool {
	var failed *sandbox.Error
	return errors.As(err, &failed) && failed.Kind == sandbox.KindOOM
}

func cutText(s string) string {
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return s
}

// found judges an answer and tells it.
func (r *running) found(a Attack, t Target, got answer) {
	f := Finding{Box: t.Name, Attack: a.Name, Threats: a.Threats, Expected: a.Expected, Verdict: Held, Seen: strings.TrimSpace(got.Seen)}
	switch by := a.opened(t); {
	case got.Error != "":
		f.Verdict, f.Seen = Unchecked, got.Error
	case got.Hole && by != "":
		f.Verdict, f.By = Open, by
	case got.Hole:
		f.Verdict = Hole
	}
	r.findings = append(r.findings, f)
	if r.Tell != nil {
		r.Tell(f)
	}
}

// bounded keeps the beginning of what is written.
type bounded struct {
	b     bytes.Buffer
	limit int
}

func (w *bounded) Write(p []byte) (int, error) {
	w.b.Write(p[:min(len(p), w.limit-w.b.Len())])
	return len(p), nil
}

// firstLine gives the first line that is written, once.
type firstLine struct {
	seen []byte
	done bool
	got  chan<- []byte
}

func (w *firstLine) Write(p []byte) (int, error) {
	if !w.done && len(w.seen) < answerSize {
		w.seen = append(w.seen, p...)
		if line, _, ok := bytes.Cut(w.seen, []byte("\n")); ok {
			w.done = true
			w.got <- line
		}
	}
	return len(p), nil
}
