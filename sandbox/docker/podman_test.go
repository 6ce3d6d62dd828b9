package docker_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/internal/enginetest"
	"github.com/herd-runner/herd-runner/sandbox"
)

// otherEngines are the tests that call all the others with an engine that is not
// the machine's.
const otherEngines = "^(TestPodman|TestGVisor)$"

// TestPodman runs the tests of this package, the conformance suite among them,
// with podman (FUTURE-06).
func TestPodman(t *testing.T) {
	if testing.Short() {
		t.Skip("needs podman")
	}
	with(t, enginetest.Podman(t).Address(), "-test.skip="+otherEngines)
}

// with runs tests of this package with another engine.
func with(t *testing.T, address string, which ...string) {
	t.Helper()
	passed, told, err := runWith(t, address, which...)
	judge(t, address, passed, told, err)
}

func judge(t *testing.T, address string, passed int, told string, err error) {
	t.Helper()
	if err != nil || passed == 0 {
		t.Errorf("with the engine at %s: %v", address, err)
	}
	t.Logf("%d tests passed with the engine at %s\n%s", passed, address, told)
}

// runWith tells how many passed, and what was skipped or, after a failure, all
// that was said.
func runWith(t *testing.T, address string, which ...string) (passed int, told string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append(which, "-test.v", "-test.timeout=8m")...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+address)
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		passed += strings.Count(line, "--- PASS")
		if strings.Contains(line, "--- SKIP") || strings.Contains(line, "sandboxtest.go") || err != nil {
			told += line
		}
	}
	return passed, told, err
}

// Podman takes no OCI runtime from a request: a box that asks for a stronger one
// than it has is refused, and not started with less.
func TestPodmanHasOneOCIRuntime(t *testing.T) {
	b := open(t)
	if b.Engine() != "podman" {
		t.Skip("it is about podman")
	}
	for runtime, good := range map[string]bool{"runc": true, "runsc": false} {
		spec := testSpec(t)
		spec.OCIRuntime = runtime
		x, startErr := b.Start(t.Context(), spec)
		if startErr == nil {
			_ = x.Close(t.Context())
		}
		for _, err := range []error{startErr, b.Preflight(t.Context(), []sandbox.Spec{spec})} {
			var serr *sandbox.Error
			if good && err != nil || !good && (!errors.As(err, &serr) || serr.Kind != sandbox.KindConfig || !strings.Contains(serr.Advice, "containers.conf")) {
				t.Errorf("%s: got %v", runtime, err)
			}
		}
	}
}
