// Package handoff gives connections that come out of a box's tunnel to an HTTP
// server: the model gateway's, and the egress proxy's.
package handoff

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of what a box may hold open.
const (
	maxConnections = 128
	maxHeaderBytes = 64 << 10
	headerTimeout  = 30 * time.Second
)

// Server is an HTTP/1.1 server whose connections are handed to it. It is safe
// for concurrent use.
type Server struct {
	http  *http.Server
	conns chan net.Conn
	slots chan struct{}
	done  chan struct{}
	once  sync.Once
}

// New starts a server that answers with handler. A connection may wait for its
// next request for idle. The caller closes it.
func New(handler http.Handler, idle time.Duration) *Server {
	s := &Server{conns: make(chan net.Conn), slots: make(chan struct{}, maxConnections), done: make(chan struct{})}
	// A tool in the box must not be able to ask for HTTP/2.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	s.http = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idle,
		MaxHeaderBytes:    maxHeaderBytes,
		// The box can cause any number of broken connections, and each request
		// reports itself.
		ErrorLog:    log.New(io.Discard, "", 0),
		Protocols:   protocols,
		ConnContext: connContext,
	}
	go func() { _ = s.http.Serve(listener{s}) }() // ends with Close
	return s
}

// Serve answers the requests of one connection and returns when it has ended.
// It closes conn, at once where too many are open.
func (s *Server) Serve(conn net.Conn) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		_ = conn.Close()
		return
	}
	c := &handed{Conn: conn, done: make(chan struct{})}
	defer c.Close()
	select {
	case s.conns <- c:
	case <-s.done:
		return
	}
	select {
	case <-c.done:
	case <-s.done:
	}
}

// Close cuts every connection, also those that a handler has taken over. It does
// not wait for the handlers.
func (s *Server) Close() {
	s.once.Do(func() { close(s.done) })
	_ = s.http.Close()
}

// handed tells when the server is done with it.
type handed struct {
	net.Conn
	once sync.Once
	done chan struct{}
}

// Close also ends reads: a stream of a tunnel is otherwise closed for writing
// only.
func (c *handed) Close() error {
	var err error
	c.once.Do(func() {
		_ = c.SetReadDeadline(time.Unix(1, 0))
		err = c.Conn.Close()
		close(c.done)
	})
	return err
}

// listener is how net/http gets at the connections.
type listener struct{ *Server }

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr is asked for by the server, nobody else.
func (l listener) Addr() net.Addr { return &net.UnixAddr{Name: "handoff", Net: "unix"} }

type connKey struct{}

func connContext(ctx context.Context, c net.Conn) context.Context {
	h, ok := c.(*handed)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, connKey{}, h.Conn)
}

// Conn gives the connection, as it was handed over, that a request came by.
func Conn(ctx context.Context) net.Conn {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	return c
}
