package enginetest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Docker starts a Docker engine of the test's own, with further OCI runtimes by
// name, each with its command line, and gives its address as for DOCKER_HOST.
// Only root can.
func Docker(t testing.TB, runtimes map[string][]string) (address string) {
	t.Helper()
	dockerd, err := exec.LookPath("dockerd")
	if err != nil {
		t.Fatalf("%v; on Debian or Ubuntu: apt-get install docker.io", err)
	}
	type oci struct {
		Path string   `json:"path"`
		Args []string `json:"runtimeArgs"`
	}
	config := struct {
		Runtimes map[string]oci `json:"runtimes"`
	}{map[string]oci{}}
	for name, argv := range runtimes {
		config.Runtimes[name] = oci{argv[0], argv[1:]}
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	dir := workDir(t)
	file, socket := filepath.Join(dir, "daemon.json"), filepath.Join(dir, "docker.sock")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	serve(t, dir, socket, []string{
		dockerd, "--config-file", file, "--host", "unix://" + socket, "--pidfile", filepath.Join(dir, "pid"),
		"--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"),
		"--cgroup-parent", "/" + filepath.Base(dir), "--userland-proxy=false",
	}, os.Environ())
	return "unix://" + socket
}
