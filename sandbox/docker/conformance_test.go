package docker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/sandboxtest"
)

// THREATS 11, 12, 16, 18, 19, 20.
func TestConformance(t *testing.T) {
	b := open(t)
	var skip map[string]string
	if os.Getenv(runtimeEnv) != "" {
		skip = gvisorSkips()
	}
	sandboxtest.Run(t, sandboxtest.Subject{
		Backend: b,
		Spec:    func(t *testing.T) sandbox.Spec { return testSpec(t) },
		HostPath: func(spec sandbox.Spec, path string) string {
			return filepath.Join(spec.Mounts[0].Source, strings.TrimPrefix(path, "/work"))
		},
		Skip:       skip,
		GatewayGet: func(addr string) []string { return []string{"wget", "-q", "-O", "-", "http://" + addr + "/"} },
	})
}
