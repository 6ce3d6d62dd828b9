package sandboxtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/sandbox"
)

// hog doubles a shell variable until the kernel stops it.
const hog = `x=0123456789abcdef; while :; do x=$x$x; done`

var limitTests = []test{
	{"a process that uses too much memory", func(t *testing.T, s Subject) {
		box, _ := start(t, s, func(sp *sandbox.Spec) { sp.Memory = 64 << 20 })
		r := sh(t, box, "exec sh -c '"+hog+"'")
		if !r.OOMKilled || r.ToolOOM || r.Signal != "KILL" || r.Stopped {
			t.Errorf("got %+v, stderr %q", r.Exit, r.err)
		}
		if r := sh(t, box, "echo alive"); r.out != "alive\n" || r.OOMKilled || r.ToolOOM {
			t.Errorf("afterwards %q %+v", r.out, r.Exit)
		}
	}},
	{"a tool that uses too much memory", func(t *testing.T, s Subject) {
		box, _ := start(t, s, func(sp *sandbox.Spec) { sp.Memory = 64 << 20 })
		r := sh(t, box, "sh -c '"+hog+"'; echo tool ended with $?; exit 6")
		if r.OOMKilled || !r.ToolOOM || r.Code != 6 {
			t.Errorf("got %+v, %q", r.Exit, r.out)
		}
	}},
	{"a fork bomb stays in its box", func(t *testing.T, s Subject) {
		box, _ := start(t, s, func(sp *sandbox.Spec) { sp.PidsLimit = 40 })
		m := marker(t)
		r := sh(t, box, "i=0; while [ $i -lt 100 ]; do sleep "+m+" & i=$((i+1)); done; echo all")
		if n := alive(t, m); n > 40 {
			t.Errorf("%d processes were started (%+v)", n, r.Exit)
		}
		if r.Code != 0 && !r.PidsLimit {
			t.Errorf("what it failed of is not told: %+v", r.Exit)
		}
		closeBox(t, box)
		noneAlive(t, m)
	}},
	{"a stop ends a fork bomb", func(t *testing.T, s Subject) {
		box, _ := start(t, s, func(sp *sandbox.Spec) { sp.PidsLimit = 60 })
		m := marker(t)
		// A shell that can not fork ends; the one to be stopped does not fork any more.
		script := `echo ready; f() { (sleep ` + m + ` & f 2>/dev/null & f 2>/dev/null &) ; }; (while :; do f 2>/dev/null; done) & while :; do :; done`
		r, _ := stopAfter(t, box, script)
		if !r.Stopped {
			t.Errorf("got %+v", r.Exit)
		}
		closeBox(t, box)
		noneAlive(t, m)
	}},
	{"a full file system is told, with its name", func(t *testing.T, s Subject) {
		box, _ := start(t, s, func(sp *sandbox.Spec) { sp.Tmpfs = []sandbox.Tmpfs{{Target: "/scratch", Size: 64 << 10}} })
		r := sh(t, box, "cat /dev/zero > /scratch/f")
		if r.Code == 0 || r.OOMKilled || r.PidsLimit || len(r.Full) != 1 || r.Full[0] != "/scratch" {
			t.Errorf("got %+v, %q", r.Exit, r.err)
		}
		if r := sh(t, box, "rm /scratch/f; exit 3"); len(r.Full) > 0 || r.Code != 3 {
			t.Errorf("afterwards %+v", r.Exit)
		}
	}},
	{"root is refused unless allowed", func(t *testing.T, s Subject) {
		spec := s.Spec(t)
		spec.User = "0:0"
		box, err := s.Backend.Start(t.Context(), spec)
		if err == nil {
			closeBox(t, box)
			t.Fatal("a box was started as root")
		}
		var serr *sandbox.Error
		if !errors.As(err, &serr) || serr.Kind != sandbox.KindConfig || !strings.Contains(err.Error(), "root") {
			t.Errorf("got %v", err)
		}
	}},
	{"there is no network but loopback", func(t *testing.T, s Subject) {
		box, _ := start(t, s, func(sp *sandbox.Spec) { sp.Network.Mode = "none" })
		r := sh(t, box, "cat /proc/net/dev")
		lines := strings.Split(strings.TrimSpace(r.out), "\n")
		if len(lines) != 3 || !strings.Contains(lines[2], "lo:") {
			t.Errorf("interfaces:\n%s", r.out)
		}
		r = sh(t, box, "cat /proc/net/route")
		if n := strings.Count(r.out, "\n"); n > 1 {
			t.Errorf("routes:\n%s", r.out)
		}
	}},
}
