package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxHello bounds the first message of TLS, in bytes.
const maxHello = 64 << 10

const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// connect serves CONNECT. On port 443 a tunnel must carry TLS for the host it was
// opened to, on port 80 HTTP for that host; on another port, which the list
// names, anything, but TLS for no other host.
func (s *Session) connect(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	c := s.begin(http.MethodConnect)
	t, err := parseTarget(r.Host, 0)
	if err != nil {
		f := badRequest("CONNECT needs host:port: %v", err)
		answer(w, f)
		c.end(f)
		return
	}
	c.target = t
	f := s.judge(t, c)
	if f == nil && t.port == 80 {
		s.inner(w, t)
		return
	}
	var upstream net.Conn
	if f == nil {
		upstream, f = s.dial(ctx, t, c)
	}
	if f != nil {
		answer(w, f)
		c.end(f)
		return
	}
	defer upstream.Close()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		c.end(&failure{reason: reasonInterrupted, message: err.Error()})
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() {
		_ = conn.Close()
		_ = upstream.Close()
	})()
	_ = conn.SetDeadline(time.Time{})
	if _, err := io.WriteString(conn, established); err != nil {
		c.end(&failure{reason: reasonInterrupted, message: "the box has gone"})
		return
	}
	c.end(carry(conn, buffered.Reader, upstream, t))
}

// inner serves the HTTP requests that a tunnel to port 80 carries one by one,
// each judged for itself.
func (s *Session) inner(w http.ResponseWriter, t target) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	if _, err := io.WriteString(conn, established); err != nil {
		_ = conn.Close()
		return
	}
	s.server.Serve(&innerConn{Conn: conn, r: buffered.Reader, target: t})
}

// innerConn is a connection within a tunnel to target.
type innerConn struct {
	net.Conn
	r      *bufio.Reader
	target target
}

func (c *innerConn) Read(b []byte) (int, error) { return c.r.Read(b) }

// carry copies both ways until both have ended, nothing moves for idleTime, or
// the box asks for another server than t.
func carry(box net.Conn, fromBox *bufio.Reader, upstream net.Conn, t target) *failure {
	idle := time.AfterFunc(idleTime, func() {
		_ = box.Close()
		_ = upstream.Close()
	})
	defer idle.Stop()
	var down sync.WaitGroup
	down.Go(func() {
		_, _ = io.Copy(touching{box, idle}, upstream)
		_ = box.Close() // the server has answered to the end
	})
	first, f := introduction(box, fromBox, t)
	if f != nil {
		_ = upstream.Close()
		down.Wait()
		return f
	}
	_, err := io.Copy(touching{upstream, idle}, io.MultiReader(bytes.NewReader(first), fromBox))
	if half, ok := upstream.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
	} else {
		_ = upstream.Close()
	}
	down.Wait()
	return nil
}

// touching puts off the end of an idle connection with every write.
type touching struct {
	io.Writer
	idle *time.Timer
}

func (w touching) Write(b []byte) (int, error) {
	w.idle.Reset(idleTime)
	return w.Writer.Write(b)
}

// introduction reads what a box begins with and checks that it is meant for t.
// It gives back what it has read.
func introduction(box net.Conn, r *bufio.Reader, t target) ([]byte, *failure) {
	const handshake = 0x16 // of a TLS record
	first, err := r.Peek(1)
	if err != nil {
		return nil, nil // it said nothing
	}
	if first[0] != handshake {
		if t.port == 443 {
			return nil, &failure{reasonProtocol, "a tunnel to port 443 carried no TLS", ""}
		}
		return nil, nil
	}
	_ = box.SetReadDeadline(time.Now().Add(helloTime))
	name, seen, err := hello(r)
	_ = box.SetReadDeadline(time.Time{})
	if err != nil {
		return nil, &failure{reasonProtocol, "a tunnel to " + t.String() + " began with broken TLS", ""}
	}
	switch asked, _, err := parseHost(name); {
	case t.addr.IsValid() && name == "":
	case name == "":
		return nil, &failure{reasonServerName, "TLS in a tunnel to " + t.String() + " names no server", ""}
	case err != nil || asked != t.name:
		return nil, &failure{reasonServerName, "TLS in a tunnel to " + t.String() + " asks for " + quote(name), ""}
	}
	return seen, nil
}

var errSeen = errors.New("seen")

// hello reads TLS's first message, and gives the server's name in it and the
// bytes it was read from. With an encrypted name it is the public one outside.
func hello(r io.Reader) (name string, seen []byte, err error) {
	var read bytes.Buffer
	conn := readOnly{r: io.TeeReader(io.LimitReader(r, maxHello), &read)}
	err = tls.Server(conn, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name = h.ServerName
		return nil, errSeen
	}}).Handshake()
	if !errors.Is(err, errSeen) {
		return "", nil, err
	}
	return name, read.Bytes(), nil
}

// readOnly is a connection for hello: what TLS answers goes nowhere.
type readOnly struct {
	net.Conn
	r io.Reader
}

func (c readOnly) Read(b []byte) (int, error)     { return c.r.Read(b) }
func (readOnly) Write(b []byte) (int, error)      { return len(b), nil }
func (readOnly) Close() error                     { return nil }
func (readOnly) SetDeadline(time.Time) error      { return nil }
func (readOnly) SetReadDeadline(time.Time) error  { return nil }
func (readOnly) SetWriteDeadline(time.Time) error { return nil }
