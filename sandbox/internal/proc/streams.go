package proc

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/herd-runner/herd-runner/sandbox"
)

const (
	chunkSize = 32 << 10
	// maxPipe is more than a pipe holds, so that all the process wrote before
	// it ended is read even when a background process writes on.
	maxPipe = 1 << 20
)

// streams are the three standard streams of one process.
type streams struct {
	group *Group
	child [3]*os.File
	owned []*os.File // child ends to close once it has started
	in    *os.File   // our end of stdin, nil where there is none
	stdin io.Reader
	outs  []*output
}

type output struct {
	r    *os.File
	w    io.Writer
	done chan struct{}
}

func (g *Group) open(p sandbox.Process) (*streams, error) {
	s := &streams{group: g}
	null := g.table.devNull
	switch in := p.Stdin.(type) {
	case nil:
		s.child[0] = null
	case *os.File:
		s.child[0] = in
	default:
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		s.child[0], s.in, s.stdin = r, w, in
		s.owned = append(s.owned, r)
	}
	for i, w := range []io.Writer{p.Stdout, p.Stderr} {
		switch w := w.(type) {
		case nil:
			s.child[i+1] = null
		case *os.File:
			s.child[i+1] = w
		default:
			r, cw, err := outputPipe()
			if err != nil {
				s.closeChild()
				s.abandon()
				return nil, err
			}
			s.child[i+1] = cw
			s.owned = append(s.owned, cw)
			s.outs = append(s.outs, &output{r: r, w: w, done: make(chan struct{})})
		}
	}
	return s, nil
}

func (s *streams) closeChild() {
	for _, f := range s.owned {
		_ = f.Close()
	}
}

// run starts the copying; finish or abandon ends it.
func (s *streams) run() {
	if s.in != nil {
		go func() {
			_, _ = io.Copy(s.in, s.stdin)
			_ = s.in.Close()
		}()
	}
	for _, o := range s.outs {
		go o.copy(s.group)
	}
}

// finish is called when the process has ended; it returns when the outputs
// have been passed on. Something that still holds a pipe open is read on in
// the background and discarded, so that it does not die of a broken pipe.
func (s *streams) finish() {
	if s.in != nil {
		_ = s.in.Close()
	}
	for _, o := range s.outs {
		select {
		case <-o.done:
			continue
		default:
		}
		_ = o.r.SetReadDeadline(time.Now().Add(outputDelay))
		<-o.done
	}
}

// abandon closes our ends without waiting.
func (s *streams) abandon() {
	if s.in != nil {
		_ = s.in.Close()
	}
	for _, o := range s.outs {
		_ = o.r.Close()
	}
}

func (o *output) copy(g *Group) {
	defer close(o.done)
	t := g.table
	bufp := t.buffers.Get().(*[]byte)
	defer t.buffers.Put(bufp)
	buf, w := *bufp, o.w
	for {
		n, err := o.r.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				w = io.Discard // go on draining: the process must not block
			}
		}
		if err == nil {
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			o.takeRest(buf, w)
			g.drain(o.r)
			return
		}
		_ = o.r.Close()
		return
	}
}

// takeRest passes on what is in the pipe now without waiting for more.
func (o *output) takeRest(buf []byte, w io.Writer) {
	rc, err := o.r.SyscallConn()
	if err != nil {
		return
	}
	_ = o.r.SetReadDeadline(time.Time{})
	for total := 0; total < maxPipe; {
		n := 0
		_ = rc.Read(func(fd uintptr) bool {
			n, err = syscall.Read(int(fd), buf)
			return true
		})
		if n <= 0 || err != nil {
			return
		}
		total += n
		if _, werr := w.Write(buf[:n]); werr != nil {
			w = io.Discard
		}
	}
}

// drain reads and discards until the pipe ends or the group closes.
func (g *Group) drain(r *os.File) {
	t := g.table
	t.mu.Lock()
	g.drains[r] = struct{}{}
	t.mu.Unlock()
	go func() {
		bufp := t.buffers.Get().(*[]byte)
		for {
			if _, err := r.Read(*bufp); err != nil {
				break
			}
		}
		t.buffers.Put(bufp)
		_ = r.Close()
		t.mu.Lock()
		delete(g.drains, r)
		t.mu.Unlock()
	}()
}
