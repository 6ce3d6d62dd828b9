package host_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/host"
	"github.com/herd-runner/herd-runner/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) {
	b := host.New(host.Options{TempDir: t.TempDir()})
	defer closeBackend(t, b)
	unlimited := "host processes have no limits of their own"
	sandboxtest.Run(t, sandboxtest.Subject{
		Backend: b,
		Spec: func(t *testing.T) sandbox.Spec {
			dir := t.TempDir()
			return sandbox.Spec{Job: "test", Workdir: dir, Temp: t.TempDir()}
		},
		HostPath: func(_ sandbox.Spec, path string) string { return path },
		GatewayGet: func(addr string) []string {
			return []string{"bash", "-c", `exec 3<>"/dev/tcp/${0%:*}/${0##*:}"; printf 'GET / HTTP/1.0\r\n\r\n' >&3; cat <&3`, addr}
		},
		Skip: map[string]string{
			"a process that uses too much memory":       unlimited,
			"a tool that uses too much memory":          unlimited,
			"a full file system is told, with its name": unlimited,
			"a fork bomb stays in its box":              unlimited,
			"a stop ends a fork bomb":                   unlimited,
			"root is refused unless allowed":            "the host backend runs as the person who started it",
			"there is no network but loopback":          "a host process has the host's network; the spec is refused",
		},
	})
}

func closeBackend(t testing.TB, b *host.Backend) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestPreflightRefusesWhatTheHostCanNotKeep(t *testing.T) {
	b := host.New(host.Options{})
	for _, spec := range []sandbox.Spec{
		{Network: sandbox.Network{Mode: "none"}},
		{Network: sandbox.Network{Mode: "allow"}},
		{Workdir: "/no/such/directory"},
	} {
		if err := b.Preflight(t.Context(), []sandbox.Spec{spec}); err == nil {
			t.Errorf("%+v was accepted", spec)
		}
	}
	if err := b.Preflight(t.Context(), []sandbox.Spec{{Workdir: "/"}}); err != nil {
		t.Error(err)
	}
}

func TestFilesArePassedThrough(t *testing.T) {
	b := host.New(host.Options{})
	defer closeBackend(t, b)
	box, err := b.Start(t.Context(), sandbox.Spec{Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := box.Exec(t.Context(), sandbox.Process{Argv: []string{"sh", "-c", "echo through; ls -l /proc/self/fd/1"}, Stdout: out}); err != nil {
		t.Fatal(err)
	}
	b2, _ := os.ReadFile(out.Name())
	if want := "through\n"; len(b2) < len(want) || string(b2[:len(want)]) != want {
		t.Errorf("got %q", b2)
	}
}

func TestTempIsRemovedWithTheBox(t *testing.T) {
	dir := t.TempDir()
	b := host.New(host.Options{TempDir: dir})
	defer closeBackend(t, b)
	box, err := b.Start(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(box.Info().Temp+"/x", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
