package main

import (
	"context"
	"errors"
	"io"

	"github.com/herd-runner/herd-runner/internal/workspace"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/steps"
)

// workspaces is the project as the executor asks for it.
type workspaces struct{ *workspace.Workspace }

func (w workspaces) Clone(ctx context.Context, mode, name string, merge []steps.Work) (steps.Clone, error) {
	o := workspace.CloneOptions{Mode: mode, Name: name}
	for _, work := range merge {
		o.Merge = append(o.Merge, workspace.Work(work))
	}
	c, err := w.Workspace.Clone(ctx, o)
	if err != nil {
		return nil, refused(err)
	}
	return clone{c}, nil
}

// clone is a workspace apart from the project.
type clone struct{ *workspace.Clone }

func (c clone) Box(onHost bool, leg, step string) (sandbox.Layout, error) {
	l, err := c.Clone.Box(onHost, leg, step)
	return l, refused(err)
}

func (c clone) Since(ctx context.Context, mark string) (steps.Work, error) {
	work, err := c.Clone.Since(ctx, mark)
	return steps.Work(work), err
}

func (c clone) Finish(ctx context.Context, inside func(ctx context.Context, argv []string, stdout io.Writer) error) (steps.Work, error) {
	work, err := c.Clone.Finish(ctx, inside)
	return steps.Work(work), err
}

// refused makes what the workflow asks in vain the failure of its step.
func refused(err error) error {
	var conflict *workspace.Conflict
	if errors.As(err, &conflict) {
		return &steps.CloneRefused{Message: conflict.Message, Hint: conflict.Hint}
	}
	return err
}
