package tunnel_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/internal/tunnel"
	"github.com/herd-runner/herd-runner/sandbox/internal/wire"
)

// hostile is a guest that greets and then does what the test wants on the
// stream of each process.
func hostile(t *testing.T, hello wire.Hello, gateway func(net.Conn), process func(s *yamux.Session, w io.Writer)) (*tunnel.Client, error) {
	t.Helper()
	a, b := net.Pipe()
	s, err := yamux.Server(b, wire.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	go func() {
		control, err := s.AcceptStream()
		if err != nil {
			return
		}
		_, _ = io.ReadFull(control, make([]byte, 1))
		_ = wire.NewReader(control).ReadJSON(wire.FrameHello, wire.MaxMessage, &wire.Hello{})
		_ = wire.WriteJSON(control, wire.FrameHello, hello)
		for {
			stream, err := s.AcceptStream()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.ReadFull(stream, make([]byte, 1))
				_ = wire.NewReader(stream).ReadJSON(wire.FrameStart, wire.MaxStart, &wire.Start{})
				process(s, stream)
			}()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := tunnel.Dial(ctx, a, tunnel.Services{Gateway: gateway})
	if err == nil {
		t.Cleanup(func() { c.Close(context.Background()) })
	}
	return c, err
}

var fine = wire.Hello{Version: wire.Version, GatewayAddr: "127.0.0.1:1"}

// THREATS 18.
func TestHostileFramesFailTheBoxAlone(t *testing.T) {
	big := func(kind byte, n uint32) []byte {
		b := make([]byte, 5)
		b[0] = kind
		binary.BigEndian.PutUint32(b[1:], n)
		return b
	}
	collected := func(index uint32, data string) []byte {
		b := binary.BigEndian.AppendUint32(nil, index)
		return append(append(b, 0), data...)
	}
	for name, attack := range map[string]func(*yamux.Session, io.Writer){
		"4 GiB of stdout in a frame": func(_ *yamux.Session, w io.Writer) { _, _ = w.Write(big(wire.FrameStdout, 1<<32-1)) },
		"huge exit":                  func(_ *yamux.Session, w io.Writer) { _, _ = w.Write(big(wire.FrameExit, 1<<30)) },
		"unknown frame":              func(_ *yamux.Session, w io.Writer) { _ = wire.Write(w, 200, []byte("x")) },
		"frame of the runner":        func(_ *yamux.Session, w io.Writer) { _ = wire.Write(w, wire.FrameStart, []byte("{}")) },
		"exit is no JSON":            func(_ *yamux.Session, w io.Writer) { _ = wire.Write(w, wire.FrameExit, []byte("{{{")) },
		"exit code 70000":            func(_ *yamux.Session, w io.Writer) { _ = wire.WriteJSON(w, wire.FrameExit, wire.Exit{Code: 70000}) },
		"too many full disks": func(_ *yamux.Session, w io.Writer) {
			_ = wire.WriteJSON(w, wire.FrameExit, wire.Exit{Full: make([]string, 1000)})
		},
		"negative memory": func(_ *yamux.Session, w io.Writer) { _ = wire.WriteJSON(w, wire.FrameExit, wire.Exit{PeakMemory: -1}) },
		"long signal": func(_ *yamux.Session, w io.Writer) {
			_ = wire.WriteJSON(w, wire.FrameExit, wire.Exit{Signal: strings.Repeat("K", 100)})
		},
		"failed is no JSON":     func(_ *yamux.Session, w io.Writer) { _ = wire.Write(w, wire.FrameFailed, []byte("\x00")) },
		"file never asked for":  func(_ *yamux.Session, w io.Writer) { _ = wire.Write(w, wire.FrameCollected, collected(7, "x")) },
		"file index 4294967295": func(_ *yamux.Session, w io.Writer) { _ = wire.Write(w, wire.FrameCollected, collected(1<<32-1, "x")) },
		"file part too short":   func(_ *yamux.Session, w io.Writer) { _ = wire.Write(w, wire.FrameCollected, []byte("abc")) },
		"file over its limit": func(_ *yamux.Session, w io.Writer) {
			for range 100 {
				if wire.Write(w, wire.FrameCollected, collected(0, strings.Repeat("x", 1000))) != nil {
					return
				}
			}
		},
		"gateway that is not there": func(s *yamux.Session, _ io.Writer) {
			if g, err := s.OpenStream(); err == nil {
				_, _ = g.Write([]byte{wire.StreamGateway})
			}
		},
		"end in mid-frame": func(s *yamux.Session, w io.Writer) {
			_, _ = w.Write(big(wire.FrameStdout, 100))
			_ = s.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := hostile(t, fine, nil, attack)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err = c.Exec(ctx, sandbox.Process{Argv: []string{"x"}, Stdout: io.Discard, Collect: []sandbox.Collect{{Path: "/f", Limit: 50_000}}}, "")
			var serr *sandbox.Error
			if !errors.As(err, &serr) || serr.Kind != sandbox.KindBox {
				t.Fatalf("got %v", err)
			}
			select {
			case <-c.Done():
			case <-time.After(5 * time.Second):
				t.Error("the box is still served")
			}
		})
	}
}

// THREATS 18.
func TestHostileHellosAreRefused(t *testing.T) {
	for name, h := range map[string]wire.Hello{
		"version":         {Version: 99, GatewayAddr: "127.0.0.1:1"},
		"gateway address": {Version: wire.Version, GatewayAddr: "169.254.169.254:80"},
		"no gateway":      {Version: wire.Version},
		"problem":         {Version: wire.Version, Problem: "\x1b[2J"},
	} {
		_, err := hostile(t, h, func(net.Conn) {}, nil)
		if err == nil || strings.ContainsRune(err.Error(), '\x1b') {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAGuestThatSaysNothingIsGivenUp(t *testing.T) {
	a, b := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, b) }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := tunnel.Dial(ctx, a, tunnel.Services{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestManyGatewayStreamsStayBounded(t *testing.T) {
	block := make(chan struct{})
	serving := make(chan struct{}, 10_000)
	flooded := make(chan int, 1)
	c, err := hostile(t, fine, func(net.Conn) {
		serving <- struct{}{}
		<-block
	}, func(s *yamux.Session, w io.Writer) {
		n := 0
		for ; n < 2000; n++ {
			g, err := s.OpenStream()
			if err != nil {
				break
			}
			_ = g.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			if _, err := g.Write([]byte{wire.StreamGateway}); err != nil {
				break
			}
		}
		flooded <- n
		_ = wire.WriteJSON(w, wire.FrameExit, wire.Exit{})
	})
	defer close(block)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), sandbox.Process{Argv: []string{"x"}}, ""); err != nil {
		t.Error(err)
	}
	<-flooded
	if n := len(serving); n > 256 {
		t.Errorf("%d connections are served at once", n)
	}
	if n := runtime.NumGoroutine(); n > 3000 {
		t.Errorf("%d goroutines", n)
	}
}

func TestErrorsFromABoxAreSafeToPrint(t *testing.T) {
	c, err := hostile(t, fine, nil, func(_ *yamux.Session, w io.Writer) {
		_ = wire.WriteJSON(w, wire.FrameFailed, wire.Failed{Kind: "engine", Op: "x", Message: "\x1b]0;owned\x07" + strings.Repeat("y", 5000)})
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Exec(t.Context(), sandbox.Process{Argv: []string{"x"}}, "")
	var serr *sandbox.Error
	if !errors.As(err, &serr) || serr.Kind != sandbox.KindBox || strings.ContainsAny(err.Error(), "\x1b\x07") || len(err.Error()) > 2100 {
		t.Errorf("got %.80q", err)
	}
}

// FuzzFrames feeds any bytes to the reader of a process's stream.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{wire.FrameStdout, 0, 0, 0, 1, 'x', wire.FrameExit, 0, 0, 0, 2, '{', '}'})
	f.Add([]byte{wire.FrameCollected, 0, 0, 0, 5, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := hostile(t, fine, nil, func(s *yamux.Session, w io.Writer) {
			_, _ = w.Write(b)
			_ = s.Close()
		})
		if err != nil {
			return
		}
		_, _ = c.Exec(t.Context(), sandbox.Process{Argv: []string{"x"}, Stdout: io.Discard, Collect: []sandbox.Collect{{Path: "/f"}}}, "")
	})
}
