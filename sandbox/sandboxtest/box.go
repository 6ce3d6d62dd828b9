package sandboxtest

import (
	"context"
	"errors"
	"io"
	"net"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/sandbox"
)

var boxTests = []test{
	{"info is filled", func(t *testing.T, s Subject) {
		box, spec := start(t, s)
		i := box.Info()
		if i.Backend == "" || i.Workdir != spec.Workdir || i.Temp != spec.Temp || i.Home != spec.Home ||
			i.Runner == "" || i.Env["PATH"] == "" || i.OS == "" || i.Arch == "" || i.Gateway != "" {
			t.Errorf("got %+v", i)
		}
		box, _ = start(t, s, func(s *sandbox.Spec) { s.Env = map[string]string{"FROM_SPEC": "x"} })
		if box.Info().Env["FROM_SPEC"] != "x" {
			t.Errorf("env is %v", box.Info().Env)
		}
	}},
	{"processes of a box run at the same time", func(t *testing.T, s Subject) {
		box, spec := start(t, s)
		meet := path.Join(spec.Temp, "meet")
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				r, err := execCtx(t.Context(), box, "mkdir -p "+meet+"; : >"+meet+"/"+itoa(i)+
					"; while [ $(ls "+meet+" | wc -l) -lt 8 ]; do sleep 0.05; done")
				if err != nil || r.Code != 0 || r.Stopped {
					t.Errorf("got %+v, %v", r.Exit, err)
				}
			})
		}
		wg.Wait()
	}},
	{"many processes one after another", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		for i := range 200 {
			if r := sh(t, box, "echo "+itoa(i)); r.out != itoa(i)+"\n" {
				t.Fatalf("process %d printed %q", i, r.out)
			}
		}
	}},
	{"boxes run at the same time", func(t *testing.T, s Subject) {
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				box, err := s.Backend.Start(t.Context(), s.Spec(t))
				if err != nil {
					t.Error(err)
					return
				}
				defer closeBox(t, box)
				if r, err := execCtx(t.Context(), box, "echo "+itoa(i)); err != nil || r.out != itoa(i)+"\n" {
					t.Errorf("got %q, %v", r.out, err)
				}
			})
		}
		wg.Wait()
	}},
	{"close ends running processes and may be called again", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		m := marker(t)
		up := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			_, err := execCtx(t.Context(), box, "(setsid sleep "+m+" &); echo up; sleep "+m, func(p *sandbox.Process) {
				p.Stdout = writerFunc(func(b []byte) (int, error) { close(up); return len(b), nil })
			})
			done <- err
		}()
		<-up
		closeBox(t, box)
		closeBox(t, box)
		select {
		case <-done:
		case <-time.After(limit):
			t.Fatal("exec did not return")
		}
		eventually(t, "no process is left", func() bool { return alive(t, m) == 0 })
		_, err := execCtx(t.Context(), box, "true")
		var serr *sandbox.Error
		if !errors.As(err, &serr) || serr.Kind != sandbox.KindBox {
			t.Errorf("exec in a closed box: %v", err)
		}
	}},
	{"cancel during start leaves nothing", func(t *testing.T, s Subject) {
		for _, after := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			box, err := s.Backend.Start(ctx, s.Spec(t))
			cancel()
			if err == nil { // it was faster: cancelling later must not end it
				if r := sh(t, box, "echo alive"); r.out != "alive\n" {
					t.Errorf("got %q", r.out)
				}
				closeBox(t, box)
				continue
			}
			var serr *sandbox.Error
			if !errors.As(err, &serr) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
	}},
	{"the gateway is reached from the box", func(t *testing.T, s Subject) {
		box, _ := start(t, s, func(sp *sandbox.Spec) { sp.Gateway = answer })
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				r, err := execCtx(t.Context(), box, "", func(p *sandbox.Process) {
					p.Argv = s.GatewayGet(box.Info().Gateway)
				})
				if err != nil || !strings.Contains(r.out, "from the gateway") {
					t.Errorf("got %q %q, %v", r.out, r.err, err)
				}
			})
		}
		wg.Wait()
	}},
	{"a gateway connection ends with its box", func(t *testing.T, s Subject) {
		ended, begun := make(chan struct{}), make(chan struct{})
		box, _ := start(t, s, func(sp *sandbox.Spec) {
			sp.Gateway = func(c net.Conn) {
				close(begun)
				_, _ = io.Copy(io.Discard, c)
				close(ended)
			}
		})
		go func() {
			_, _ = execCtx(t.Context(), box, "", func(p *sandbox.Process) { p.Argv = s.GatewayGet(box.Info().Gateway) })
		}()
		<-begun
		closeBox(t, box)
		select {
		case <-ended:
		case <-time.After(limit):
			t.Error("the handler still has its connection")
		}
	}},
}

// answer serves one HTTP request.
func answer(c net.Conn) {
	buf := make([]byte, 4096)
	if _, err := c.Read(buf); err != nil {
		return
	}
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 16\r\nConnection: close\r\n\r\nfrom the gateway")
}
