//go:build !linux

package guest

import (
	"context"
	"errors"
	"time"

	"github.com/herd-runner/herd-runner/sandbox/internal/proc"
)

func harden() error { return errors.New("a guest runs on Linux only") }

func preferForOOM() func(start func()) { return nil }

func reapOn(*proc.Table) func() { return func() {} }

func killAll(g *proc.Group) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = g.Close(ctx)
}
