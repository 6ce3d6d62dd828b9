package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// maxHold is how long a request is kept waiting for a rate limit or a
	// budget. CLIs give an answer ten minutes (claude) or five (those on Node)
	// to begin; a limit that lasts longer is passed on, for the step's retry.
	maxHold = 4 * time.Minute
	// maxBackoff bounds the wait where the API does not say how long.
	maxBackoff = 30 * time.Second
	// openWindow is when the slow start after a limit is over, in requests at
	// once.
	openWindow = 32
)

// limiter is what all sessions know of the rate limit of one credential. After
// a limit one request goes first; each one that the API takes lets one more go
// at once. Requests go in the order in which they came, also those that were
// limited and are sent again. Safe for concurrent use.
type limiter struct {
	clock func() time.Time
	board *board // what other runners say of the credential; nil: nobody
	name  string // of the credential there

	mu      sync.Mutex
	arrived int64
	until   time.Time // nothing goes before
	learned time.Time // the last notice taken over
	episode int       // limits so far; answers to requests sent before one say nothing new
	strikes int       // limits in a row
	window  int       // requests at once; 0: any number
	sent    int       // waiting for the API's word
	queue   []*ticket // by arrival
	timer   *time.Timer
}

// ticket is a request's place.
type ticket struct {
	arrival int64
	episode int           // when it went
	ready   chan struct{} // closed when it may go
}

// limitedError says that a request cannot go in time.
type limitedError struct {
	until time.Time
	said  string // by the API, to this request; may be empty
}

func (e *limitedError) Error() string {
	text := fmt.Sprintf("the model API limits requests of this credential until %s, longer than this request can wait", e.until.UTC().Format(time.RFC3339))
	if e.said != "" {
		text += " (" + e.said + ")"
	}
	return text
}

func (l *limiter) ticket() *ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrived++
	return &ticket{arrival: l.arrived}
}

// wait returns when the request may go, or says why not: the limit ends after
// the deadline, or others are before it for so long. waiting is told until when
// it waits at least; it is not called where there is no wait.
func (l *limiter) wait(ctx context.Context, t *ticket, deadline time.Time, waiting func(until time.Time)) error {
	l.mu.Lock()
	l.learn()
	until := l.until
	if until.After(deadline) {
		l.mu.Unlock()
		return &limitedError{until: until}
	}
	t.ready = make(chan struct{})
	at, _ := slices.BinarySearchFunc(l.queue, t.arrival, func(q *ticket, arrival int64) int { return int(q.arrival - arrival) })
	l.queue = slices.Insert(l.queue, at, t)
	l.grant()
	l.mu.Unlock()
	select {
	case <-t.ready:
		return nil
	default:
	}
	waiting(until)
	timeout := time.NewTimer(deadline.Sub(l.clock()))
	defer timeout.Stop()
	var err error
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timeout.C:
		err = &limitedError{until: l.reopens()}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.queue, t); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
		return err
	}
	l.sent-- // it was let go in the same moment
	l.grant()
	return err
}

// reopens is when a request may go again, as far as is known.
func (l *limiter) reopens() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.clock(); l.until.Before(now) {
		return now.Add(l.backoff())
	}
	return l.until
}

func (l *limiter) backoff() time.Duration {
	return min(time.Second<<min(max(l.strikes-1, 0), 10), maxBackoff)
}

// learn takes over what other runners have heard. A limit too long to be waited
// out may have been lifted since, by a person: one request goes and asks. The
// caller holds mu.
func (l *limiter) learn() {
	if l.board == nil {
		return
	}
	until, now := l.board.until(l.name), l.clock()
	if until.Equal(l.learned) || !until.After(now) || !until.After(l.until) {
		return
	}
	l.learned = until
	if l.window == 0 {
		l.window = 1
	}
	if until.Sub(now) <= maxHold {
		l.until = until
	}
}

// grant lets the first in the queue go, as many as may. The caller holds mu.
func (l *limiter) grant() {
	if len(l.queue) > 0 {
		l.learn()
	}
	for len(l.queue) > 0 && (l.window == 0 || l.sent < l.window) {
		if wait := l.until.Sub(l.clock()); wait > 0 {
			l.wake(wait)
			return
		}
		t := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		t.episode = l.episode
		l.sent++
		close(t.ready)
	}
}

func (l *limiter) wake(after time.Duration) {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = time.AfterFunc(after, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.grant()
	})
}

// verdict is what the API said to a request.
type verdict int

const (
	unheard verdict = iota // nothing about its limits
	taken
	limited
)

// heard takes the API's word on a request that went; retryAt is zero where it
// does not say. It gives when the limit ends.
func (l *limiter) heard(t *ticket, v verdict, retryAt time.Time) time.Time {
	until := l.hear(t, v, retryAt)
	if v == limited && l.board != nil {
		l.board.post(l.name, until)
	}
	return until
}

func (l *limiter) hear(t *ticket, v verdict, retryAt time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent--
	current := t.episode == l.episode
	switch {
	case v == limited:
		if current {
			l.episode++
			l.strikes++
			l.window = 1
		}
		if retryAt.IsZero() && current {
			retryAt = l.clock().Add(l.backoff())
		}
		if retryAt.After(l.until) {
			l.until = retryAt
		}
	case v == taken && current:
		l.strikes = 0
		if l.window > 0 {
			l.window++
		}
		if l.window > openWindow {
			l.window = 0
		}
	}
	l.grant()
	return l.until
}

// limiters are those of a gateway, by credential.
type limiters struct {
	board *board // nil: none
	mu    sync.Mutex
	all   map[[sha256.Size]byte]*limiter
}

// of gives the limiter of the credential at a host.
func (s *limiters) of(host, credential string, clock func() time.Time) *limiter {
	key := sha256.Sum256([]byte(host + "\x00" + credential))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[[sha256.Size]byte]*limiter{}
	}
	l := s.all[key]
	if l == nil {
		l = &limiter{clock: clock, board: s.board}
		if s.board != nil {
			l.name = s.board.name(host, credential)
		}
		s.all[key] = l
	}
	return l
}

// isLimited says whether an answer means "slow down".
func isLimited(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusTooManyRequests, 529:
		return true
	case http.StatusServiceUnavailable:
		return resp.Header.Get("Retry-After") != ""
	}
	return false
}
