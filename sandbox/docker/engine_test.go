package docker_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"github.com/herd-runner/herd-runner/internal/enginetest"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/docker"
)

// runtimeEnv names the OCI runtime of the tests' boxes where it is not the
// engine's own choice.
const runtimeEnv = "HERD_TEST_OCI_RUNTIME"

const testImage = enginetest.Busybox

// machine is what the tests of this package share: an engine, a small image
// and the guest as an executable.
type machine struct {
	api   *client.Client
	guest string
}

var prepare = sync.OnceValues(func() (machine, error) {
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return machine{}, err
	}
	dir, err := os.MkdirTemp("", "herd-docker-test-")
	if err != nil {
		return machine{}, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return machine{}, err
	}
	m := machine{api: api, guest: filepath.Join(dir, "herd-runner")}
	build := exec.Command("go", "build", "-o", m.guest, "github.com/herd-runner/herd-runner/cmd/herd-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return m, &exec.Error{Name: "go build: " + string(out), Err: err}
	}
	return m, enginetest.ImportBusybox(api)
})

func engine(t testing.TB) machine {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Docker engine")
	}
	m, err := prepare()
	if err != nil {
		t.Fatalf("these tests need a running Docker engine and busybox-static (apt-get install docker.io busybox-static): %v", err)
	}
	return m
}

func TestMain(m *testing.M) {
	code := m.Run()
	if !testing.Short() {
		if got, err := prepare(); err == nil {
			_ = os.RemoveAll(filepath.Dir(got.guest))
		}
	}
	os.Exit(code)
}

// open returns a backend with a state of its own, closed with the test.
func open(t testing.TB, change ...func(*docker.Options)) *docker.Backend {
	t.Helper()
	m := engine(t)
	opts := docker.Options{Runner: m.guest, StateDir: t.TempDir(), Notice: func(s string) { t.Log(s) }}
	for _, c := range change {
		c(&opts)
	}
	b, err := docker.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBackend(t, b) })
	return b
}

func closeBackend(t testing.TB, b *docker.Backend) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Error(err)
	}
}

// testSpec is a box whose /work is a directory of the test, owned by its user.
func testSpec(t testing.TB) sandbox.Spec {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, sub := range []string{"ws", "temp"} {
		p := filepath.Join(dir, sub)
		if err := os.Mkdir(p, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(p, 1000, 1000); err != nil {
			t.Fatal(err)
		}
	}
	return sandbox.Spec{
		Run: "run1", Job: "job", Step: "step", Image: testImage, Network: sandbox.Network{Mode: "none"}, OCIRuntime: os.Getenv(runtimeEnv),
		User: "1000:1000", Workdir: "/work/ws", Temp: "/work/temp", Home: "/work/temp",
		Mounts: []sandbox.Mount{{Source: dir, Target: "/work"}},
	}
}

// labelled lists the containers with all these labels.
func labelled(t testing.TB, labels ...string) []container.Summary {
	t.Helper()
	f := filters.NewArgs()
	for _, l := range labels {
		f.Add("label", l)
	}
	list, err := engine(t).api.ContainerList(t.Context(), container.ListOptions{All: true, Filters: f})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// ended tells of a container that does not run any more; podman has a state of its
// own for the moment after.
func ended(c container.Summary) bool { return c.State == "exited" || c.State == "stopped" }

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		<-tick.C
	}
}
