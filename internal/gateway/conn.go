package gateway

import (
	"io"
	"log"
	"net"
	"net/http"
	"sync"
)

// handedListener gives connections that come out of a tunnel to an HTTP server.
type handedListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newHandedListener() *handedListener {
	return &handedListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// hand passes c to the server; false when it accepts no more.
func (l *handedListener) hand(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.done:
		return false
	}
}

func (l *handedListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *handedListener) Close() error {
	l.shut()
	return nil
}

func (l *handedListener) shut() { l.once.Do(func() { close(l.done) }) }

// Addr is asked for by the server, nobody else.
func (l *handedListener) Addr() net.Addr { return &net.UnixAddr{Name: "gateway", Net: "unix"} }

// handedConn tells when the server is done with it.
type handedConn struct {
	net.Conn
	once sync.Once
	done chan struct{}
}

func (c *handedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.done) })
	return err
}

// discardLog is for the server's own words about broken connections: the box
// can cause any number of them, and each exchange reports itself.
func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}
