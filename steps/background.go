package steps

import (
	"strings"
	"sync"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/workflow"
)

// maxBackground is how many background scripts of a leg run at once, GitHub's
// bound; further ones wait for a place.
const maxBackground = 10

// backgroundRun is a background step between its start and the wait for it.
// The methods of a nil one, of a step in the foreground, do nothing.
type backgroundRun struct {
	stopping chan struct{} // closed by a `cancel:` step
	done     chan struct{} // closed when the step has ended
	once     sync.Once

	mu      sync.Mutex
	kept    *effects // until a wait applies them
	applied bool
}

// newBackground gives a job's background steps by lower-case id.
func newBackground(job *workflow.Job) map[string]*backgroundRun {
	m := map[string]*backgroundRun{}
	for _, s := range job.Steps {
		if s.Background {
			m[strings.ToLower(s.ID)] = &backgroundRun{stopping: make(chan struct{}), done: make(chan struct{})}
		}
	}
	return m
}

func (b *backgroundRun) stop() { b.once.Do(func() { close(b.stopping) }) }

func (b *backgroundRun) end() { close(b.done) }

// stopped is closed when a `cancel:` step ended this one.
func (b *backgroundRun) stopped() <-chan struct{} {
	if b == nil {
		return nil
	}
	return b.stopping
}

func (b *backgroundRun) wasStopped() bool {
	select {
	case <-b.stopped():
		return true
	default:
		return false
	}
}

func (b *backgroundRun) keep(e effects) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = &e
}

// join applies the effects of an ended background step, once, and gives them.
func (l *legState) join(b *backgroundRun) *effects {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept != nil && !b.applied {
		b.applied = true
		l.apply(*b.kept)
	}
	return b.kept
}

// joinAll joins every background step, in the order of the file.
func (l *legState) joinAll() {
	for _, s := range l.leg.Job.Steps {
		if b := l.background[strings.ToLower(s.ID)]; b != nil {
			l.join(b)
		}
	}
}

// takeSlot waits for a place among the leg's background scripts; false: the
// step was cancelled before it began.
func (s *stepRun) takeSlot() bool {
	if s.step.HasAgent() {
		return true // agents have a bound of their own
	}
	select {
	case <-s.bg.stopped():
		return false
	default:
	}
	select {
	case s.leg.slots <- struct{}{}:
		s.release = func() { <-s.leg.slots }
		return true
	case <-s.bg.stopped():
	case <-s.cancelled:
	case <-s.jobs[s.node.Job.ID].stop:
	case <-s.leg.expired:
	}
	s.sc.status = s.status(s.leg)
	return false
}

// control executes a wait, wait-all or cancel step. What is waited for has
// ended when it starts: the DAG sees to that.
func (s *stepRun) control() attemptEnd {
	if s.step.Cancel != nil {
		b := s.leg.background[strings.ToLower(s.step.Cancel.Value)]
		b.stop()
		<-b.done
		s.leg.join(b)
		return attemptEnd{}
	}
	var failed []string
	end := attemptEnd{}
	for _, b := range s.awaited() {
		e := s.leg.join(b)
		if e == nil {
			continue
		}
		if e.failed {
			failed = append(failed, e.step.ID+": "+e.message)
		}
		s.effects.infrastructure = s.effects.infrastructure || e.infrastructure
	}
	if len(failed) > 0 {
		end.cause, end.message = event.CauseExitCode, "background step failed: "+strings.Join(failed, "; ")
		end.exit = sandbox.Exit{Code: 1}
	}
	return end
}

// awaited are the background steps that a wait is for.
func (s *stepRun) awaited() []*backgroundRun {
	var list []*backgroundRun
	if s.step.WaitAll {
		for _, other := range s.node.Job.Steps[:s.step.Index] {
			if other.Background {
				list = append(list, s.leg.background[strings.ToLower(other.ID)])
			}
		}
		return list
	}
	for _, n := range s.step.Wait {
		list = append(list, s.leg.background[strings.ToLower(n.Value)])
	}
	return list
}

// controlName is what the person calls a control step without a name.
func controlName(s *workflow.Step) string {
	switch {
	case s.Cancel != nil:
		return "cancel " + s.Cancel.Value
	case s.WaitAll:
		return "wait for all"
	}
	names := make([]string, len(s.Wait))
	for i, n := range s.Wait {
		names[i] = n.Value
	}
	return "wait for " + strings.Join(names, ", ")
}
