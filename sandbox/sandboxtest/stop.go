package sandboxtest

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/sandbox"
)

// stopAfter runs script, cancels once it has printed "ready" and says how long
// the end then took.
func stopAfter(t *testing.T, box sandbox.Box, script string, change ...func(*sandbox.Process)) (result, time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var at time.Time
	var out bytes.Buffer
	watch := writerFunc(func(b []byte) (int, error) {
		out.Write(b)
		if at.IsZero() && bytes.Contains(out.Bytes(), []byte("ready\n")) {
			at = time.Now()
			cancel()
		}
		return len(b), nil
	})
	r := runCtx(t, ctx, box, script, append(change, func(p *sandbox.Process) { p.Stdout = watch })...)
	if at.IsZero() {
		t.Fatalf("ended before it was ready: %+v, stderr %q", r.Exit, r.err)
	}
	r.out = out.String()
	return r, time.Since(at)
}

func stages(s ...sandbox.StopStage) func(*sandbox.Process) {
	return func(p *sandbox.Process) { p.Stop = s }
}

var stopTests = []test{
	{"cancel without stages kills at once", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		m := marker(t)
		r, d := stopAfter(t, box, "trap '' INT TERM; echo ready; sleep "+m)
		if !r.Stopped || r.Signal != "KILL" || r.Code != 137 || d > 5*time.Second {
			t.Errorf("got %+v after %s", r.Exit, d)
		}
		noneAlive(t, m)
	}},
	{"stages come in order and stop when the process ends", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		r, d := stopAfter(t, box, `
			trap 'echo int' INT; trap 'echo term; exit 9' TERM
			echo ready; while :; do sleep 0.05; done`,
			stages(sandbox.StopStage{Signal: "INT", Grace: 300 * time.Millisecond},
				sandbox.StopStage{Signal: "TERM", Grace: 20 * time.Second}))
		if r.out != "ready\nint\nterm\n" || r.Code != 9 || !r.Stopped {
			t.Errorf("got %q %+v", r.out, r.Exit)
		}
		if d < 300*time.Millisecond || d > 15*time.Second {
			t.Errorf("it took %s", d)
		}
	}},
	{"kill ends what ignores every stage", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		m := marker(t)
		r, d := stopAfter(t, box, "trap '' INT TERM; echo ready; sleep "+m+"; sleep "+m,
			stages(sandbox.StopStage{Signal: "INT", Grace: 50 * time.Millisecond},
				sandbox.StopStage{Signal: "TERM", Grace: 50 * time.Millisecond}))
		if r.Signal != "KILL" || !r.Stopped || d > 10*time.Second {
			t.Errorf("got %+v after %s", r.Exit, d)
		}
		noneAlive(t, m)
	}},
	{"closing Kill cuts a stage short", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		kill := make(chan struct{})
		signalled := make(chan struct{})
		go func() {
			<-signalled
			close(kill)
		}()
		var seen bytes.Buffer
		r, d := stopAfter(t, box, "trap 'echo term >&2' TERM; echo ready; while :; do sleep 0.05; done",
			stages(sandbox.StopStage{Signal: "TERM", Grace: 10 * time.Minute}),
			func(p *sandbox.Process) {
				p.Kill = kill
				p.Stderr = writerFunc(func(b []byte) (int, error) {
					if seen.Len() == 0 {
						close(signalled)
					}
					return seen.Write(b)
				})
			})
		if r.Signal != "KILL" || !r.Stopped || d > 30*time.Second {
			t.Errorf("got %+v after %s", r.Exit, d)
		}
	}},
	{"closing Kill alone ends the process", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		kill := make(chan struct{})
		r := sh(t, box, "echo; sleep 600", func(p *sandbox.Process) {
			p.Kill = kill
			p.Stdout = writerFunc(func(b []byte) (int, error) { close(kill); return len(b), nil })
		})
		if r.Signal != "KILL" || !r.Stopped {
			t.Errorf("got %+v", r.Exit)
		}
	}},
	{"a context already done starts nothing", func(t *testing.T, s Subject) {
		box, spec := start(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := runCtx(t, ctx, box, "touch started")
		if !r.Stopped {
			t.Errorf("got %+v", r.Exit)
		}
		if got := sh(t, box, "ls "+spec.Workdir); got.out != "" {
			t.Errorf("found %q", got.out)
		}
	}},
	{"no process survives a stop", func(t *testing.T, s Subject) {
		for name, script := range map[string]string{
			"background":     "sleep $0 & sleep $0 & echo ready; sleep $0",
			"own session":    "setsid sleep $0 & echo ready; sleep $0",
			"double fork":    "(setsid sh -c 'sleep '$0' & sleep '$0' &' &) ; echo ready; sleep $0",
			"stopped":        "sleep $0 & kill -STOP $!; echo ready; sleep $0",
			"stopped leader": "setsid sh -c 'sleep '$0' & kill -STOP $$' & sleep 0.2; echo ready; sleep $0",
			"daemon":         "(setsid sh -c 'cd /; exec </dev/null >/dev/null 2>&1; trap \"\" TERM HUP INT; sleep '$0'; sleep '$0) & echo ready; sleep $0",
			"no environment": "(env -i PATH=$PATH setsid sleep $0 >/dev/null 2>&1 &) ; echo ready; sleep $0",
		} {
			t.Run(name, func(t *testing.T) {
				box, _ := start(t, s)
				m := marker(t)
				_, d := stopAfter(t, box, script, stages(sandbox.StopStage{Signal: "TERM", Grace: time.Second}),
					func(p *sandbox.Process) { p.Argv = append(p.Argv, m) })
				if d > 15*time.Second {
					t.Errorf("the stop took %s", d)
				}
				noneAlive(t, m)
				if r := sh(t, box, "echo works"); r.out != "works\n" {
					t.Errorf("the box is broken afterwards: %q", r.out)
				}
			})
		}
	}},
	{"a stop spares the box's other processes", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		in, feed := io.Pipe()
		ready := make(chan struct{})
		done := make(chan result, 1)
		go func() {
			r, _ := execCtx(t.Context(), box, "echo up; (setsid sh -c 'sleep 0.3; exit 0' &); read l; echo $l", func(p *sandbox.Process) {
				p.Stdin = in
				p.Env = append(p.Env, "WHO=survivor")
				first := true
				var out bytes.Buffer
				p.Stderr = &out
				p.Stdout = writerFunc(func(b []byte) (int, error) {
					if first {
						close(ready)
						first = false
					}
					return out.Write(b)
				})
			})
			done <- r
		}()
		<-ready
		stopAfter(t, box, "(setsid sleep 600 &); echo ready; sleep 600")
		_, _ = io.WriteString(feed, "fine\n")
		if r := <-done; r.Code != 0 || r.Stopped {
			t.Errorf("the other process ended with %+v", r.Exit)
		}
	}},
}
