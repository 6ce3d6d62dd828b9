package sandboxtest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/sandbox"
)

var exitTests = []test{
	{"exit codes arrive", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		for _, want := range []int{0, 1, 42, 255} {
			r := sh(t, box, "exit $0", func(p *sandbox.Process) { p.Argv = append(p.Argv, itoa(want)) })
			if r.Code != want || r.Signal != "" || r.Stopped {
				t.Errorf("exit %d arrived as %+v", want, r.Exit)
			}
		}
	}},
	{"a signal is told by name", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		r := sh(t, box, "kill -SEGV $$")
		if r.Code != 139 || r.Signal != "SEGV" || r.Stopped || r.OOMKilled {
			t.Errorf("got %+v", r.Exit)
		}
	}},
	{"the environment is exact", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		want := []string{"A=1", "EMPTY=", "MULTI=a\nb=c", "PATH=" + sandbox.DefaultPath, "UTF=ü\xff"}
		r := sh(t, box, "", func(p *sandbox.Process) {
			p.Argv, p.Env = []string{"env", "-0"}, want
		})
		if strings.Contains(r.err, "invalid option") || r.Code != 0 { // busybox's env has no -0
			r = sh(t, box, "", func(p *sandbox.Process) {
				p.Argv, p.Env = []string{"cat", "/proc/self/environ"}, want
			})
		}
		got := strings.Split(strings.TrimSuffix(r.out, "\x00"), "\x00")
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}},
	{"arguments are data", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		args := []string{"", "a b", `"'`, "$(id)", "`id`", "*", "-x", "new\nline", "ü\xff"}
		r := sh(t, box, `for a; do printf '<%s>' "$a"; done`, func(p *sandbox.Process) {
			p.Argv = append(append(p.Argv, "sh"), args...)
		})
		if want := "<" + strings.Join(args, "><") + ">"; r.out != want {
			t.Errorf("got %q, want %q", r.out, want)
		}
	}},
	{"of several command lines the first whose program is there runs", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		r := sh(t, box, "", func(p *sandbox.Process) {
			p.Argv, p.Else = []string{"no-such-shell", "x"}, [][]string{{"nor-this"}, {"sh", "-c", "echo second $0", "a b"}, {"sh", "-c", "echo third"}}
		})
		if r.out != "second a b\n" {
			t.Errorf("got %q", r.out)
		}
		_, err := execCtx(t.Context(), box, "", func(p *sandbox.Process) {
			p.Argv, p.Else = []string{"no-such-shell"}, [][]string{{"nor-this"}}
		})
		var serr *sandbox.Error
		if !errors.As(err, &serr) || serr.Kind != sandbox.KindExec || !strings.Contains(err.Error(), "no-such-shell") {
			t.Errorf("none is there: got %v", err)
		}
	}},
	{"the working directory is kept", func(t *testing.T, s Subject) {
		box, spec := start(t, s)
		if r := sh(t, box, "pwd -P"); strings.TrimSpace(r.out) != spec.Workdir {
			t.Errorf("default is %q, want %q", r.out, spec.Workdir)
		}
		r := sh(t, box, "pwd -P", func(p *sandbox.Process) { p.Dir = "/proc" })
		if r.out != "/proc\n" {
			t.Errorf("got %q", r.out)
		}
	}},
	{"what can not start is an exec error", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		for name, change := range map[string]func(*sandbox.Process){
			"no such program":    func(p *sandbox.Process) { p.Argv = []string{"herd-no-such-program"} },
			"no such path":       func(p *sandbox.Process) { p.Argv = []string{"/no/such/path"} },
			"no such directory":  func(p *sandbox.Process) { p.Dir = "/no/such/directory" },
			"no argv":            func(p *sandbox.Process) { p.Argv = nil },
			"arguments too long": func(p *sandbox.Process) { p.Argv = append(p.Argv, strings.Repeat("x", 1<<20)) },
		} {
			_, err := execCtx(t.Context(), box, "true", change)
			var serr *sandbox.Error
			if !errors.As(err, &serr) || serr.Kind != sandbox.KindExec {
				t.Errorf("%s: got %v, want an error of kind exec", name, err)
			}
		}
	}},
	{"cpu and peak memory are told", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		r := sh(t, box, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
		if r.CPU <= 0 {
			t.Errorf("cpu is %s", r.CPU)
		}
		if r.PeakMemory < 100<<10 {
			t.Errorf("peak memory is %d bytes", r.PeakMemory)
		}
	}},
}
