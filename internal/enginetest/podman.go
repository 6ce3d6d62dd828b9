package enginetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Podman starts podman's service, with images, containers and networks of its
// own.
func Podman(t testing.TB) *Engine {
	t.Helper()
	podman, err := exec.LookPath("podman")
	if err != nil {
		t.Fatalf("%v; on Debian or Ubuntu: apt-get install podman netavark aardvark-dns runc", err)
	}
	e := newEngine(t)
	for name, text := range map[string]string{"containers.conf": containersConf(e.dir), "policy.json": `{"default": [{"type": "insecureAcceptAnything"}]}`} {
		if err := os.WriteFile(e.in(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e.env = append(os.Environ(), "CONTAINERS_CONF="+e.in("containers.conf"))
	e.argv = []string{
		podman, "--root", e.in("root"), "--runroot", e.in("run"), "--tmpdir", e.in("tmp"),
		"system", "service", "--time=0", e.Address(),
	}
	e.Start()
	return e
}

// containersConf keeps what podman writes below dir, and lets it work without
// systemd, on mixed control groups and where limits can not be raised.
func containersConf(dir string) string {
	var files, processes syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)
	const rlimitNproc = 6 // not among syscall's
	_ = syscall.Getrlimit(rlimitNproc, &processes)
	return strings.Join([]string{
		"[containers]",
		fmt.Sprintf("default_ulimits = [\"nofile=%d:%[1]d\", \"nproc=%d:%[2]d\"]", files.Max, min(processes.Max, 4096)),
		"[engine]",
		`cgroup_manager = "cgroupfs"`,
		`events_logger = "file"`,
		`runtime = "runc"`,
		"[network]",
		`network_backend = "netavark"`,
		fmt.Sprintf("network_config_dir = %q", filepath.Join(dir, "networks")),
		"",
	}, "\n")
}
