package steps

import (
	"io"
	"net"
	"sync/atomic"
	"time"
)

// life watches for signs of life of an agent: output and gateway traffic.
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
// the returned function is called. Zero never stalls.
func (l *life) watch(limit time.Duration, stalled func()) (stop func()) {
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
				if l.now().Sub(time.Unix(0, l.last.Load())) >= limit {
					stalled()
					return
				}
			}
		}
	}()
	return func() { close(done); <-ended }
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
