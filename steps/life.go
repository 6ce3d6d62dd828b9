package steps

import (
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"sync/atomic"
	"time"
)

// life watches for signs of life of an agent: output, gateway traffic, and
// files that it writes (FR-012).
type life struct {
	now  func() time.Time
	last atomic.Int64 // UnixNano
}

func newLife(now func() time.Time) *life {
	l := &life{now: now}
	l.sign()
	return l
}

func (l *life) sign() { l.last.Store(l.now().UnixNano()) }

// watch calls stalled once when there was no sign of life for so long, until
// the returned function is called. written gives the time of the last file
// written and is asked only when all else is still. Zero never stalls.
func (l *life) watch(limit time.Duration, written func() time.Time, stalled func()) (stop func()) {
	if limit <= 0 {
		return func() {}
	}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(max(limit/20, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				last := l.last.Load()
				if l.now().Sub(time.Unix(0, last)) < limit {
					continue
				}
				// What an agent says of the future is not believed.
				if t := min(written().UnixNano(), l.now().UnixNano()); t > last {
					l.last.CompareAndSwap(last, t)
					continue
				}
				stalled()
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// maxFiles bounds the files that newest looks at.
const maxFiles = 20_000

// newest is when a file below dir was last written; the zero time where nothing
// is there. Links are not followed.
func newest(dir string) (at time.Time) {
	if dir == "" {
		return at
	}
	left := maxFiles
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if left--; left < 0 {
			return fs.SkipAll
		}
		if err != nil {
			return nil //nolint:nilerr // what is gone again does not count
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() && info.ModTime().After(at) {
			at = info.ModTime()
		}
		return nil
	})
	return at
}

func (l *life) writer(w io.Writer) io.Writer { return lively{w, l} }

type lively struct {
	io.Writer
	life *life
}

func (l lively) Write(p []byte) (int, error) {
	l.life.sign()
	return l.Writer.Write(p)
}

// livelySession counts gateway bytes as signs of life.
type livelySession struct {
	ModelSession
	life *life
}

func (l *livelySession) Serve(conn net.Conn) { l.ModelSession.Serve(livelyConn{conn, l.life}) }

type livelyConn struct {
	net.Conn
	life *life
}

func (c livelyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.life.sign()
	return n, err
}

func (c livelyConn) Write(p []byte) (int, error) {
	c.life.sign()
	return c.Conn.Write(p)
}
