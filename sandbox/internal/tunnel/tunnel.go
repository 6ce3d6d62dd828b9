// Package tunnel is the runner's end of the stream to the guest in a box.
// Everything read from it is untrusted: it is bounded, and what breaks the
// rules ends that box.
package tunnel

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/internal/wire"
)

// maxConns bounds the connections of one box to one service at the same time;
// more are cut.
const maxConns = 256

// Services are what the box reaches through the tunnel. One that is nil is not
// there.
type Services struct {
	// Gateway and Egress serve one connection each call and own it.
	Gateway, Egress func(net.Conn)
}

// Client speaks to one guest. It is safe for concurrent use.
type Client struct {
	session *yamux.Session
	hello   wire.Hello
	ids     atomic.Uint64

	controlMu sync.Mutex
	control   *yamux.Stream

	mu     sync.Mutex
	broken error // the first broken rule
	wg     sync.WaitGroup
}

// Dial greets the guest at the other end of conn, which it owns from then on,
// also when it fails. ctx bounds the greeting.
func Dial(ctx context.Context, conn io.ReadWriteCloser, services Services) (*Client, error) {
	session, err := yamux.Client(conn, wire.Config())
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	c := &Client{session: session}
	stop := context.AfterFunc(ctx, func() { _ = session.Close() })
	err = c.greet(services)
	if !stop() { // the session is closed, or will be in a moment
		err = fmt.Errorf("the guest did not answer: %w", context.Cause(ctx))
	}
	if err != nil {
		_ = session.Close()
		return nil, err
	}
	c.wg.Go(func() { wire.Heartbeat(session) })
	c.wg.Go(func() { c.accept(services) })
	return c, nil
}

func (c *Client) greet(services Services) error {
	control, err := c.session.OpenStream()
	if err != nil {
		return err
	}
	c.control = control
	if _, err := control.Write([]byte{wire.StreamControl}); err != nil {
		return err
	}
	if err := wire.WriteJSON(control, wire.FrameHello, wire.Hello{Version: wire.Version, Gateway: services.Gateway != nil, Egress: services.Egress != nil}); err != nil {
		return err
	}
	if err := wire.NewReader(control).ReadJSON(wire.FrameHello, wire.MaxMessage, &c.hello); err != nil {
		return fmt.Errorf("read the guest's hello: %w", err)
	}
	switch h := c.hello; {
	case h.Problem != "":
		return fmt.Errorf("the guest can not work: %.500q", h.Problem)
	case h.Version != wire.Version:
		return fmt.Errorf("the guest speaks version %d, the runner %d", h.Version, wire.Version)
	case services.Gateway != nil && !loopback(h.GatewayAddr):
		return fmt.Errorf("the guest names %.100q as the gateway's address", h.GatewayAddr)
	case services.Egress != nil && !loopback(h.EgressAddr):
		return fmt.Errorf("the guest names %.100q as the egress proxy's address", h.EgressAddr)
	}
	return nil
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && host == "127.0.0.1"
}

// Gateway is host:port in the box.
func (c *Client) Gateway() string { return c.hello.GatewayAddr }

// Egress is host:port in the box.
func (c *Client) Egress() string { return c.hello.EgressAddr }

// Platform is what the guest was built for.
func (c *Client) Platform() (os, arch string) { return c.hello.OS, c.hello.Arch }

// Confinement is what the guest found to hold for itself when it greeted.
func (c *Client) Confinement() wire.Confinement { return c.hello.Confinement }

// Done is closed when the tunnel has ended.
func (c *Client) Done() <-chan struct{} { return c.session.CloseChan() }

// Close ends the tunnel; the guest then kills everything and exits. It waits
// for the gateway's handlers, at most until ctx is done.
func (c *Client) Close(ctx context.Context) {
	_ = c.session.Close()
	over := make(chan struct{})
	go func() {
		c.wg.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// Broken is the first rule the guest broke, nil if none.
func (c *Client) Broken() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// breakOff ends the box because of err.
func (c *Client) breakOff(err error) error {
	err = fmt.Errorf("the box broke the protocol: %w", err)
	c.mu.Lock()
	if c.broken == nil {
		c.broken = err
	}
	c.mu.Unlock()
	_ = c.session.Close()
	return err
}

// service is one of Services at work.
type service struct {
	serve func(net.Conn)
	slots chan struct{}
}

// accept serves the guest's streams, all of which are for a service.
func (c *Client) accept(services Services) {
	by := map[byte]service{}
	for kind, serve := range map[byte]func(net.Conn){wire.StreamGateway: services.Gateway, wire.StreamEgress: services.Egress} {
		if serve != nil {
			by[kind] = service{serve, make(chan struct{}, maxConns)}
		}
	}
	greetings := make(chan struct{}, maxConns)
	for {
		stream, err := c.session.AcceptStream()
		if err != nil {
			return
		}
		select {
		case greetings <- struct{}{}:
		default:
			_ = stream.Close()
			continue
		}
		c.wg.Go(func() {
			defer stream.Close()
			kind, err := kindOf(stream)
			<-greetings
			if err != nil {
				return
			}
			s, ok := by[kind]
			if !ok {
				_ = c.breakOff(fmt.Errorf("a stream of kind %q", kind))
				return
			}
			select {
			case s.slots <- struct{}{}:
				defer func() { <-s.slots }()
			default:
				return
			}
			s.serve(stream)
		})
	}
}

func kindOf(stream *yamux.Stream) (byte, error) {
	var kind [1]byte
	_ = stream.SetReadDeadline(time.Now().Add(30 * time.Second))
	_, err := io.ReadFull(stream, kind[:])
	_ = stream.SetReadDeadline(time.Time{})
	return kind[0], err
}

// signal sends Stop or Kill. The tunnel's end is noticed elsewhere.
func (c *Client) signal(kind byte, id uint64) {
	c.controlMu.Lock()
	defer c.controlMu.Unlock()
	_ = wire.Write(c.control, kind, wire.ID(id))
}

func fail(kind sandbox.Kind, op string, err error) *sandbox.Error {
	return &sandbox.Error{Kind: kind, Op: op, Err: err}
}
