package docker

import (
	"context"
	"errors"
	"sync"

	"github.com/herd-runner/herd-runner/sandbox"
)

// A slot is an idle container whose network namespace, with loopback alone,
// is joined by one box at a time: joining takes half the time of making one.
type slot struct {
	container string
	streams   *attached
}

func (s *slot) id() string {
	if s == nil {
		return ""
	}
	return s.container
}

// manyBoxes is how many boxes to come make slots pay from the first box on.
const manyBoxes = 4 * maxStarts

// slots are the idle containers of one backend. A slot pays from its second
// box on: unless many are to come the first boxes get a network of their own,
// and slots are made once boxes follow each other.
type slots struct {
	mu     sync.Mutex
	free   []*slot
	all    map[*slot]struct{}
	ended  int // boxes without a slot that have ended
	closed bool
}

// take returns a free slot, makes one where that pays, or returns nil: then
// the box gets its own namespace.
func (s *slots) take(ctx context.Context, b *Backend, image string) (*slot, error) {
	s.mu.Lock()
	if n := len(s.free); n > 0 {
		got := s.free[n-1]
		s.free = s.free[:n-1]
		s.mu.Unlock()
		return got, nil
	}
	worth := (s.ended > 0 || b.opts.Boxes >= manyBoxes) && !s.closed
	s.mu.Unlock()
	if !worth {
		return nil, nil
	}
	return s.make(ctx, b, image)
}

func (s *slots) make(ctx context.Context, b *Backend, image string) (*slot, error) {
	at := b.place("")
	at.image = image
	req := planIdle(at)
	var streams *attached
	id, err := b.create(ctx, req)
	if err == nil {
		streams, err = b.attachAndStart(ctx, id)
	}
	if err == nil {
		err = b.verify(ctx, id, req)
	}
	if err != nil {
		if streams != nil {
			_ = streams.Close()
		}
		if id != "" {
			err = errors.Join(err, b.remove(ctx, id))
		}
		return nil, fail(sandbox.KindStart, "start idle container", err)
	}
	got := &slot{container: id, streams: streams}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*slot]struct{}{}
	}
	s.all[got] = struct{}{}
	return got, nil
}

// give takes a slot back.
func (s *slots) give(b *Backend, got *slot, clean bool) {
	s.mu.Lock()
	if clean && !s.closed {
		s.free = append(s.free, got)
		s.mu.Unlock()
		return
	}
	delete(s.all, got)
	s.mu.Unlock()
	_ = got.streams.Close()
	_ = b.remove(context.Background(), got.container)
}

func (s *slots) noteEnded() {
	s.mu.Lock()
	s.ended++
	s.mu.Unlock()
}

func (s *slots) close(ctx context.Context, b *Backend) error {
	s.mu.Lock()
	s.closed = true
	all := s.all
	s.all, s.free = nil, nil
	s.mu.Unlock()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for got := range all {
		wg.Go(func() {
			_ = got.streams.Close()
			err := b.remove(ctx, got.container)
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
