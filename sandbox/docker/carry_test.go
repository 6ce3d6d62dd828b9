package docker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/docker"
	"github.com/herd-runner/herd-runner/sandbox/sandboxtest"
)

// elsewhere is a directory that each process has its own of, and so the engine
// another: it counts as one on another machine.
const elsewhere = "/proc/self/cwd"

// farEngine is a backend whose engine has other files than this machine.
func farEngine(t *testing.T, change ...func(*docker.Options)) *docker.Backend {
	t.Helper()
	a := newAuthority(t)
	address := tlsEngine(t, a)
	a.use(t, a)
	t.Chdir(t.TempDir())
	return open(t, append(change, func(o *docker.Options) { o.Host = address })...)
}

// farSpec is of a box on such an engine; dir is what it has at /work.
func farSpec(t *testing.T) (spec sandbox.Spec, dir string) {
	t.Helper()
	spec = testSpec(t)
	spec.Project = elsewhere
	if err := os.Chown(spec.Mounts[0].Source, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	return spec, spec.Mounts[0].Source
}

// copies are the volumes of runs that are kept on the engine for a state directory.
func copies(t *testing.T, stateDir string) []string {
	t.Helper()
	host, err := os.ReadFile(filepath.Join(stateDir, "host-id"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := engine(t).api.VolumeList(t.Context(), volume.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", "herd-runner.role=copies"), filters.Arg("label", "herd-runner.host="+strings.TrimSpace(string(host))))})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range got.Volumes {
		names = append(names, v.Name)
	}
	return names
}

// TestConformanceCarried runs the suite on an engine that has other files.
func TestConformanceCarried(t *testing.T) {
	b := farEngine(t)
	sandboxtest.Run(t, sandboxtest.Subject{
		Backend: b,
		Spec: func(t *testing.T) sandbox.Spec {
			spec, _ := farSpec(t)
			return spec
		},
		HostPath: func(spec sandbox.Spec, path string) string {
			return filepath.Join(spec.Mounts[0].Source, strings.TrimPrefix(path, "/work"))
		},
		GatewayGet: func(addr string) []string { return []string{"wget", "-q", "-O", "-", "http://" + addr + "/"} },
		Skip: map[string]string{
			"followed files end somewhere": "it leaves a file of 900 GB, which is more than is carried",
		},
	})
}

// TestCarriedFiles: boxes with one source share its copy, what this machine changes
// between two processes is there in the second, what a box changes is here after
// each, and HOME stays where it is.
func TestCarriedFiles(t *testing.T) {
	b := farEngine(t)
	spec, dir := farSpec(t)
	home := t.TempDir()
	if err := os.Chown(home, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	spec.Home, spec.Mounts = "/home", append(spec.Mounts, sandbox.Mount{Source: home, Target: "/home"})
	ws := filepath.Join(dir, "ws")
	write(t, filepath.Join(ws, "a"), "one")
	one, two := startSpec(t, b, spec), startSpec(t, b, spec)
	if got := output(t, one, "cat a; echo two >b; echo x >/home/h; chown 1000 b; stat -c %u b"); got != "one1000\n" {
		t.Errorf("the first box said %q", got)
	}
	if got := readFile(t, filepath.Join(ws, "b")); got != "two\n" {
		t.Errorf("b is %q here", got)
	}
	if st, err := os.Stat(filepath.Join(ws, "b")); err != nil || st.Sys().(*syscall.Stat_t).Uid != 1000 {
		t.Errorf("b does not belong to the box's user: %v, %v", st, err)
	}
	write(t, filepath.Join(ws, "c"), "three")
	if err := os.Remove(filepath.Join(ws, "a")); err != nil {
		t.Fatal(err)
	}
	if got := output(t, two, "cat b c; ls; (sleep 0.3; echo late >late) >/dev/null 2>&1 &"); got != "two\nthreeb\nc\n" {
		t.Errorf("the second box said %q", got)
	}
	if left, _ := os.ReadDir(home); len(left) > 0 || two.Info().HostHome != "" {
		t.Errorf("HOME is here: %v, %q", left, two.Info().HostHome)
	}
	ro := spec
	ro.Mounts = append([]sandbox.Mount{{Source: dir, Target: "/work", ReadOnly: true}}, spec.Mounts[1:]...)
	if got := output(t, startSpec(t, b, ro), "(echo x >b) 2>/dev/null || cat b"); got != "two\n" {
		t.Errorf("the read-only box said %q", got)
	}
	eventually(t, "what runs on in a box has written", func() bool { return output(t, one, "cat late 2>/dev/null || true") == "late\n" })
	if got := readFile(t, filepath.Join(ws, "late")); got != "late\n" {
		t.Errorf("late is %q", got)
	}
}

// A mount in a mount stays, whatever becomes of what is below it.
func TestCarriedMountsStay(t *testing.T) {
	b := farEngine(t)
	spec, dir := farSpec(t)
	ws := filepath.Join(dir, "ws")
	pointer := filepath.Join(t.TempDir(), "pointer")
	write(t, pointer, "ours")
	write(t, filepath.Join(ws, ".git"), "the person's")
	if err := os.Mkdir(filepath.Join(ws, ".herd"), 0o755); err != nil {
		t.Fatal(err)
	}
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: pointer, Target: "/work/ws/.git", ReadOnly: true}, sandbox.Mount{Target: "/work/ws/.herd"})
	x := startSpec(t, b, spec)
	for _, change := range []func(){
		func() {},
		func() { write(t, filepath.Join(ws, ".git"), "changed") },
		func() {
			if err := os.Remove(filepath.Join(ws, ".git")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		change()
		if got := output(t, x, "cat .git; mv .git x 2>/dev/null; rm -rf .git .herd 2>/dev/null; touch .herd/x 2>/dev/null || echo; cat .git"); got != "ours\nours" {
			t.Errorf("the box said %q", got)
		}
	}
}

// THREATS 13: copies go with their runner, with the next start, or with clean.
func TestCopiesAreRemoved(t *testing.T) {
	state := t.TempDir()
	at := func(o *docker.Options) { o.StateDir = state }
	b := farEngine(t, at)
	spec, _ := farSpec(t)
	x := startSpec(t, b, spec)
	output(t, x, "true")
	if got := copies(t, state); len(got) != 1 {
		t.Fatalf("the copies are in %q", got)
	}
	closeBackend(t, b)
	if got := copies(t, state); len(got) > 0 {
		t.Errorf("left are %q", got)
	}

	t.Setenv("DOCKER_CERT_PATH", "")
	made, err := engine(t).api.VolumeCreate(t.Context(), volume.CreateOptions{Labels: map[string]string{
		"herd-runner": "1", "herd-runner.role": "copies", "herd-runner.lease": "dead", "herd-runner.host": strings.TrimSpace(readFile(t, filepath.Join(state, "host-id"))),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine(t).api.VolumeRemove(context.Background(), made.Name, true) })
	look := open(t, at, func(o *docker.Options) { o.Look = true; o.Host = engine(t).api.DaemonHost() })
	if got, err := look.OldVolumes(t.Context()); err != nil || !slices.Contains(got, made.Name) {
		t.Errorf("clean is offered %q, %v", got, err)
	}
	open(t, at, func(o *docker.Options) { o.Host = engine(t).api.DaemonHost() })
	if got := copies(t, state); len(got) > 0 {
		t.Errorf("the next start left %q", got)
	}
}

// What can not be carried is refused before the run, and at the start of a box
// that was not known then.
func TestNotCarried(t *testing.T) {
	b := farEngine(t)
	for want, change := range map[string]func(*sandbox.Spec){
		"a box that is kept": func(s *sandbox.Spec) { s.Keep = true },
		"/srv is not there": func(s *sandbox.Spec) {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/srv", Target: "/srv", Here: true})
		},
	} {
		spec, _ := farSpec(t)
		change(&spec)
		_, startErr := b.Start(t.Context(), spec)
		for _, err := range []error{startErr, b.Preflight(t.Context(), []sandbox.Spec{spec})} {
			var serr *sandbox.Error
			if !errors.As(err, &serr) || serr.Kind != sandbox.KindConfig || !strings.Contains(err.Error(), want) || serr.Advice == "" {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	}
}

func startSpec(t *testing.T, b *docker.Backend, spec sandbox.Spec) sandbox.Box {
	t.Helper()
	x, err := b.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
