package docker_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/docker"
)

// keptSpec asks for a box that is kept, with its HOME and temporary directory on
// mounts of their own and a session below project.
func keptSpec(t *testing.T, project, last string, reuse bool) sandbox.Spec {
	t.Helper()
	spec := testSpec(t)
	dir := spec.Mounts[0].Source
	spec.Project, spec.Workflow, spec.Step = project, "flow.yml", "kept"
	spec.Keep, spec.Reuse, spec.MaxContainers = true, reuse, 2
	spec.Home, spec.Temp = "/home", "/herd-temp"
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: filepath.Join(dir, "ws"), Target: "/home"}, sandbox.Mount{Source: filepath.Join(dir, "temp"), Target: "/herd-temp"})
	spec.Session = filepath.Join(project, ".herd/docker-sessions/flow.yml/job/kept", last)
	if err := os.MkdirAll(spec.Session, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		api := engine(t).api
		list, err := api.ContainerList(context.Background(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", "herd-runner.project="+project))})
		if err != nil {
			t.Error(err)
		}
		for _, c := range list {
			_ = api.ContainerRemove(context.Background(), c.ID, container.RemoveOptions{Force: true})
		}
	})
	return spec
}

// use starts a box, runs a script in it and closes it.
func use(t *testing.T, b *docker.Backend, spec sandbox.Spec, script string) (sandbox.Info, string) {
	t.Helper()
	x, err := b.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	out := output(t, x, script)
	if err := x.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return x.Info(), out
}

// DOCKER-09: the newest are kept with what they left, the oldest go first, each
// with its session; another step's are not counted.
func TestKeptBoxesHaveASession(t *testing.T) {
	b, project := open(t), t.TempDir()
	other := keptSpec(t, project, "other", false)
	other.Step = "kept-too"
	use(t, b, other, "true")
	var dirs []string
	for _, run := range []string{"r1", "r2", "r3"} {
		spec := keptSpec(t, project, run, false)
		dirs = append(dirs, spec.Session)
		if info, out := use(t, b, spec, "echo "+run+" > /home/f; cat /home/f; (setsid sleep 600 &)"); out != run+"\n" || info.Reused {
			t.Errorf("got %q, reused %v", out, info.Reused)
		}
	}
	if _, err := os.Stat(dirs[0]); !os.IsNotExist(err) {
		t.Errorf("the session of the oldest is there: %v", err)
	}
	for i, run := range []string{"r2", "r3"} {
		if got, err := os.ReadFile(filepath.Join(dirs[i+1], "home/f")); err != nil || string(got) != run+"\n" {
			t.Errorf("HOME of %s has %q, %v", run, got, err)
		}
	}
	kept := labelled(t, "herd-runner.project="+project)
	if len(kept) != 3 {
		t.Errorf("%d are kept, expected two of the step and one of the other", len(kept))
	}
	for _, c := range kept {
		if !ended(c) {
			t.Errorf("%s is %s", c.ID, c.State)
		}
	}
}

// A reused box is the same container: HOME and root file system stay, memory
// file systems, processes and temporary files do not. FR-009, THREATS 14.
func TestReusedBoxes(t *testing.T) {
	state, project := t.TempDir(), t.TempDir()
	with := func(o *docker.Options) { o.StateDir = state }
	first := open(t, with)
	spec := keptSpec(t, project, "box", true)
	spec.WritableRoot, spec.User, spec.AllowRoot = true, "0:0", true
	one, _ := use(t, first, spec, "echo h > /home/h; echo r > /etc/r; echo t > /tmp/t; echo m > /herd-temp/m; (setsid sleep 600 &)")
	closeBackend(t, first)

	// Another run: another lease, another clone of the project.
	b := open(t, with)
	again := keptSpec(t, project, "box", true)
	again.WritableRoot, again.User, again.AllowRoot = true, "0:0", true
	again.Run = "run2"
	if err := os.WriteFile(filepath.Join(again.Mounts[0].Source, "ws/new"), []byte("n\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	x, err := b.Start(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	if !x.Info().Reused || x.Info().ID != one.ID {
		t.Fatalf("got %+v, expected %s again", x.Info(), one.ID)
	}
	if out := output(t, x, "cat /home/h /etc/r /work/ws/new; ls /tmp /herd-temp; ps | grep -c '[s]leep'"); out != "h\nr\nn\n/herd-temp:\n\n/tmp:\n0\n" {
		t.Errorf("got %q", out)
	}

	// While it runs, it is nobody else's, and a runner that starts lets it be.
	other := open(t, with)
	info, out := use(t, other, again, "ls /home; echo alone")
	if info.Reused || info.ID == one.ID || len(info.Notices) != 1 || !strings.HasSuffix(out, "alone\n") {
		t.Errorf("got %+v, %q", info, out)
	}
	if out := output(t, x, "cat /home/h"); out != "h\n" {
		t.Errorf("got %q", out)
	}
	if err := x.Close(t.Context()); err != nil {
		t.Error(err)
	}

	// Another spec is another box; the old one goes.
	again.Memory = 128 << 20
	three, out := use(t, b, again, "cat /home/h; ls /etc/r 2>&1")
	if three.Reused || three.ID == one.ID || !strings.HasPrefix(out, "h\n") || !strings.Contains(out, "No such file") {
		t.Errorf("got %+v, %q", three, out)
	}
	if left := labelled(t, "herd-runner.project="+project); len(left) != 1 || left[0].ID != three.ID {
		t.Errorf("left: %+v", left)
	}
}

// A kept box that does not start any more is made anew.
func TestASpoiledBoxIsMadeAnew(t *testing.T) {
	b, project := open(t), t.TempDir()
	spec := keptSpec(t, project, "box", true)
	one, _ := use(t, b, spec, "echo h > /home/h")
	api := engine(t).api
	got, err := api.ContainerInspect(t.Context(), one.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := api.ContainerRemove(t.Context(), one.ID, container.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	got.Config.Cmd = []string{"guest", "spoiled"}
	got.HostConfig.Ulimits = nil // podman does not take back how it names them
	spoiled, err := api.ContainerCreate(t.Context(), got.Config, got.HostConfig, nil, nil, "")
	if err == nil {
		err = api.ContainerStart(t.Context(), spoiled.ID, container.StartOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it ends", func() bool { return labelled(t, "herd-runner.project="+project)[0].State == "exited" })
	two, out := use(t, b, spec, "cat /home/h")
	if out != "h\n" || two.Reused || len(two.Notices) != 1 || !strings.Contains(two.Notices[0], "anew") {
		t.Errorf("got %q, %+v", out, two)
	}
	if left := labelled(t, "herd-runner.project="+project); len(left) != 1 || left[0].ID != two.ID {
		t.Errorf("left: %+v", left)
	}
}
