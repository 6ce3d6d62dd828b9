package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/internal/follow"
)

const (
	// outputDelay bounds the wait for the end of the output once the process
	// has ended: something it left running may hold the pipe open.
	outputDelay = 200 * time.Millisecond
	// killDelay bounds the wait for the end of a killed process.
	killDelay = 10 * time.Second
	// maxUnsettled bounds how often a look for what is left is repeated because
	// some process ended during it: on a busy machine one always does.
	maxUnsettled = 5
)

// Run runs one process to its end; see sandbox.Box.Exec. dir is used where
// p.Dir is empty. What the process leaves running in the background goes on
// until the group closes, unless ctx or p.Kill ended it: then nothing is left.
func (g *Group) Run(ctx context.Context, p sandbox.Process, dir string) (sandbox.Exit, error) {
	if !g.enter() {
		return sandbox.Exit{}, fail(sandbox.KindBox, "start process", errors.New("the box is closed"))
	}
	defer g.wg.Done()

	stages, err := stopStages(p.Stop)
	if err != nil {
		return sandbox.Exit{}, fail(sandbox.KindConfig, "start process", err)
	}
	if ctx.Err() != nil {
		return sandbox.Exit{Code: 128 + int(syscall.SIGKILL), Signal: "KILL", Stopped: true}, nil
	}
	if p.Dir == "" {
		p.Dir = dir
	}
	if err := WriteFiles(p.Files); err != nil {
		return sandbox.Exit{}, fail(sandbox.KindFiles, "write file", err)
	}
	if len(p.Follow) > 0 && p.Followed != nil {
		followed := follow.New(p.Follow, p.Followed)
		defer followed.Stop()
	}
	r, proc, outs, err := g.start(p)
	if err != nil {
		return sandbox.Exit{}, err
	}

	ended := make(chan waited, 1)
	go func() {
		state, err := proc.Wait()
		ended <- waited{state, err}
	}()
	w, stopped, err := g.await(ctx, p, stages, r, ended)
	if err != nil {
		outs.abandon()
		return sandbox.Exit{}, err
	}
	g.noteLeft(r)
	outs.finish()

	exit := exitOf(w.state)
	exit.Stopped = stopped
	exit.Collected, exit.Truncated = Collect(p.Collect)
	return exit, nil
}

type waited struct {
	state *os.ProcessState
	err   error
}

// start looks the program up, opens its streams and starts it.
func (g *Group) start(p sandbox.Process) (*root, *os.Process, *streams, error) {
	path, argv, err := program(p)
	if err != nil {
		return nil, nil, nil, fail(sandbox.KindExec, "start process", err)
	}
	outs, err := g.open(p)
	if err != nil {
		return nil, nil, nil, fail(sandbox.KindExec, "open streams", err)
	}
	env := p.Env
	if env == nil {
		env = []string{}
	}
	t := g.table
	var r *root
	var proc *os.Process
	t.around(func() {
		t.fork.RLock()
		defer t.fork.RUnlock()
		proc, err = os.StartProcess(path, argv, &os.ProcAttr{
			Dir: p.Dir, Env: env, Files: outs.child[:],
			Sys: newSession(),
		})
		if err == nil {
			r = &root{pid: proc.Pid, group: g, env: p.Env}
			t.add(r)
		}
	})
	outs.closeChild()
	if err != nil {
		outs.abandon()
		return nil, nil, nil, fail(sandbox.KindExec, "start process", startError(p, err))
	}
	outs.run()
	return r, proc, outs, nil
}

func startError(p sandbox.Process, err error) error {
	if p.Dir != "" {
		if st, serr := os.Stat(p.Dir); serr != nil {
			return fmt.Errorf("working directory %q: %w", p.Dir, errors.Unwrap(serr))
		} else if !st.IsDir() {
			return fmt.Errorf("working directory %q is not a directory", p.Dir)
		}
	}
	var perr *os.PathError
	if errors.As(err, &perr) {
		err = perr.Err
	}
	switch {
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("%q: arguments and environment are too long for the system: pass the data on stdin or in a file", p.Argv[0])
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%q: no such program, or its interpreter is missing", p.Argv[0])
	}
	return fmt.Errorf("%q: %w", p.Argv[0], err)
}

// await waits for the root's end and drives the stop when asked to. stopped
// tells that it was asked.
func (g *Group) await(ctx context.Context, p sandbox.Process, stages []stage, r *root, ended <-chan waited) (w waited, stopped bool, err error) {
	t := g.table
	alive := true
	reap := func(v waited) {
		w, alive = v, false
		t.remove(r)
	}
	select {
	case v := <-ended:
		reap(v)
		return w, false, nil
	case <-p.Kill:
		stages = nil
	case <-g.kill:
		stages = nil
	case <-ctx.Done():
	}
stop:
	for _, s := range stages {
		// The root is not reaped by anyone else, so its group id is its own.
		_ = syscall.Kill(-r.pid, s.signal)
		timer := time.NewTimer(s.grace)
		select {
		case v := <-ended:
			timer.Stop()
			reap(v)
			break stop
		case <-timer.C:
		case <-p.Kill:
			timer.Stop()
			break stop
		case <-g.kill:
			timer.Stop()
			break stop
		}
	}
	deadline := time.Now().Add(killDelay)
	sids, unsettled := map[int]bool{r.pid: true}, 0
	for pause := time.Millisecond; ; pause = min(pause*2, 50*time.Millisecond) {
		if alive {
			_ = syscall.Kill(-r.pid, syscall.SIGKILL)
		}
		left, settled := t.killTree(r, alive, sids)
		if !settled {
			unsettled++
		}
		if !alive && !left && (settled || unsettled > maxUnsettled) {
			return w, true, nil
		}
		if time.Now().After(deadline) {
			if !alive {
				return w, true, nil
			}
			return w, true, fail(sandbox.KindBox, "kill process",
				fmt.Errorf("process %d did not end within %s of its KILL", r.pid, killDelay))
		}
		timer := time.NewTimer(pause)
		select {
		case v := <-ended:
			reap(v)
		case <-timer.C:
		}
		timer.Stop()
		if !alive {
			ended = nil
		}
	}
}

// Close kills what runs in the group, also what fled, and waits for its end,
// at most until ctx is done. Idempotent.
func (g *Group) Close(ctx context.Context) error {
	g.mu.Lock()
	first := !g.closed
	if first {
		g.closed = true
		close(g.kill)
	}
	g.mu.Unlock()
	if !first {
		return nil
	}
	idle := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
		return fail(sandbox.KindBox, "close box", fmt.Errorf("its processes did not end: %w", ctx.Err()))
	}
	err := g.sweep(ctx)
	g.table.forget(g)
	g.table.mu.Lock()
	for f := range g.drains {
		_ = f.Close()
	}
	g.table.mu.Unlock()
	return err
}

func (g *Group) sweep(ctx context.Context) error {
	for pause := time.Millisecond; g.killLeft(); pause = min(pause*2, 50*time.Millisecond) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fail(sandbox.KindBox, "close box", fmt.Errorf("background processes did not end: %w", ctx.Err()))
		}
	}
	return nil
}

func fail(kind sandbox.Kind, op string, err error) *sandbox.Error {
	return &sandbox.Error{Kind: kind, Op: op, Err: err}
}
