package docker_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/internal/enginetest"
)

// runscEnv is the command line of another runsc than the one that Debian has,
// with its platform: "/opt/runsc --platform=systrap".
const runscEnv = "HERD_TEST_RUNSC"

// TestGVisor runs the conformance suite in boxes with a kernel of their own
// (FUTURE-05): Docker with runsc, which is Linux again in user space.
func TestGVisor(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a Docker engine and runsc")
	}
	if os.Geteuid() != 0 {
		t.Skip("an engine of its own can be started by root alone")
	}
	argv := strings.Fields(os.Getenv(runscEnv))
	if len(argv) == 0 {
		runsc, err := exec.LookPath("runsc")
		if err != nil {
			t.Skipf("%v; on Debian: apt-get install runsc", err)
		}
		// The one platform that it has and that needs nothing of the processor. Its
		// own network stack takes a new kernel's namespaces for the machine's.
		argv = []string{runsc, "--platform=ptrace", "--network=host"}
	}
	t.Setenv(runtimeEnv, "runsc")
	address := enginetest.Docker(t, map[string][]string{"runsc": argv}).Address()
	for first := true; ; first = false {
		passed, told, err := runWith(t, address, "-test.run=^TestConformance$")
		if first && err != nil && strings.Contains(told, kernelDied) {
			t.Logf("gVisor's kernel died in a box; once more\n%s", told)
			continue
		}
		judge(t, address, passed, told, err)
		return
	}
}

// kernelDied is how a box ends whose kernel did, as Debian's runsc of 2022 does now
// and then under load. Process 1 would say why it ends.
const kernelDied = `the container exited with 2 (stderr "")`

// gvisorSkips are the tests of the suite that boxes of gVisor can not pass.
func gvisorSkips() map[string]string {
	skips := map[string]string{
		"one endless line stays bounded":                               "1 GiB takes more than a minute",
		"a background process holding stdout does not hold the end up": "processes of such a box are not this machine's: the test does not see that one lives",
		"a process that uses too much memory":                          "the whole box is ended, and the error says that it was for memory",
		"a tool that uses too much memory":                             "the whole box is ended, and the error says that it was for memory",
		"a fork bomb stays in its box":                                 "the limit counts threads of its kernel, and reaching it ends the box",
	}
	if os.Getenv(runscEnv) == "" {
		skips["the gateway is reached from the box"] = "Debian's runsc of 2022, with the machine's network stack, fails to read from loopback"
		skips["a stop ends a fork bomb"] = "the limit counts threads of its kernel, and reaching it ends the box"
	}
	return skips
}
