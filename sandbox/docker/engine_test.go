package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/docker"
)

const testImage = "herd-test/busybox:1"

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
	build := exec.Command("go", "build", "-o", m.guest, "github.com/herd-runner/herd-runner/sandbox/internal/testguest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return m, &exec.Error{Name: "go build: " + string(out), Err: err}
	}
	return m, importBusybox(api)
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

// importBusybox makes an image of a single static executable, once per engine.
func importBusybox(api *client.Client) error {
	if _, err := api.ImageInspect(context.Background(), testImage); err == nil {
		return nil
	}
	path, err := exec.LookPath("busybox")
	if err != nil {
		if out, err := exec.Command("apt-get", "install", "-y", "busybox-static").CombinedOutput(); err != nil {
			return &exec.Error{Name: "apt-get install busybox-static: " + string(out), Err: err}
		}
		if path, err = exec.LookPath("busybox"); err != nil {
			return err
		}
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	list, err := exec.Command(path, "--list").Output()
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	add := func(h tar.Header, data []byte) {
		h.Size = int64(len(data))
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err == nil {
			err = w.WriteHeader(&h)
		}
		if err == nil {
			_, err = w.Write(data)
		}
	}
	for _, d := range []string{"bin/", "etc/", "tmp/", "run/", "proc/", "sys/", "dev/", "work/"} {
		add(tar.Header{Name: d, Typeflag: tar.TypeDir}, nil)
	}
	add(tar.Header{Name: "etc/passwd", Mode: 0o644, Typeflag: tar.TypeReg}, []byte("root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n"))
	add(tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg}, program)
	for applet := range strings.Lines(string(list)) {
		if applet = strings.TrimSpace(applet); applet != "busybox" {
			add(tar.Header{Name: "bin/" + applet, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil)
		}
	}
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := api.ImageImport(ctx, image.ImportSource{Source: &buf, SourceName: "-"}, testImage,
		image.ImportOptions{Changes: []string{"ENV PATH=/usr/local/bin:/bin FROM_IMAGE=yes"}})
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = new(bytes.Buffer).ReadFrom(r)
	return err
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
		Run: "run1", Job: "job", Step: "step", Image: testImage, Network: sandbox.Network{Mode: "none"},
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
