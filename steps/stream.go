package steps

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// tail passes a stream on and remembers its end.
type tail struct {
	limit int
	next  func([]byte)
	buf   []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.next(p)
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*t.limit {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.limit:]...)
	}
	return len(p), nil
}

func (t *tail) bytes() []byte {
	if len(t.buf) > t.limit {
		return t.buf[len(t.buf)-t.limit:]
	}
	return t.buf
}

func bytesReader(b []byte) io.Reader {
	if b == nil {
		return nil
	}
	return bytes.NewReader(b)
}

// quietEnd bounds how long a process may live after its final record; a record
// after that one starts the wait anew.
type quietEnd struct {
	mu     sync.Mutex
	after  time.Duration
	expire func()
	timer  *time.Timer
}

func newQuietEnd(after time.Duration, expire func()) *quietEnd {
	return &quietEnd{after: after, expire: expire}
}

func (q *quietEnd) saw(final bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
	if final && q.after > 0 {
		q.timer = time.AfterFunc(q.after, q.expire)
	}
}

func (q *quietEnd) stop() { q.saw(false) }
