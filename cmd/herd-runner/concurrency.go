package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/herd-runner/herd-runner/internal/concurrency"
	"github.com/herd-runner/herd-runner/internal/github"
	"github.com/herd-runner/herd-runner/steps"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// acquireGroup gives the concurrency groups of this user on this machine to the
// run with that id. A group belongs to a repository, as at GitHub; where that
// has no name, to the checkout or directory.
func (a *App) acquireGroup(p *prepared, runID string, contexts func(string, bool) (expr.Value, bool)) func(context.Context, steps.GroupRequest) (steps.Group, error) {
	return func(ctx context.Context, req steps.GroupRequest) (steps.Group, error) {
		state, err := a.stateDir()
		if err != nil {
			return steps.Group{}, err
		}
		groups := &concurrency.Groups{Dir: filepath.Join(state, "concurrency")}
		held, err := groups.Acquire(ctx, concurrency.Request{
			Scope:            p.groupScope(contexts),
			Name:             req.Group,
			CancelInProgress: req.CancelInProgress,
			Queue:            concurrency.Queue(req.Queue),
			Member:           concurrency.Member{Run: runID, Dir: p.dir, Job: req.Job, PID: os.Getpid()},
		}, func(holder concurrency.Member) {
			req.Waiting(fmt.Sprintf("waiting for concurrency group %q, held by %s", req.Group, holder))
		})
		var cancelled *concurrency.CancelledError
		if errors.As(err, &cancelled) {
			return steps.Group{}, &steps.GroupRefused{Message: cancelled.Error()}
		}
		if err != nil {
			return steps.Group{}, err
		}
		return steps.Group{Lost: held.Lost(), Why: func() string { return held.Why().Error() }, Release: held.Release}, nil
	}
}

// groupScope is what the names of concurrency groups belong to.
func (p *prepared) groupScope(contexts func(string, bool) (expr.Value, bool)) string {
	v, _ := contexts("github", true)
	if context, ok := v.(*expr.Object); ok {
		server, _ := context.Get("server_url")
		if repo, _ := context.Get("repository"); expr.String(repo) != "" {
			return expr.String(server) + "/" + expr.String(repo)
		}
	}
	if checkout, err := github.ReadCheckout(p.dir); err == nil && checkout.Root != "" {
		return checkout.Root
	}
	return p.dir
}
