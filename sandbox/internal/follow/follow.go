// Package follow reads files while somebody else writes them: what an agent
// tells its own session file. It works where the file is, in the box or on the
// host, because file events do not cross virtual machines or remote engines.
//
// Events only say when to look. What is new is found by looking, and a look is
// taken every now and then without an event too: where events do not come, as
// in gVisor or when the machine has no watches left, more often.
package follow

import (
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/herd-runner/herd-runner/sandbox"
)

const (
	// debounce is how long events are gathered before a look. With perLook it
	// also bounds what is read in a second.
	debounce = 50 * time.Millisecond
	// perLook bounds the bytes read in one look, lastLook in all looks together
	// that are taken when the writer has ended.
	perLook  = 1 << 20
	lastLook = 64 << 20
	// slowPoll is how often a look is taken without an event, fastPoll where
	// events do not come.
	slowPoll = 2 * time.Second
	fastPoll = 250 * time.Millisecond
)

// Follower reads files from New to Stop.
type Follower struct {
	look   *look
	events *fsnotify.Watcher // nil: there are none
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
}

// New takes note of what there is and begins to follow. give gets what is
// written from now on, from one goroutine, until Stop has returned.
func New(files []sandbox.Follow, give func(sandbox.Followed)) *Follower {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		events = nil // the machine has no more: polling does
	}
	return start(files, give, events)
}

func start(files []sandbox.Follow, give func(sandbox.Followed), events *fsnotify.Watcher) *Follower {
	f := &Follower{events: events, stop: make(chan struct{}), done: make(chan struct{})}
	f.look = newLook(files, give, f.watch)
	f.look.begin()
	go f.run()
	return f
}

// Stop takes a last look and ends: what was written before it has been given.
// Idempotent.
func (f *Follower) Stop() {
	f.once.Do(func() { close(f.stop) })
	<-f.done
}

func (f *Follower) run() {
	defer close(f.done)
	defer f.look.close()
	var told chan fsnotify.Event
	var failed chan error
	poll := fastPoll
	if f.events != nil {
		defer f.events.Close()
		told, failed, poll = f.events.Events, f.events.Errors, slowPoll
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	soon := time.NewTimer(0) // what was there at the start and is wanted
	defer soon.Stop()
	waiting := true
	wait := func() {
		if !waiting {
			waiting = true
			soon.Reset(debounce)
		}
	}
	for {
		select {
		case <-f.stop:
			for left := lastLook; left > 0; left -= perLook {
				if _, more := f.look.take(perLook); !more {
					return
				}
			}
			return
		case e, ok := <-told:
			if !ok {
				told = nil
				continue
			}
			f.look.unwatch(e)
			wait()
		case _, ok := <-failed: // events were lost
			if !ok {
				failed = nil
				continue
			}
			wait()
		case <-soon.C:
			waiting = false
			if _, more := f.look.take(perLook); more {
				wait()
			}
		case <-tick.C:
			if waiting {
				continue
			}
			found, more := f.look.take(perLook)
			if more {
				wait()
			}
			if found && poll != fastPoll {
				poll = fastPoll // no event has told
				tick.Reset(poll)
			}
		}
	}
}

// watch asks for the events of a directory; false: there will be none.
func (f *Follower) watch(dir string) bool { return f.events != nil && f.events.Add(dir) == nil }
