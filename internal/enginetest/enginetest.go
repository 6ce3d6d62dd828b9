// Package enginetest starts container engines that belong to a test, beside the
// machine's own and without touching it.
package enginetest

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// upTime bounds an engine's start and its end.
const upTime = time.Minute

// Engine is a container engine of one test, which ends with the test. Not for
// concurrent use.
type Engine struct {
	t         testing.TB
	dir       string // all that it has; its name is short, since sockets are in it
	argv, env []string
	daemon    *exec.Cmd
	ended     chan struct{} // closed when daemon has ended
}

// newEngine makes the directory of an engine that is not started yet.
func newEngine(t testing.TB) *Engine {
	t.Helper()
	dir, err := os.MkdirTemp("", "herd-engine-")
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{t: t, dir: dir}
	t.Cleanup(e.remove)
	return e
}

// Address is where it answers, as for DOCKER_HOST.
func (e *Engine) Address() string { return "unix://" + e.in("sock") }

// in is the path of what it has under a name.
func (e *Engine) in(name ...string) string {
	return filepath.Join(append([]string{e.dir}, name...)...)
}

// Start runs the engine, again after Kill, and waits until it listens: in a
// network namespace of its own where that is possible, for the rules and bridges
// of two engines get mixed up.
func (e *Engine) Start() {
	e.t.Helper()
	// A dead process that nobody has reaped counts as a daemon at work.
	for _, stale := range []string{e.in("sock"), e.in("pid"), e.in("exec", "containerd", "containerd.pid")} {
		_ = os.Remove(stale)
	}
	cmd := exec.Command(e.argv[0], e.argv[1:]...)
	if os.Geteuid() == 0 {
		cmd = exec.Command("unshare", append([]string{"--net", "sh", "-c", `ip link set lo up && exec "$0" "$@"`}, e.argv...)...)
	}
	log, err := os.OpenFile(e.in("log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		e.t.Fatal(err)
	}
	defer log.Close()
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = e.dir, e.env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	ended := make(chan struct{})
	e.daemon, e.ended = cmd, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(upTime); ; {
		if c, err := net.Dial("unix", e.in("sock")); err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ended:
			e.t.Fatalf("%s ended at once: %s", e.argv[0], tail(e.dir))
		case <-deadline:
			e.t.Fatalf("%s does not listen after %s: %s", e.argv[0], upTime, tail(e.dir))
		}
	}
}

// Kill ends the daemon at once; its containers go on.
func (e *Engine) Kill() {
	e.t.Helper()
	if err := e.daemon.Process.Kill(); err != nil {
		e.t.Error(err)
	}
	<-e.ended
}

// remove ends the engine with all that is its own.
func (e *Engine) remove() {
	if e.daemon != nil {
		_ = e.daemon.Process.Signal(syscall.SIGTERM)
		select {
		case <-e.ended:
		case <-time.After(upTime):
			e.t.Errorf("the test's engine did not end in %s", upTime)
		}
		_ = syscall.Kill(-e.daemon.Process.Pid, syscall.SIGKILL)
	}
	// Podman's own clean-up of a container outlives its service, and mounts again;
	// so do containerd and shims of a daemon that was killed.
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(upTime); ; <-tick.C {
		killNaming(e.dir)
		unmountBelow(e.dir)
		err := os.RemoveAll(e.dir)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			e.t.Errorf("what the test's engine had: %v", err)
			return
		}
	}
}

// killNaming kills the processes that name dir in their command line.
func killNaming(dir string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file)
		if pid, perr := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && perr == nil && bytes.Contains(line, []byte(dir)) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func tail(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, "log"))
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-10):], []byte("\n")))
}

// unmountBelow removes what an engine has left mounted, the innermost first.
func unmountBelow(dir string) {
	text, _ := os.ReadFile("/proc/self/mounts")
	var targets []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			targets = append(targets, f[1])
		}
	}
	slices.Reverse(targets)
	for _, target := range targets {
		_ = syscall.Unmount(target, 2) // MNT_DETACH, which not every system has
	}
}
