package tunnel

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/internal/wire"
)

// endDelay is what the guest gets, beyond the stages' grace, to report the end
// of a process that was told to stop.
const endDelay = 30 * time.Second

// Exec is sandbox.Box.Exec. dir is used where p.Dir is empty.
func (c *Client) Exec(ctx context.Context, p sandbox.Process, dir string) (sandbox.Exit, error) {
	if ctx.Err() != nil {
		return sandbox.Exit{Code: 128 + int(syscall.SIGKILL), Signal: "KILL", Stopped: true}, nil
	}
	stream, err := c.session.OpenStream()
	if err != nil {
		return sandbox.Exit{}, c.ended("start process", err)
	}
	defer stream.Close()
	id := c.ids.Add(1)
	if err := sendStart(stream, start(id, p, dir)); err != nil {
		var serr *sandbox.Error
		if errors.As(err, &serr) {
			return sandbox.Exit{}, serr
		}
		return sandbox.Exit{}, c.ended("start process", err)
	}
	if p.Stdin != nil {
		go sendStdin(stream, p.Stdin) // ends with the stream, or when Stdin returns
	}
	over := make(chan struct{})
	defer close(over)
	patience := endDelay
	for _, s := range p.Stop {
		patience += s.Grace
	}
	go func() {
		kill := p.Kill
		done := ctx.Done()
		for kill != nil || done != nil {
			select {
			case <-over:
				return
			case <-done:
				c.signal(wire.FrameStop, id)
				_ = stream.SetReadDeadline(time.Now().Add(patience))
				done = nil
			case <-kill:
				c.signal(wire.FrameKill, id)
				_ = stream.SetReadDeadline(time.Now().Add(endDelay))
				kill = nil
			}
		}
	}()
	return c.receive(stream, p)
}

func start(id uint64, p sandbox.Process, dir string) wire.Start {
	s := wire.Start{
		ID: id, Argv: raw(p.Argv), Env: raw(p.Env), Dir: p.Dir,
		Stdin: p.Stdin != nil, Stdout: p.Stdout != nil, Stderr: p.Stderr != nil,
	}
	if s.Dir == "" {
		s.Dir = dir
	}
	for _, argv := range p.Else {
		s.Else = append(s.Else, raw(argv))
	}
	for _, f := range p.Files {
		s.Files = append(s.Files, wire.File{Path: f.Path, Mode: uint32(f.Mode & (fs.ModeDir | fs.ModePerm)), Data: f.Data})
	}
	for _, c := range p.Collect {
		s.Collect = append(s.Collect, wire.Collect{Path: c.Path, Limit: limitOf(c)})
	}
	if p.Followed != nil {
		for _, f := range p.Follow {
			s.Follow = append(s.Follow, wire.Follow{Root: f.Root, Pattern: f.Pattern, Whole: f.Whole})
		}
	}
	for _, st := range p.Stop {
		s.Stop = append(s.Stop, wire.Stage{Signal: st.Signal, Grace: st.Grace})
	}
	return s
}

func limitOf(c sandbox.Collect) int64 {
	if c.Limit <= 0 {
		return sandbox.DefaultCollectLimit
	}
	return c.Limit
}

func raw(in []string) [][]byte {
	out := make([][]byte, len(in))
	for i, s := range in {
		out[i] = []byte(s)
	}
	return out
}

func sendStart(stream *yamux.Stream, s wire.Start) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if len(b) > wire.MaxStart {
		return fail(sandbox.KindExec, "start process", fmt.Errorf(
			"its files, arguments and environment are %d MiB, at most %d are possible", len(b)>>20, wire.MaxStart>>20))
	}
	if _, err := stream.Write([]byte{wire.StreamProcess}); err != nil {
		return err
	}
	return wire.Write(stream, wire.FrameStart, b)
}

func sendStdin(stream *yamux.Stream, in io.Reader) {
	w := &wire.DataWriter{W: stream, Kind: wire.FrameStdin}
	if _, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{in}, make([]byte, 32<<10)); err != nil && errors.Is(err, yamux.ErrStreamClosed) {
		return
	}
	_ = wire.Write(stream, wire.FrameStdinEnd, nil)
}

// allowed bounds what a guest may send on a process's stream.
func allowed(kind byte) int {
	switch kind {
	case wire.FrameStdout, wire.FrameStderr, wire.FrameCollected, wire.FrameFollowed:
		return wire.MaxData
	case wire.FrameExit, wire.FrameFailed:
		return wire.MaxMessage
	}
	return 0
}

func (c *Client) receive(stream *yamux.Stream, p sandbox.Process) (sandbox.Exit, error) {
	r := wire.NewReader(stream)
	got := collection{wanted: p.Collect}
	followed := followed{of: len(p.Follow), give: p.Followed}
	stdout, stderr := p.Stdout, p.Stderr
	for {
		kind, b, err := r.Next(allowed)
		if err != nil {
			switch {
			case errors.Is(err, yamux.ErrTimeout):
				return sandbox.Exit{}, fail(sandbox.KindBox, "stop process", errors.New("the box did not report its end in time"))
			case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), c.session.IsClosed():
				return sandbox.Exit{}, c.ended("run process", err)
			}
			return sandbox.Exit{}, fail(sandbox.KindBox, "run process", c.breakOff(err))
		}
		switch kind {
		case wire.FrameStdout:
			stdout = pass(stdout, b)
		case wire.FrameStderr:
			stderr = pass(stderr, b)
		case wire.FrameCollected:
			if err := got.add(b); err != nil {
				return sandbox.Exit{}, fail(sandbox.KindBox, "collect files", c.breakOff(err))
			}
		case wire.FrameFollowed:
			if err := followed.add(b); err != nil {
				return sandbox.Exit{}, fail(sandbox.KindBox, "follow files", c.breakOff(err))
			}
		case wire.FrameExit:
			var w wire.Exit
			if err := json.Unmarshal(b, &w); err != nil {
				return sandbox.Exit{}, fail(sandbox.KindBox, "run process", c.breakOff(err))
			}
			exit, err := exitOf(w)
			if err != nil {
				return sandbox.Exit{}, fail(sandbox.KindBox, "run process", c.breakOff(err))
			}
			exit.Collected, exit.Truncated = got.files()
			return exit, nil
		case wire.FrameFailed:
			return sandbox.Exit{}, c.failed(b)
		}
	}
}

