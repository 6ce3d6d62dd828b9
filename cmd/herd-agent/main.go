// Command herd-agent is the agent loop of the SDK runtime alone, which herd-guest
// carries (scripts/build.sh).
package main

import (
	"os"

	"github.com/herd-runner/herd-runner/runtimes/sdk/agent"
)

func main() { os.Exit(agent.Main(os.Stdin, os.Stdout, os.Environ())) }
