package runtimes

import (
	"fmt"
	"strconv"

	"github.com/herd-runner/herd-runner/sandbox"
)

// TrustWorkspace adds to env what lets git work in a mount that another uid
// owns (it says "dubious ownership" otherwise), behind any git configuration
// that env or the box's own environment already carries. In a container all
// directories are trusted, on the bare host only the workspace.
func TrustWorkspace(env map[string]string, box sandbox.Info) {
	count, ok := env["GIT_CONFIG_COUNT"]
	if !ok {
		count = box.Env["GIT_CONFIG_COUNT"]
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 {
		n = 0
	}
	dir := "*"
	if box.Backend == "host" {
		dir = box.Workdir
	}
	env["GIT_CONFIG_COUNT"] = strconv.Itoa(n + 1)
	env[fmt.Sprintf("GIT_CONFIG_KEY_%d", n)] = "safe.directory"
	env[fmt.Sprintf("GIT_CONFIG_VALUE_%d", n)] = dir
}
