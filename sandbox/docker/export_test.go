package docker

import (
	"context"

	"github.com/herd-runner/herd-runner/sandbox"
)

// Prewarm makes n idle containers from spec's image, which a backend makes only
// when boxes have followed each other.
func (b *Backend) Prewarm(ctx context.Context, spec sandbox.Spec, n int) error {
	image, err := b.image(ctx, spec)
	if err != nil {
		return err
	}
	for range n {
		select {
		case b.starts <- struct{}{}:
		case <-ctx.Done():
			return fail(sandbox.KindStart, "start idle container", ctx.Err())
		}
		got, err := b.slots.make(ctx, b, image.id)
		<-b.starts
		if err != nil {
			return err
		}
		b.slots.give(b, got, true)
	}
	return nil
}
