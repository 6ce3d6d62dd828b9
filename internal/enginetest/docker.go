package enginetest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Docker starts a Docker engine of the test's own, with further OCI runtimes by
// name, each with its command line. Only root can.
func Docker(t testing.TB, runtimes map[string][]string) *Engine {
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
	e := newEngine(t)
	if err := os.WriteFile(e.in("daemon.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	e.env = os.Environ()
	e.argv = []string{
		dockerd, "--config-file", e.in("daemon.json"), "--host", e.Address(), "--pidfile", e.in("pid"),
		"--data-root", e.in("data"), "--exec-root", e.in("exec"),
		"--cgroup-parent", "/" + filepath.Base(e.dir), "--userland-proxy=false",
	}
	e.Start()
	return e
}
