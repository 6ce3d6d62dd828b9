package report

import (
	"io"
	"sync"
	"time"
)

const (
	lag     = 50 * time.Millisecond
	outSize = 32 << 10 // bytes
)

// out gathers what a sink writes and passes it on at the latest after lag, so
// that a step which prints line by line does not cost a write for each. Its
// holder locks mu around every use of buf. After a failed write it discards.
type out struct {
	mu    sync.Mutex
	buf   []byte
	w     io.Writer
	timer *time.Timer
	armed bool
	err   error
}

func newOut(w io.Writer) *out {
	o := &out{w: w}
	o.timer = time.AfterFunc(lag, o.tick)
	o.timer.Stop()
	return o
}

// commit is called with mu held after something was added to buf.
func (o *out) commit() {
	if len(o.buf) >= outSize {
		o.flush()
		return
	}
	if !o.armed && len(o.buf) > 0 {
		o.armed = true
		o.timer.Reset(lag)
	}
}

func (o *out) flush() {
	if len(o.buf) > 0 && o.err == nil {
		_, o.err = o.w.Write(o.buf)
	}
	o.buf = o.buf[:0]
	if cap(o.buf) > 1<<20 {
		o.buf = nil
	}
}

func (o *out) tick() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.armed = false
	o.flush()
}

func (o *out) close() error {
	o.timer.Stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	return o.err
}
