package docker_test

import (
	"context"
	"io"
	"os/exec"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/herd-runner/herd-runner/sandbox"
)

// BenchmarkEngineAlone is the floor: create, attach, start, wait and remove
// through the engine's API, hardened, with a network namespace of its own.
func BenchmarkEngineAlone(b *testing.B) {
	m := engine(b)
	no, pids := false, int64(512)
	for b.Loop() {
		c, err := m.api.ContainerCreate(b.Context(), &container.Config{
			Image: testImage, User: "1000:1000", Cmd: []string{"/bin/true"}, AttachStdin: true, AttachStdout: true, AttachStderr: true, OpenStdin: true, StdinOnce: true,
		}, &container.HostConfig{
			NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"}, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges:true"},
			ReadonlyRootfs: true, IpcMode: "private", Init: &no, Tmpfs: map[string]string{"/tmp": "rw,nosuid,nodev,size=1m", "/run": "rw,nosuid,nodev,size=1m"},
			Resources: container.Resources{Memory: 2 << 30, MemorySwap: 2 << 30, PidsLimit: &pids},
		}, nil, nil, "")
		if err != nil {
			b.Fatal(err)
		}
		h, err := m.api.ContainerAttach(b.Context(), c.ID, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
		if err != nil {
			b.Fatal(err)
		}
		if err := m.api.ContainerStart(b.Context(), c.ID, container.StartOptions{}); err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, h.Reader)
		h.Close()
		if err := m.api.ContainerRemove(b.Context(), c.ID, container.RemoveOptions{Force: true}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBox is a box with one process, start to removed.
func BenchmarkBox(b *testing.B) {
	back := open(b)
	spec := testSpec(b)
	for b.Loop() {
		useBox(b, back.Start, spec)
	}
}

func BenchmarkBoxBridge(b *testing.B) {
	back := open(b)
	spec := testSpec(b)
	spec.Network.Mode = "bridge"
	for b.Loop() {
		useBox(b, back.Start, spec)
	}
}

// BenchmarkFiftyBoxes runs fifty, all asked for at once.
func BenchmarkFiftyBoxes(b *testing.B) {
	back := open(b)
	spec := testSpec(b)
	for b.Loop() {
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { useBox(b, back.Start, spec) })
		}
		wg.Wait()
	}
}

type startFunc = func(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error)

func useBox(b *testing.B, start startFunc, spec sandbox.Spec) {
	x, err := start(b.Context(), spec)
	if err != nil {
		b.Error(err)
		return
	}
	if _, err := x.Exec(b.Context(), sandbox.Process{Argv: []string{"/bin/true"}}); err != nil {
		b.Error(err)
	}
	if err := x.Close(b.Context()); err != nil {
		b.Error(err)
	}
}

// BenchmarkProcess is a process in a warm box; BenchmarkDockerExec beside it.
func BenchmarkProcess(b *testing.B) {
	x := startBox(b, open(b))
	for b.Loop() {
		if _, err := x.Exec(b.Context(), sandbox.Process{Argv: []string{"/bin/true"}, Stdout: io.Discard, Stderr: io.Discard}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDockerExec(b *testing.B) {
	x := startBox(b, open(b))
	for b.Loop() {
		if out, err := exec.Command("docker", "exec", x.Info().ID, "/bin/true").CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
}

func BenchmarkMillionLines(b *testing.B) {
	x := startBox(b, open(b))
	for b.Loop() {
		if _, err := x.Exec(b.Context(), sandbox.Process{Argv: []string{"seq", "1000000"}, Env: []string{"PATH=/bin"}, Stdout: io.Discard}); err != nil {
			b.Fatal(err)
		}
	}
}
