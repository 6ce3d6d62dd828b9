//go:build !(linux && carryagent)

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/herd-runner/herd-runner/runtimes/sdk/agent"
)

// agent is the verb `agent`, which the SDK runtime runs in boxes. It is linked
// where one go command has to make a herd-runner that is complete.
func (a *App) agent() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return agent.Main(ctx, a.Stdin, a.Stdout, a.Environ())
}
