package host

import (
	"context"
	"net"
	"sync"
)

// gateway hands connections made on this machine's loopback to the box's
// handler. Whoever may connect there must bring the step's token; the handler
// checks it.
type gateway struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

func serve(l net.Listener, handle func(net.Conn)) *gateway {
	g := &gateway{listener: l, conns: map[net.Conn]struct{}{}}
	g.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if !g.enter(conn) {
				return
			}
			g.wg.Go(func() {
				handle(conn)
				_ = conn.Close()
				g.mu.Lock()
				delete(g.conns, conn)
				g.mu.Unlock()
			})
		}
	})
	return g
}

func (g *gateway) enter(conn net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		_ = conn.Close()
		return false
	}
	g.conns[conn] = struct{}{}
	return true
}

// close cuts every connection and waits for the handlers, at most until ctx is
// done.
func (g *gateway) close(ctx context.Context) {
	_ = g.listener.Close()
	g.mu.Lock()
	g.closed = true
	for c := range g.conns {
		_ = c.Close()
	}
	g.mu.Unlock()
	over := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
}
