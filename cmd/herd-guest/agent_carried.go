//go:build carryagent

package main

import (
	_ "embed"
	"fmt"
	"os"
	"strings"

	"github.com/herd-runner/herd-runner/internal/memexec"
)

// carriedAgent is cmd/herd-agent, laid there by scripts/build.sh. The vendors' SDKs
// are most of it; linked, process 1 of every box would pay for setting them up.
//
//go:embed embedded/herd-agent
var carriedAgent string

// agent is the verb `agent`, which the SDK runtime runs in boxes: this process
// becomes the carried program.
func agent() int {
	err := memexec.Exec("herd-agent", strings.NewReader(carriedAgent), os.Args, os.Environ())
	fmt.Fprintf(os.Stderr, "herd-guest agent: the agent it carries could not be started: %v\n", err)
	return 1
}
