package steps

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// lineReader cuts a stream into lines without their ends. A line longer than
// max is given once, cut, and the rest of it is dropped.
type lineReader struct {
	max     int
	line    func([]byte)
	buf     []byte
	dropped bool
}

func (r *lineReader) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		if len(r.buf) == 0 && i >= 0 && !r.dropped && len(part) <= r.max {
			r.line(trimCR(part))
			p = p[i+1:]
			continue
		}
		if room := r.max - len(r.buf); len(part) > room {
			part = part[:max(0, room)]
			r.dropped = true
		}
		r.buf = append(r.buf, part...)
		if i < 0 {
			break
		}
		r.flush()
		p = p[i+1:]
	}
	return n, nil
}

// flush gives the last line, which had no end.
func (r *lineReader) flush() {
	if len(r.buf) > 0 {
		r.line(trimCR(r.buf))
	}
	r.buf, r.dropped = r.buf[:0], false
}

func trimCR(p []byte) []byte { return bytes.TrimSuffix(p, []byte("\r")) }

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
