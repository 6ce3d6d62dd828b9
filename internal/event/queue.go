package event

import "sync"

// maxQueued bounds the events that wait in a Queue.
const maxQueued = 256

// Queue is a Sink that gives events to another one in their order. How jobs and
// steps go on is told by a goroutine of its own, a moment later: the next step need
// not wait until the end of the one before it is recorded and shown, which takes
// longer than to begin. Who emits such an event must not change it any more. What
// stands between others, such as output, is passed on before Emit returns, and so is
// everything before it.
type Queue struct {
	to   Sink
	wake chan struct{}
	done chan struct{}

	mu      sync.Mutex // guards what follows
	waiting []Event
	closed  bool

	passing sync.Mutex // held by who gives events to the sink
	spare   []Event
}

// NewQueue starts a queue; Close ends it.
func NewQueue(to Sink) *Queue {
	q := &Queue{to: to, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(q.done)
		for range q.wake {
			q.pass()
		}
	}()
	return q
}

// Emit takes e in, in the order of calls.
func (q *Queue) Emit(e Event) {
	q.mu.Lock()
	q.waiting = append(q.waiting, e)
	n, now := len(q.waiting), q.closed || !isCourse(e.Type)
	if n == 1 && !now {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	q.mu.Unlock()
	if now || n >= maxQueued {
		q.pass()
	}
}

func isCourse(t Type) bool {
	switch t {
	case Condition, JobStarted, JobFinished, StepStarted, StepFinished:
		return true
	}
	return false
}

// pass gives to the sink what waits.
func (q *Queue) pass() {
	q.passing.Lock()
	defer q.passing.Unlock()
	for {
		q.mu.Lock()
		list := q.waiting
		q.waiting = q.spare
		q.mu.Unlock()
		for _, e := range list {
			q.to.Emit(e)
		}
		clear(list) // nothing is kept alive
		q.spare = list[:0]
		if len(list) == 0 {
			return
		}
	}
}

// Close returns when all has been given to the sink. What is emitted later is
// passed on at once.
func (q *Queue) Close() {
	q.mu.Lock()
	first := !q.closed
	q.closed = true
	if first {
		close(q.wake)
	}
	q.mu.Unlock()
	<-q.done
	q.pass()
}
