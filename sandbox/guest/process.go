package guest

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/hashicorp/yamux"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/internal/wire"
)

// process is how a running process is reached from the control stream. Its
// entry may be made by a Stop that is faster than the Start.
type process struct {
	ctx      context.Context //nolint:containedctx // it lives exactly as long as the process
	cancel   context.CancelFunc
	kill     chan struct{}
	killOnce sync.Once
}

func (s *server) entry(id uint64) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.procs[id]
	if p == nil {
		p = &process{kill: make(chan struct{})}
		p.ctx, p.cancel = context.WithCancel(context.Background())
		s.procs[id] = p
	}
	return p
}

func (s *server) leave(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.procs[id]; p != nil {
		p.cancel()
		delete(s.procs, id)
	}
}

// process serves one process's stream.
func (s *server) process(stream *yamux.Stream) {
	defer stream.Close()
	var kind [1]byte
	if _, err := io.ReadFull(stream, kind[:]); err != nil || kind[0] != wire.StreamProcess {
		return
	}
	r := wire.NewReader(stream)
	var start wire.Start
	if err := r.ReadJSON(wire.FrameStart, wire.MaxStart, &start); err != nil {
		return
	}
	p := s.entry(start.ID)
	defer s.leave(start.ID)

	out := &lockedWriter{w: stream, failed: func() { _ = s.session.Close() }}
	before, refused := s.memory.kills(), pidsRefused()
	exit, err := s.group.Run(p.ctx, spec(start, r, out, p.kill), "")
	if err != nil {
		_ = wire.WriteJSON(out, wire.FrameFailed, failed(err))
		return
	}
	for i, c := range start.Collect {
		if err := sendCollected(out, uint32(i), exit, c.Path); err != nil {
			return
		}
	}
	w := wire.Exit{Code: exit.Code, Signal: exit.Signal, Stopped: exit.Stopped, CPU: exit.CPU, PeakMemory: exit.PeakMemory}
	if peak := s.memory.peak(); peak > 0 {
		w.PeakMemory = peak
	}
	if s.memory.kills() > before {
		w.OOMKilled = exit.Signal == "KILL" && !exit.Stopped
		w.ToolOOM = !w.OOMKilled
	}
	if exit.Code != 0 {
		w.PidsLimit, w.Full = pidsRefused() > refused, fullFileSystems()
	}
	_ = wire.WriteJSON(out, wire.FrameExit, w)
}

func spec(start wire.Start, r *wire.Reader, out io.Writer, kill <-chan struct{}) sandbox.Process {
	p := sandbox.Process{Argv: texts(start.Argv), Env: texts(start.Env), Dir: start.Dir, Kill: kill}
	if start.Stdin {
		p.Stdin = &stdinReader{r: r}
	}
	if start.Stdout {
		p.Stdout = &wire.DataWriter{W: out, Kind: wire.FrameStdout}
	}
	if start.Stderr {
		p.Stderr = &wire.DataWriter{W: out, Kind: wire.FrameStderr}
	}
	for _, argv := range start.Else {
		p.Else = append(p.Else, texts(argv))
	}
	for _, f := range start.Files {
		p.Files = append(p.Files, sandbox.File{Path: f.Path, Mode: fs.FileMode(f.Mode), Data: f.Data})
	}
	for _, c := range start.Collect {
		p.Collect = append(p.Collect, sandbox.Collect{Path: c.Path, Limit: c.Limit})
	}
	for _, f := range start.Follow {
		p.Follow = append(p.Follow, sandbox.Follow{Root: f.Root, Pattern: f.Pattern, Whole: f.Whole})
	}
	p.Followed = func(f sandbox.Followed) {
		_ = wire.Write(out, wire.FrameFollowed, wire.Followed{Of: uint32(f.Of), File: uint32(f.File), Fresh: f.Fresh, Cut: f.Cut, Data: f.Data}.Encode())
	}
	for _, st := range start.Stop {
		p.Stop = append(p.Stop, sandbox.StopStage{Signal: st.Signal, Grace: st.Grace})
	}
	return p
}

func texts(in [][]byte) []string {
	out := make([]string, len(in))
	for i, b := range in {
		out[i] = string(b)
	}
	return out
}

func failed(err error) wire.Failed {
	var serr *sandbox.Error
	if !errors.As(err, &serr) {
		return wire.Failed{Kind: string(sandbox.KindBox), Op: "run process", Message: err.Error()}
	}
	return wire.Failed{Kind: string(serr.Kind), Op: serr.Op, Message: serr.Err.Error()}
}

func sendCollected(out io.Writer, index uint32, exit sandbox.Exit, path string) error {
	data, ok := exit.Collected[path]
	if !ok {
		return nil
	}
	extra := binary.BigEndian.AppendUint32(nil, index)
	cut := byte(0)
	for _, t := range exit.Truncated {
		if t == path {
			cut = 1
		}
	}
	extra = append(extra, cut)
	if len(data) == 0 {
		return wire.Write(out, wire.FrameCollected, extra)
	}
	_, err := (&wire.DataWriter{W: out, Kind: wire.FrameCollected, Extra: extra}).Write(data)
	return err
}

// lockedWriter lets stdout and stderr share a stream. A stream that fails has
// lost output: that ends the box rather than go unnoticed.
type lockedWriter struct {
	mu     sync.Mutex
	w      io.Writer
	failed func()
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.w.Write(b)
	if err != nil {
		l.failed()
	}
	return n, err
}

// stdinReader turns Stdin frames into a reader.
type stdinReader struct {
	r    *wire.Reader
	rest []byte
	end  bool
}

func (s *stdinReader) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.end {
			return 0, io.EOF
		}
		kind, payload, err := s.r.Next(func(k byte) int {
			switch k {
			case wire.FrameStdin, wire.FrameStdinEnd:
				return wire.MaxData
			}
			return 0
		})
		if err != nil {
			return 0, err
		}
		s.rest, s.end = payload, kind == wire.FrameStdinEnd
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
