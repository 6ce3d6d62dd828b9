// Command herd-agent is the agent loop of the SDK runtime alone: what the verb
// `herd-runner agent` runs where herd-runner carries it (scripts/build.sh).
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/herd-runner/herd-runner/runtimes/sdk/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(agent.Main(ctx, os.Stdin, os.Stdout, os.Environ()))
}
