package guest_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/internal/tunnel"
	"github.com/herd-runner/herd-runner/sandbox/sandboxtest"
)

// TestGuestOfAnotherArchitecture runs the suite with the guest as it is built for
// the other architecture, emulated by qemu and without a container: what it
// starts are this machine's programs. (FR-001)
func TestGuestOfAnotherArchitecture(t *testing.T) {
	if testing.Short() {
		t.Skip("needs qemu-user-static")
	}
	arch, emulator := "arm64", "qemu-aarch64-static"
	if runtime.GOARCH == "arm64" {
		arch, emulator = "amd64", "qemu-x86_64-static"
	}
	qemu, err := exec.LookPath(emulator)
	if err != nil {
		t.Fatalf("%v; on Debian or Ubuntu: apt-get install qemu-user-static", err)
	}
	file := filepath.Join(t.TempDir(), "guest")
	build := exec.Command("go", "build", "-o", file, "github.com/herd-runner/herd-runner/cmd/herd-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// It must be process 1: qemu knows no other that adopts orphans.
	argv := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Geteuid() != 0 {
		argv = append(argv, "--map-root-user")
	}
	const noContainer = "it has no container"
	sandboxtest.Run(t, sandboxtest.Subject{
		Backend: emulated{append(argv, qemu, file, "guest"), arch},
		Spec: func(t *testing.T) sandbox.Spec {
			dir := t.TempDir()
			for _, sub := range []string{"ws", "temp"} {
				if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			return sandbox.Spec{Workdir: filepath.Join(dir, "ws"), Temp: filepath.Join(dir, "temp"), Home: filepath.Join(dir, "temp")}
		},
		HostPath: func(_ sandbox.Spec, path string) string { return path },
		GatewayGet: func(addr string) []string {
			return []string{"busybox", "wget", "-q", "-O", "-", "http://" + addr + "/"}
		},
		Skip: map[string]string{
			"one endless line stays bounded":            "1 GiB takes long",
			"a process that uses too much memory":       noContainer,
			"a tool that uses too much memory":          noContainer,
			"a fork bomb stays in its box":              noContainer,
			"a stop ends a fork bomb":                   noContainer,
			"a full file system is told, with its name": noContainer,
			"root is refused unless allowed":            noContainer,
			"there is no network but loopback":          noContainer,
			"cancel during start leaves nothing":        noContainer,
		},
	})
}

// emulated starts guests as processes of this machine.
type emulated struct {
	argv []string
	arch string // of the guests
}

func (emulated) Preflight(context.Context, []sandbox.Spec) error { return nil }

func (emulated) Close(context.Context) error { return nil }

func (e emulated) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	cmd := exec.Command(e.argv[0], e.argv[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	client, err := tunnel.Dial(ctx, pipes{out, in}, tunnel.Services{Gateway: spec.Gateway})
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	env := map[string]string{"PATH": os.Getenv("PATH")}
	for k, v := range spec.Env {
		env[k] = v
	}
	info := sandbox.Info{
		Backend: "emulated", ID: "1", Workdir: spec.Workdir, Home: spec.Home, Temp: spec.Temp, Runner: e.argv[len(e.argv)-2],
		Gateway: client.Gateway(), Env: env,
	}
	if info.OS, info.Arch = client.Platform(); info.Arch != e.arch {
		return nil, fmt.Errorf("the guest is of %s, expected was %s", info.Arch, e.arch)
	}
	return &emulatedBox{cmd: cmd, client: client, info: info}, nil
}

type emulatedBox struct {
	cmd    *exec.Cmd
	client *tunnel.Client
	info   sandbox.Info
	closed bool
}

func (b *emulatedBox) Info() sandbox.Info { return b.info }

func (b *emulatedBox) Exec(ctx context.Context, p sandbox.Process) (sandbox.Exit, error) {
	return b.client.Exec(ctx, p, b.info.Workdir)
}

func (b *emulatedBox) Close(ctx context.Context) error {
	if b.closed {
		return nil
	}
	b.closed = true
	b.client.Close(ctx)
	return b.cmd.Wait()
}

type pipes struct {
	io.ReadCloser
	in io.WriteCloser
}

func (p pipes) Write(b []byte) (int, error) { return p.in.Write(b) }

func (p pipes) Close() error {
	_ = p.in.Close()
	return p.ReadCloser.Close()
}
