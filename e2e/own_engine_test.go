package e2e

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"github.com/herd-runner/herd-runner/internal/enginetest"
)

// busyboxImage is small.
const busyboxImage = enginetest.Busybox

// ownEngine is a Docker engine of one test, in a network namespace of its own,
// which may be killed.
type ownEngine struct {
	t      *testing.T
	dir    string
	log    *os.File
	api    *client.Client
	daemon *exec.Cmd
	dead   chan struct{} // closed when daemon has ended
}

// newOwnEngine starts one that has the given images of the shared engine.
func newOwnEngine(t *testing.T, images ...string) *ownEngine {
	t.Helper()
	shared := needEngine(t)
	if err := enginetest.ImportBusybox(shared.Client); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		t.Skip("an engine of its own can be started by root alone")
	}
	// Sockets have short paths only.
	dir, err := os.MkdirTemp("", "herd-engine-")
	if err != nil {
		t.Fatal(err)
	}
	e := &ownEngine{t: t, dir: dir}
	t.Cleanup(e.remove)
	if e.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	if e.api, err = client.NewClientWithOpts(client.WithHost(e.host()), client.WithAPIVersionNegotiation()); err != nil {
		t.Fatal(err)
	}
	e.start()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	saved, err := shared.ImageSave(ctx, images)
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	loaded, err := e.api.ImageLoad(ctx, saved)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Body.Close()
	if said, err := io.ReadAll(loaded.Body); err != nil || bytes.Contains(said, []byte("errorDetail")) {
		t.Fatalf("load %v: %v\n%s", images, err, said)
	}
	return e
}

// machine is one whose engine this is.
func (e *ownEngine) machine() *machine {
	e.t.Helper()
	m := newMachine(e.t, "DOCKER_HOST="+e.host())
	m.engine = engine{e.api}
	return m
}

// host is its address as in DOCKER_HOST.
func (e *ownEngine) host() string { return "unix://" + filepath.Join(e.dir, "sock") }

// start starts the engine and waits until it answers.
func (e *ownEngine) start() {
	e.t.Helper()
	// A dead process that nobody has reaped counts as a daemon at work.
	_ = os.Remove(filepath.Join(e.dir, "pid"))
	_ = os.Remove(filepath.Join(e.dir, "exec/containerd/containerd.pid"))
	e.daemon = exec.Command("dockerd", "--host", e.host(), "--pidfile", filepath.Join(e.dir, "pid"),
		"--data-root", filepath.Join(e.dir, "data"), "--exec-root", filepath.Join(e.dir, "exec"),
		"--cgroup-parent", "/"+filepath.Base(e.dir), "--bridge", "none", "--iptables=false", "--userland-proxy=false")
	e.daemon.Stdout, e.daemon.Stderr = e.log, e.log
	e.daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWNET}
	if err := e.daemon.Start(); err != nil {
		e.t.Fatal(err)
	}
	dead, daemon := make(chan struct{}), e.daemon
	e.dead = dead
	go func() {
		_ = daemon.Wait()
		close(dead)
	}()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_, err := e.api.Ping(ctx)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-dead:
			e.t.Fatalf("dockerd ended at once\n%s", e.said())
		default:
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("dockerd does not answer: %v\n%s", err, e.said())
		}
	}
}

// kill ends the daemon at once; its containers go on.
func (e *ownEngine) kill() {
	e.t.Helper()
	if err := e.daemon.Process.Kill(); err != nil {
		e.t.Error(err)
	}
	<-e.dead
}

func (e *ownEngine) said() string {
	b, _ := os.ReadFile(e.log.Name())
	return string(b[max(0, len(b)-4000):])
}

// remove ends the daemon with all that is its own.
func (e *ownEngine) remove() {
	if e.api != nil {
		_ = e.api.Close()
	}
	if e.daemon != nil && e.daemon.Process != nil {
		_ = e.daemon.Process.Signal(syscall.SIGTERM)
		select {
		case <-e.dead:
		case <-time.After(30 * time.Second):
			_ = e.daemon.Process.Kill()
			<-e.dead
		}
	}
	// Containerd and shims of daemons that were killed name the directory.
	for pid := range processesNaming(e.t, e.dir) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, e.dir+"/") {
			_ = syscall.Unmount(at, syscall.MNT_DETACH)
		}
	}
	if e.log != nil {
		_ = e.log.Close()
	}
	if err := os.RemoveAll(e.dir); err != nil {
		e.t.Errorf("the engine's directory: %v", err)
	}
}
