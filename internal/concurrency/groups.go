package concurrency

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Queue says how many may wait for a group.
type Queue string

// The queues of GitHub.
const (
	Single Queue = "single" // one: a newcomer takes the place of who waits; the default
	Max    Queue = "max"    // maxPending, first come, first served
)

// maxPending is how many may wait in a queue `max`; GitHub's number.
const maxPending = 100

const (
	// lookEvery is how often who waits, and who may be cancelled, looks whether
	// its own note or the file of the one before it has changed.
	lookEvery = 50 * time.Millisecond
	// surveyEvery is how often who waits looks at the whole group: the death of
	// a process changes no file.
	surveyEvery = 500 * time.Millisecond
	// lockTime bounds the wait for the lock of the state, held for moments only.
	lockTime  = 10 * time.Second
	lockRetry = 2 * time.Millisecond
)

// Member tells others who holds a group or waits for it.
type Member struct {
	Run string `json:"run"`           // its id
	Dir string `json:"dir"`           // of its project
	Job string `json:"job,omitempty"` // of the run; empty: the run itself
	PID int    `json:"pid"`
}

func (m Member) String() string {
	what := "run " + m.Run
	if m.Job != "" {
		what = "job " + m.Job + " of " + what
	}
	return fmt.Sprintf("%s in %s (pid %d)", what, m.Dir, m.PID)
}

// Request asks for a group.
type Request struct {
	// Scope is what the name belongs to, a repository: the same name in another
	// is another group.
	Scope string
	// Name of the group; case does not matter.
	Name string
	// CancelInProgress cancels who holds the group.
	CancelInProgress bool
	Queue            Queue // empty: Single
	Member           Member
}

// CancelledError says that the one who asked is cancelled instead of served.
type CancelledError struct {
	Group string
	Cause Cause
	By    Member // who caused it: the newcomer, or who holds the group
}

// Cause is why a member of a group is cancelled.
type Cause string

// The causes.
const (
	Replaced  Cause = "replaced"   // while waiting, by a newcomer
	TakenOver Cause = "taken over" // while running, by a newcomer with cancel-in-progress
	Full      Cause = "full"       // maxPending wait already
	Deadlock  Cause = "deadlock"   // the run's own group: it would wait for itself
)

func (e *CancelledError) Error() string {
	switch e.Cause {
	case TakenOver:
		return fmt.Sprintf("concurrency group %q was taken over by %s (cancel-in-progress)", e.Group, e.By)
	case Full:
		return fmt.Sprintf("concurrency group %q is held by %s and its queue is full: %d wait already", e.Group, e.By, maxPending)
	case Deadlock:
		return fmt.Sprintf("concurrency group %q is held by the run itself: waiting for it would never end", e.Group)
	}
	return fmt.Sprintf("%s took its place in the queue of concurrency group %q", e.By, e.Group)
}

// Groups are the groups in one state directory. It is safe for concurrent use,
// by processes as well.
type Groups struct {
	// Dir is a folder of the groups' own, made when it is needed. Its file
	// system must know flock, so not every network's will do.
	Dir string
}

// Held is a group held. Release it.
type Held struct {
	groups *Groups
	entry  *entry
	group  string
	lost   chan struct{}
	done   chan struct{} // closed by Release
	ended  chan struct{} // closed when the watch has ended
	by     *CancelledError
}

// Acquire waits until the member may run alone in the group. waiting, which may
// be nil, is told whom it waits for, first when it begins to wait and then when
// that changes. A *CancelledError says that the group's rules cancelled it; the
// error of ctx, that it was cancelled otherwise.
func (g *Groups) Acquire(ctx context.Context, r Request, waiting func(holder Member)) (*Held, error) {
	e, err := g.join(ctx, r)
	if err != nil {
		return nil, err
	}
	var told Member
	for {
		before, err := g.advance(ctx, e)
		if err == nil && before == nil {
			return g.hold(e, r.Name), nil
		}
		if err == nil {
			if before.member != told {
				told = before.member
				if waiting != nil {
					waiting(told)
				}
			}
			err = e.await(ctx, before)
		}
		if err != nil {
			return nil, errors.Join(err, g.leave(e))
		}
	}
}

// await waits for a change: of the member's note, of the one before it, or for
// surveyEvery.
func (e *entry) await(ctx context.Context, before *seat) error {
	end := pendingEnd
	if before.running {
		end = runningEnd
	}
	path := (&entry{dir: e.dir, number: before.number}).path(end)
	for waited := time.Duration(0); waited < surveyEvery; waited += lookEvery {
		if err := pause(ctx, lookEvery); err != nil {
			return err
		}
		if !exists(path) || exists(e.notePath()) {
			return nil
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (g *Groups) hold(e *entry, group string) *Held {
	h := &Held{groups: g, entry: e, group: group, lost: make(chan struct{}), done: make(chan struct{}), ended: make(chan struct{})}
	go h.watch()
	return h
}

// watch waits for a newcomer's note that asks the holder to end.
func (h *Held) watch() {
	defer close(h.ended)
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-h.done:
			return
		case <-ticker.C:
		}
		if by, ok := readNote(h.entry.notePath()); ok {
			h.by = &CancelledError{Group: h.group, Cause: TakenOver, By: by.By}
			close(h.lost)
			return
		}
	}
}

// Lost is closed when a newcomer asked the holder to end. The group is still
// held until Release.
func (h *Held) Lost() <-chan struct{} { return h.lost }

// Why says who took the group over, once Lost is closed; nil before.
func (h *Held) Why() *CancelledError {
	select {
	case <-h.lost:
		return h.by
	default:
		return nil
	}
}

// Release lets the next one in. It may be called once.
func (h *Held) Release() error {
	close(h.done)
	<-h.ended
	return h.groups.leave(h.entry)
}