// pass hands a chunk on; a writer that fails is given nothing more, and the
// process goes on.
func pass(w io.Writer, b []byte) io.Writer {
	if w == nil {
		return nil
	}
	if _, err := w.Write(b); err != nil {
		return nil
	}
	return w
}

// maxFull bounds the full file systems that a guest may name.
const maxFull = 64

// exitOf takes over what a guest says about an exit where it makes sense.
func exitOf(w wire.Exit) (sandbox.Exit, error) {
	if w.Code < 0 || w.Code > 255 || len(w.Signal) > 16 || len(w.Full) > maxFull || w.PeakMemory < 0 || w.CPU < 0 {
		return sandbox.Exit{}, errors.New("an exit that can not be")
	}
	for i, name := range w.Full {
		w.Full[i] = printable(name, 200)
	}
	return sandbox.Exit{
		PidsLimit: w.PidsLimit, Full: w.Full, Code: w.Code, Signal: w.Signal, Stopped: w.Stopped, OOMKilled: w.OOMKilled, ToolOOM: w.ToolOOM,
		PeakMemory: w.PeakMemory, CPU: w.CPU,
	}, nil
}

func (c *Client) failed(b []byte) error {
	var f wire.Failed
	if err := json.Unmarshal(b, &f); err != nil {
		return fail(sandbox.KindBox, "run process", c.breakOff(err))
	}
	kind := sandbox.KindBox
	switch k := sandbox.Kind(f.Kind); k {
	case sandbox.KindExec, sandbox.KindFiles, sandbox.KindConfig:
		kind = k
	}
	return fail(kind, fmt.Sprintf("%.50s", f.Op), errors.New(printable(f.Message, 2000)))
}

// printable keeps a box from driving the terminal with an error's text.
func printable(s string, most int) string {
	out := make([]rune, 0, min(len(s), most))
	for _, r := range s {
		if len(out) == most {
			break
		}
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			r = '?'
		}
		out = append(out, r)
	}
	return string(out)
}

// ended is the error after the tunnel's end.
func (c *Client) ended(op string, err error) error {
	if broken := c.Broken(); broken != nil {
		return fail(sandbox.KindBox, op, broken)
	}
	return fail(sandbox.KindBox, op, fmt.Errorf("the box ended: %w", err))
}

// followed hands on pieces of followed files within the bounds there are.
type followed struct {
	of    int
	give  func(sandbox.Followed)
	total int
}

func (f *followed) add(b []byte) error {
	p, err := wire.DecodeFollowed(b)
	if err != nil {
		return err
	}
	if f.total += len(p.Data); f.give == nil || int64(p.Of) >= int64(f.of) || p.File >= sandbox.MaxFollowedFiles || f.total > sandbox.MaxFollowedBytes {
		return fmt.Errorf("%d bytes of followed file %d of pattern %d, where %d are followed", len(p.Data), p.File, p.Of, f.of)
	}
	f.give(sandbox.Followed{Of: int(p.Of), File: int(p.File), Fresh: p.Fresh, Cut: p.Cut, Data: p.Data})
	return nil
}

// collection gathers collected files within the limits that were asked.
type collection struct {
	wanted []sandbox.Collect
	parts  [][]byte // by index into wanted; nil: missing
	cut    []bool
}

func (g *collection) add(b []byte) error {
	if len(b) < 5 {
		return fmt.Errorf("a collected part of %d bytes", len(b))
	}
	i, data := binary.BigEndian.Uint32(b), b[5:]
	if int64(i) >= int64(len(g.wanted)) {
		return fmt.Errorf("collected file %d of %d", i, len(g.wanted))
	}
	if g.parts == nil {
		g.parts, g.cut = make([][]byte, len(g.wanted)), make([]bool, len(g.wanted))
	}
	w := g.wanted[i]
	if int64(len(g.parts[i])+len(data)) > limitOf(w) {
		return fmt.Errorf("collected file %q is longer than the %d bytes asked for", w.Path, limitOf(w))
	}
	if g.parts[i] == nil {
		g.parts[i] = []byte{}
	}
	g.parts[i] = append(g.parts[i], data...)
	g.cut[i] = b[4] != 0
	return nil
}

func (g *collection) files() (files map[string][]byte, truncated []string) {
	for i, b := range g.parts {
		if b == nil {
			continue
		}
		if files == nil {
			files = map[string][]byte{}
		}
		files[g.wanted[i].Path] = b
		if g.cut[i] {
			truncated = append(truncated, g.wanted[i].Path)
		}
	}
	return files, truncated
}
