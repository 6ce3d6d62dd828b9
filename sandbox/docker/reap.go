package docker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/herd-runner/herd-runner/sandbox"
)

// defaultKeep is how many stopped boxes of a step are kept where the spec does
// not say.
const defaultKeep = 5

// oursFilter is all containers of this machine's runners that have the labels.
func (b *Backend) oursFilter(labels ...string) filters.Args {
	f := filters.NewArgs(filters.Arg("label", labelOurs+"=1"), filters.Arg("label", labelHost+"="+b.lease.host))
	for _, l := range labels {
		f.Add("label", l)
	}
	return f
}

// ours lists the containers of this machine's runners, running or not.
func (b *Backend) ours(ctx context.Context, labels ...string) ([]container.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := b.api.ContainerList(ctx, container.ListOptions{All: true, Filters: b.oursFilter(labels...)})
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
		if dead[lease] && !sessionInUse(c.Labels[labelSession]) { // a box started again has the lease of its first run
			orphans = append(orphans, c)
		}
	}
	if err := b.removeEach(ctx, orphans); err != nil {
		return err
	}
	if err := b.sweepNetworks(ctx); err != nil {
		return err
	}
	left, err := b.leftCopies(ctx)
	if err != nil {
		return err
	}
	for _, name := range left {
		if err := b.removeCopies(ctx, name); err != nil {
			return err
		}
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
			if c.Labels[labelKeep] != "" && c.State != container.StateCreated {
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
	err := b.patiently(ctx, func() error {
		return b.api.ContainerStop(ctx, id, container.StopOptions{Signal: "SIGKILL", Timeout: &now})
	})
	if err != nil && !isGone(err) {
		return fail(sandbox.KindEngine, "stop container", err)
	}
	return nil
}

// stopped gives the box that was kept for req; others with its session, which
// were asked for otherwise, are removed.
func (b *Backend) stopped(ctx context.Context, req request) (id string, err error) {
	list, err := b.ours(ctx, labelSession+"="+req.Config.Labels[labelSession])
	if err != nil {
		return "", err
	}
	for _, c := range list {
		if id == "" && c.Labels[labelSpec] == req.Config.Labels[labelSpec] && ended(c) {
			id = c.ID
			continue
		}
		if err := b.remove(ctx, c.ID); err != nil {
			return "", err
		}
	}
	return id, nil
}

// keep stops x and removes older ones of the same step beyond the number that
// is kept, each with its session.
func (b *Backend) keep(ctx context.Context, x *box) error {
	if err := b.stop(ctx, x.id); err != nil {
		return err
	}
	if x.spec.Reuse {
		return nil
	}
	most := x.spec.MaxContainers
	if most <= 0 {
		most = defaultKeep
	}
	kept, err := b.ours(ctx, labelKeep+"="+keptToSee, labelProject+"="+x.spec.Project, labelWorkflow+"="+x.spec.Workflow,
		labelJob+"="+x.spec.Job, labelStep+"="+x.spec.Step)
	if err != nil {
		return err
	}
	kept = slices.DeleteFunc(kept, func(c container.Summary) bool { return !ended(c) })
	if err := b.newestFirst(ctx, kept); err != nil {
		return err
	}
	most = min(most, len(kept))
	var errs []error
	for _, c := range kept[most:] {
		errs = append(errs, b.remove(ctx, c.ID))
		dir := c.Labels[labelSession]
		if !slices.ContainsFunc(kept[:most], func(k container.Summary) bool { return k.Labels[labelSession] == dir }) {
			errs = append(errs, removeSession(dir))
		}
	}
	return errors.Join(errs...)
}

// ended tells of a container that ran and does not any more. Podman has a state
// of its own for the moment after.
func ended(c container.Summary) bool {
	return c.State == container.StateExited || c.State == "stopped"
}

// newestFirst sorts by when containers were made, which a list tells in seconds
// only.
func (b *Backend) newestFirst(ctx context.Context, list []container.Summary) error {
	made := map[string]time.Time{}
	for _, c := range list {
		got, err := b.api.ContainerInspect(ctx, c.ID)
		if isGone(err) {
			continue // another runner has removed it
		}
		if err != nil {
			return fail(sandbox.KindEngine, "inspect container", err)
		}
		if made[c.ID], err = time.Parse(time.RFC3339Nano, got.Created); err != nil {
			return fail(sandbox.KindEngine, "inspect container", err)
		}
	}
	slices.SortStableFunc(list, func(x, y container.Summary) int { return made[y.ID].Compare(made[x.ID]) })
	return nil
}
