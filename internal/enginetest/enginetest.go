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
	"strings"
	"syscall"
	"testing"
	"time"
)

// upTime bounds an engine's start and its end.
const upTime = time.Minute

// workDir is a directory with a short name: sockets are in it.
func workDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "herd-engine-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Podman's own clean-up of a container outlives its service, and mounts again.
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(upTime); ; <-tick.C {
			unmountBelow(dir)
			err := os.RemoveAll(dir)
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("what the test's engine had: %v", err)
				return
			}
		}
	})
	return dir
}

// serve runs an engine until the test is over, in a network namespace of its own
// where that is possible: the rules and bridges of two engines get mixed up.
func serve(t testing.TB, dir, socket string, argv, env []string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	if os.Geteuid() == 0 {
		cmd = exec.Command("unshare", append([]string{"--net", "sh", "-c", `ip link set lo up && exec "$0" "$@"`}, argv...)...)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(upTime):
			t.Errorf("the test's engine did not end in %s", upTime)
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(upTime); ; {
		if c, err := net.Dial("unix", socket); err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ended:
			t.Fatalf("%s ended at once: %s", argv[0], tail(dir))
		case <-deadline:
			t.Fatalf("%s does not listen after %s: %s", argv[0], upTime, tail(dir))
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
