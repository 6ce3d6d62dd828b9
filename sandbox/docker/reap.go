package docker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/herd-runner/herd-runner/sandbox"
)

// defaultKeep is how many stopped boxes of a step are kept where the spec does
// not say.
const defaultKeep = 5

// ours lists the containers of this machine's runners, running or not.
func (b *Backend) ours(ctx context.Context, more ...string) ([]container.Summary, error) {
	f := filters.NewArgs(filters.Arg("label", labelOurs+"=1"), filters.Arg("label", labelHost+"="+b.lease.host))
	for _, label := range more {
		f.Add("label", label)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := b.api.ContainerList(ctx, container.ListOptions{All: true, Filters: f})
	if err != nil {
		return nil, fail(sandbox.KindEngine, "list containers", err)
	}
	return list, nil
}

// reap removes what dead runners of this machine left. Another live runner's
// containers, and those of other machines, are left alone.
func (b *Backend) reap(ctx context.Context) error {
	list, err := b.ours(ctx)
	if err != nil {
		return err
	}
	dead := map[string]bool{}
	var orphans []container.Summary
	for _, c := range list {
		lease := c.Labels[labelLease]
		if _, known := dead[lease]; !known {
			dead[lease] = b.lease.dead(lease)
		}
		if dead[lease] {
			orphans = append(orphans, c)
		}
	}
	if err := b.removeEach(ctx, orphans); err != nil {
		return err
	}
	b.lease.sweep()
	return nil
}

// removeAll removes what is left under a lease, except what is kept.
func (b *Backend) removeAll(ctx context.Context, lease string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	list, err := b.ours(ctx, labelLease+"="+lease)
	if err != nil {
		return err
	}
	return b.removeEach(ctx, list)
}

func (b *Backend) removeEach(ctx context.Context, list []container.Summary) error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxStarts)
	for i, c := range list {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if c.Labels[labelKeep] == "1" {
				errs[i] = b.stop(ctx, c.ID)
			} else {
				errs[i] = b.remove(ctx, c.ID)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// stop kills a container that is kept for inspection.
func (b *Backend) stop(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	now := 0
	if err := b.api.ContainerStop(ctx, id, container.StopOptions{Signal: "SIGKILL", Timeout: &now}); err != nil && !isGone(err) {
		return fail(sandbox.KindEngine, "stop container", err)
	}
	return nil
}

// keep stops x and removes older ones of the same job and step beyond the
// number that is kept.
func (b *Backend) keep(ctx context.Context, x *box) error {
	if err := b.stop(ctx, x.id); err != nil {
		return err
	}
	most := x.spec.MaxContainers
	if most <= 0 {
		most = defaultKeep
	}
	kept, err := b.ours(ctx, labelKeep+"=1", labelJob+"="+x.spec.Job, labelStep+"="+x.spec.Step)
	if err != nil {
		return err
	}
	kept = slices.DeleteFunc(kept, func(c container.Summary) bool { return c.State == "running" || c.State == "created" })
	slices.SortFunc(kept, func(a, b container.Summary) int { return cmp.Compare(b.Created, a.Created) })
	var errs []error
	for _, c := range kept[min(most, len(kept)):] {
		errs = append(errs, b.remove(ctx, c.ID))
	}
	return errors.Join(errs...)
}
