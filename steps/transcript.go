package steps

import (
	"sync"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/session"
	"github.com/herd-runner/herd-runner/sandbox"
)

// outputPatience is how long what an agent's session files say waits for its
// output to say it too.
const outputPatience = 10 * time.Second

// transcript tells what an agent says: from its output, and from its session
// files where the output does not. Safe for concurrent use.
type transcript struct {
	tell func(event.Message)

	mu    sync.Mutex
	merge *session.Merge // nil: there is only the output
	timer *time.Timer
	now   func() time.Time
	over  bool
}

// newTranscript also gives the files to follow; none where the runtime knows of
// none.
func newTranscript(rt runtimes.Runtime, task runtimes.Task, now func() time.Time, tell func(event.Message)) (*transcript, []sandbox.Follow) {
	t := &transcript{tell: tell, now: now}
	reader, ok := rt.(runtimes.SessionReader)
	if !ok {
		return t, nil
	}
	files := reader.SessionFiles(task)
	if len(files) > 0 {
		t.merge = session.NewMerge(reader.DecodeSession(task), now)
	}
	return t, files
}

func (t *transcript) output(messages []event.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.merge != nil {
		messages = t.merge.Output(messages)
	}
	t.all(messages)
}

func (t *transcript) followed(f sandbox.Followed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.merge.Followed(f)
	if t.timer == nil {
		t.overdue()
	}
}

// overdue tells what has waited long enough, and comes again when more will have.
func (t *transcript) overdue() {
	messages, next := t.merge.Overdue(outputPatience)
	t.all(messages)
	t.timer = nil
	if !next.IsZero() {
		t.timer = time.AfterFunc(next.Sub(t.now()), func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if !t.over {
				t.overdue()
			}
		})
	}
}

// end tells the rest, when the process has ended.
func (t *transcript) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.timer != nil {
		t.timer.Stop()
	}
	if t.merge != nil {
		t.all(t.merge.Rest())
	}
}

func (t *transcript) all(messages []event.Message) {
	for _, m := range messages {
		t.tell(m)
	}
}
