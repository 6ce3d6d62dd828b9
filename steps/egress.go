package steps

import (
	"context"
	"net"
	"slices"
	"sync"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/sandbox"
)

// EgressSession is the way out of one box with an allow-list.
type EgressSession interface {
	// Serve answers one connection from the box and returns when it ends.
	Serve(conn net.Conn)
	// Close ends every connection and returns when all requests are told.
	Close()
}

// guarded is a box with a way out of its own.
type guarded struct {
	sandbox.Box
	way EgressSession
}

func (b guarded) Close(ctx context.Context) error {
	b.way.Close()
	return b.Box.Close(ctx)
}

// occupants are the steps that use a box now. Safe for concurrent use.
type occupants struct {
	mu    sync.Mutex
	steps []*stepRun
}

func (o *occupants) enter(s *stepRun) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steps = append(o.steps, s)
}

// leave says whether nobody is left.
func (o *occupants) leave(s *stepRun) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.steps, s); i >= 0 {
		o.steps = slices.Delete(o.steps, i, i+1)
	}
	return len(o.steps) == 0
}

func (o *occupants) empty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.steps) == 0
}

// asking gives the place of a request that is made now: the step that uses the
// box, or only the job where several do.
func (o *occupants) asking(job string) event.Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.steps) != 1 {
		return event.Event{Type: event.Egress, Job: job}
	}
	s := o.steps[0]
	return event.Event{Type: event.Egress, Job: job, Step: s.id(), Attempt: s.attempt}
}

// openWay opens the way out of a box of a leg for users.
func (r *run) openWay(leg string, allow []string, users *occupants) (EgressSession, error) {
	return r.OpenEgress(allow, func() func(event.EgressCall) {
		e := users.asking(leg)
		return func(c event.EgressCall) {
			e.Egress = &c
			r.emit(e)
		}
	})
}
