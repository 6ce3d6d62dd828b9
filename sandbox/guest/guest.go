// Package guest is what runs inside a box as process 1: it starts processes
// for the runner, reaps, ends whole trees, and carries connections to the
// gateway and the egress proxy. The runner's side of the tunnel is package
// tunnel. Its imports are few: it is started with every box.
package guest

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/hashicorp/yamux"

	"github.com/herd-runner/herd-runner/sandbox/internal/carry"
	"github.com/herd-runner/herd-runner/sandbox/internal/proc"
	"github.com/herd-runner/herd-runner/sandbox/internal/wire"
)

// Main runs the guest on the standard streams until the input ends and
// returns the exit code. With the argument "carry" it is a process that package
// carry runs.
func Main(args []string) int {
	around := preferForOOM()
	if err := harden(); err != nil {
		fmt.Fprintf(os.Stderr, "guest: %v\n", err)
		return 1
	}
	if len(args) > 0 && args[0] == "carry" {
		return carry.Main(args[1:], os.Stdin, os.Stdout, os.Stderr)
	}
	if len(args) > 0 {
		fmt.Fprintf(os.Stderr, "guest: unknown argument %q\n", args[0])
		return 2
	}
	reserveThreads()
	if err := serve(stdio{os.Stdin, os.Stdout}, around); err != nil {
		fmt.Fprintf(os.Stderr, "guest: %v\n", err)
		return 1
	}
	return 0
}

// reservedThreads are more than a guest with a few processes has been seen to
// use. They count against the box's pids limit.
const reservedThreads = 12

// reserveThreads makes threads that the Go runtime keeps for later: in a box whose
// pids limit is used up it could make none, and would die of that.
func reserveThreads() {
	var made sync.WaitGroup
	release := make(chan struct{})
	for range reservedThreads {
		made.Add(1)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			made.Done()
			<-release
		}()
	}
	made.Wait()
	close(release)
}

type stdio struct {
	io.ReadCloser
	w io.WriteCloser
}

func (s stdio) Write(b []byte) (int, error) { return s.w.Write(b) }

func (s stdio) Close() error {
	_ = s.w.Close()
	return s.ReadCloser.Close()
}

// Serve serves one runner over conn until it is gone, then kills every
// process of the box.
func Serve(conn io.ReadWriteCloser) error { return serve(conn, nil) }

func serve(conn io.ReadWriteCloser, around func(start func())) error {
	table, err := proc.NewTable(around)
	if err != nil {
		return err
	}
	session, err := yamux.Server(conn, wire.Config())
	if err != nil {
		return err
	}
	s := &server{
		session: session, group: table.NewGroup(), memory: findMemory(),
		procs: map[uint64]*process{},
	}
	stop := reapOn(table)
	var wg sync.WaitGroup
	wg.Go(func() { wire.Heartbeat(session) })
	err = s.accept(&wg)
	_ = session.Close()
	for _, v := range s.services {
		_ = v.listener.Close()
	}
	killAll(s.group)
	stop()
	wg.Wait()
	return err
}

type server struct {
	session  *yamux.Session
	group    *proc.Group
	memory   memory
	services []*service

	mu    sync.Mutex
	procs map[uint64]*process
}

// accept serves streams until the session ends, which is no error.
func (s *server) accept(wg *sync.WaitGroup) error {
	control, err := s.session.AcceptStream()
	if err != nil {
		return nil
	}
	r, err := s.greet(control)
	if err != nil {
		if s.session.IsClosed() {
			return nil // the runner went away
		}
		return err
	}
	for _, v := range s.services {
		wg.Go(func() { s.offer(v, wg) })
	}
	wg.Go(func() {
		s.control(r)
		_ = s.session.Close()
	})
	for {
		stream, err := s.session.AcceptStream()
		if err != nil {
			return nil
		}
		wg.Go(func() { s.process(stream) })
	}
}

func (s *server) greet(control *yamux.Stream) (*wire.Reader, error) {
	var kind [1]byte
	if _, err := io.ReadFull(control, kind[:]); err != nil || kind[0] != wire.StreamControl {
		return nil, fmt.Errorf("the first stream is not the control stream (%q, %v)", kind, err)
	}
	r := wire.NewReader(control)
	var hello wire.Hello
	if err := r.ReadJSON(wire.FrameHello, wire.MaxMessage, &hello); err != nil {
		return nil, fmt.Errorf("read hello: %w", err)
	}
	mine := wire.Hello{Version: wire.Version, OS: runtime.GOOS, Arch: runtime.GOARCH}
	mine.Confinement = confinement()
	if hello.Version != wire.Version {
		mine.Problem = fmt.Sprintf("the guest speaks version %d, the runner %d", wire.Version, hello.Version)
	} else if err := s.listen(hello, &mine); err != nil {
		mine.Problem = fmt.Sprintf("listen in the box: %v", err)
	}
	return r, wire.WriteJSON(control, wire.FrameHello, mine)
}

// control reads Stop and Kill until the stream ends.
func (s *server) control(r *wire.Reader) {
	for {
		kind, b, err := r.Next(func(byte) int { return wire.MaxMessage })
		if err != nil {
			return
		}
		id, err := wire.ParseID(b)
		if err != nil {
			return
		}
		p := s.entry(id)
		switch kind {
		case wire.FrameStop:
			p.cancel()
		case wire.FrameKill:
			p.killOnce.Do(func() { close(p.kill) })
		}
	}
}

// confinement reads what the kernel keeps this process, and so the box, from.
func confinement() (c wire.Confinement) {
	c.Links = links()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return c
	}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); key {
		case "Seccomp":
			c.Seccomp = value
		case "NoNewPrivs":
			c.NoNewPrivs = value
		case "CapEff":
			c.CapEff = value
		case "CapBnd":
			c.CapBnd = value
		}
	}
	return c
}

// links are the names of the network interfaces that are up; none where they can
// not be listed.
func links() (up []string) {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range all {
		if i.Flags&net.FlagUp != 0 {
			up = append(up, i.Name)
		}
	}
	return up
}
