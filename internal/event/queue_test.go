package event

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// kept is a sink that notes what it is given.
type kept struct {
	mu  sync.Mutex
	got []string
}

func (k *kept) Emit(e Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.got = append(k.got, e.Job+e.Step+string(e.Data))
}

func (k *kept) seen() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.got)
}

// Each goroutine's events come in its order, none is lost or told twice, and
// output is through when Emit returns: its bytes are used again.
func TestQueueKeepsTheOrder(t *testing.T) {
	to := &kept{}
	q := NewQueue(to)
	var wg sync.WaitGroup
	const steps, events = 8, 500
	for s := range steps {
		wg.Go(func() {
			buf := make([]byte, 8)
			for i := range events {
				step := fmt.Sprintf("%d.%d", s, i)
				if i%5 > 0 {
					q.Emit(Event{Type: StepStarted, Step: step})
					continue
				}
				copy(buf, "!data   ")
				q.Emit(Event{Type: Output, Step: step, Data: buf})
				if seen := to.seen(); !slices.Contains(seen, step+"!data   ") {
					t.Errorf("output of %s is not through", step)
				}
				copy(buf, "another ")
			}
		})
	}
	wg.Wait()
	q.Close()
	next := map[string]int{}
	for _, e := range to.seen() {
		var s string
		var i int
		if _, err := fmt.Sscanf(e, "%1s.%d", &s, &i); err != nil || next[s] != i {
			t.Fatalf("%q came where %d of %s was due (%v)", e, next[s], s, err)
		}
		next[s]++
	}
	if len(to.seen()) != steps*events {
		t.Errorf("%d events of %d", len(to.seen()), steps*events)
	}
}

// slowly is a sink that notes how many events wait behind each that it is given.
type slowly struct {
	queue *Queue
	given int
	most  int
}

func (s *slowly) Emit(Event) {
	s.given++
	for range 50 {
		runtime.Gosched()
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.most = max(s.most, len(s.queue.waiting))
}

// A sink that is slower than those who tell holds them up: the queue has an end.
func TestQueueIsBounded(t *testing.T) {
	to := &slowly{}
	q := NewQueue(to)
	to.queue = q
	var wg sync.WaitGroup
	const tellers, events = 4, 1000
	for range tellers {
		wg.Go(func() {
			for range events {
				q.Emit(Event{Type: JobStarted})
			}
		})
	}
	wg.Wait()
	q.Close()
	q.Close()
	q.Emit(Event{Type: JobFinished})
	if want := tellers*events + 1; to.given != want {
		t.Errorf("%d events are through, want %d: also those after Close", to.given, want)
	}
	if to.most > maxQueued+tellers {
		t.Errorf("%d events waited, want at most %d", to.most, maxQueued+tellers)
	}
}
