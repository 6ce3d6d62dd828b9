package tunnel_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/guest"
	"github.com/herd-runner/herd-runner/sandbox/internal/tunnel"
	"github.com/herd-runner/herd-runner/sandbox/sandboxtest"
)

const guestEnv = "HERD_TEST_GUEST"

// TestMain lets the test's own executable be the guest.
func TestMain(m *testing.M) {
	if os.Getenv(guestEnv) != "" {
		signal.Ignore(syscall.SIGPIPE)
		if err := guest.Serve(stdio{os.Stdin, os.Stdout}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type stdio struct {
	io.Reader
	io.Writer
}

func (stdio) Close() error { return nil }

// backend runs a guest as a plain process: all but the container.
type backend struct{}

type box struct {
	client *tunnel.Client
	cmd    *exec.Cmd
	info   sandbox.Info
	closed chan struct{}
}

func (backend) Preflight(context.Context, []sandbox.Spec) error { return nil }
func (backend) Close(context.Context) error                     { return nil }

func (backend) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{guestEnv + "=1", "GORACE=atexit_sleep_ms=0"}
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
	c, err := tunnel.Dial(ctx, conn{out, in}, tunnel.Services{Gateway: spec.Gateway, Egress: spec.Egress})
	if err != nil {
		_ = in.Close()
		_ = cmd.Wait()
		return nil, &sandbox.Error{Kind: sandbox.KindStart, Op: "start guest", Err: err}
	}
	b := &box{client: c, cmd: cmd, closed: make(chan struct{}, 1), info: sandbox.Info{
		Backend: "tunnel", Workdir: spec.Workdir, Temp: spec.Temp, Runner: os.Args[0], Gateway: c.Gateway(), Egress: c.Egress(),
		Env: map[string]string{"PATH": sandbox.DefaultPath},
	}}
	b.info.OS, b.info.Arch = c.Platform()
	for k, v := range spec.Env {
		b.info.Env[k] = v
	}
	return b, nil
}

type conn struct {
	io.ReadCloser
	w io.WriteCloser
}

func (c conn) Write(b []byte) (int, error) { return c.w.Write(b) }
func (c conn) Close() error                { _ = c.w.Close(); return c.ReadCloser.Close() }

func (b *box) Info() sandbox.Info { return b.info }

func (b *box) Exec(ctx context.Context, p sandbox.Process) (sandbox.Exit, error) {
	return b.client.Exec(ctx, p, b.info.Workdir)
}

func (b *box) Close(ctx context.Context) error {
	select {
	case b.closed <- struct{}{}:
		b.client.Close(ctx)
		return b.cmd.Wait()
	default:
		return nil
	}
}

func TestConformance(t *testing.T) {
	noBox := "the guest runs as a plain process here; package docker has the box"
	sandboxtest.Run(t, sandboxtest.Subject{
		Backend:  backend{},
		Spec:     func(t *testing.T) sandbox.Spec { return sandbox.Spec{Workdir: t.TempDir(), Temp: t.TempDir()} },
		HostPath: func(_ sandbox.Spec, path string) string { return path },
		GatewayGet: func(addr string) []string {
			return []string{"bash", "-c", `exec 3<>"/dev/tcp/${0%:*}/${0##*:}"; printf 'GET / HTTP/1.0\r\n\r\n' >&3; cat <&3`, addr}
		},
		Skip: map[string]string{
			"a process that uses too much memory":       noBox,
			"a tool that uses too much memory":          noBox,
			"a full file system is told, with its name": noBox,
			"a fork bomb stays in its box":              noBox,
			"a stop ends a fork bomb":                   noBox,
			"root is refused unless allowed":            noBox,
			"there is no network but loopback":          noBox,
		},
	})
}

func TestTheEndOfTheStreamEndsEveryProcess(t *testing.T) {
	b, err := backend{}.Start(t.Context(), sandbox.Spec{Workdir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	x := b.(*box)
	up := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := x.Exec(t.Context(), sandbox.Process{
			Argv: []string{"sh", "-c", "(setsid sleep 500 &) ; echo up; sleep 500"},
			Stdout: writer(func(b []byte) (int, error) {
				close(up)
				return len(b), nil
			}),
		})
		done <- err
	}()
	<-up
	x.client.Close(t.Context())
	wait(t, "exec returns", func() error { return <-done })
	wait(t, "the guest exits", x.cmd.Wait)
}

func wait(t *testing.T, what string, f func() error) {
	t.Helper()
	c := make(chan error, 1)
	go func() { c <- f() }()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("not in time: %s", what)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func BenchmarkProcessInWarmBox(b *testing.B) {
	x, err := backend{}.Start(b.Context(), sandbox.Spec{})
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close(b.Context())
	for b.Loop() {
		if _, err := x.Exec(b.Context(), sandbox.Process{Argv: []string{"/bin/true"}, Stdout: io.Discard}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMillionLines(b *testing.B) {
	x, err := backend{}.Start(b.Context(), sandbox.Spec{})
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close(b.Context())
	for b.Loop() {
		if _, err := x.Exec(b.Context(), sandbox.Process{Argv: []string{"seq", "1000000"}, Stdout: io.Discard}); err != nil {
			b.Fatal(err)
		}
	}
}
