package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
)

// followEvery is how often a growing journal is looked at. It is polled: file
// events do not cross every file system a project may lie on.
const followEvery = 100 * time.Millisecond

// ErrDied is what following ends with when the run's process ended without
// finishing the run.
var ErrDied = errors.New("the run's process ended without finishing it")

// Follow gives the events of a run from its first on, waits for more, and ends
// with nil at RunFinished, with ErrDied, with fn's error, or with that of ctx.
func (r *Reader) Follow(ctx context.Context, fn func(event.Event) error) error {
	t := tail{name: r.Path()}
	return r.follow(ctx, func(bool) (bool, error) {
		finished := false
		err := t.read(func(rec record) error {
			finished = finished || rec.Type == event.RunFinished
			return fn(rec.event())
		})
		return finished, err
	})
}

// follow calls look until it says finished. Its last call, for a run that died,
// comes after the death was noticed.
func (r *Reader) follow(ctx context.Context, look func(live bool) (bool, error)) error {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		live, err := r.Alive()
		if err != nil {
			return err
		}
		finished, err := look(live)
		if err != nil || finished {
			return err
		}
		if !live {
			return ErrDied
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// StreamOptions choose what Stream gives.
type StreamOptions struct {
	// Select says whether a step is wanted; nil: all of the run.
	Select func(job, step string) bool
	// Follow waits for what is yet to come.
	Follow bool
}

// Stream puts the record together again: it gives sink the events of the run
// with those of its logs and transcripts between the start and the end of their
// step. Output has stdout and stderr in the order of arrival, under the stream
// "stdout". It ends as Follow does, or without opts.Follow at the end of what
// there is.
func (r *Reader) Stream(ctx context.Context, opts StreamOptions, sink event.Sink) error {
	s := streamer{r: r, opts: opts, sink: sink, journal: tail{name: r.Path()}, running: map[stepKey]*stepTail{}}
	if !opts.Follow {
		_, err := s.look(ctx)
		return err
	}
	return r.follow(ctx, func(bool) (bool, error) { return s.look(ctx) })
}

type streamer struct {
	r        *Reader
	opts     StreamOptions
	sink     event.Sink
	journal  tail
	order    []*stepTail
	running  map[stepKey]*stepTail
	finished bool
}

type stepTail struct {
	stepKey
	offset     int64
	transcript tail
	attempt    int
}

func (s *streamer) look(ctx context.Context) (bool, error) {
	err := s.journal.read(func(rec record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return s.event(rec.event())
	})
	if err != nil {
		return false, err
	}
	for _, st := range s.order {
		if err := s.drain(st); err != nil {
			return false, err
		}
	}
	return s.finished, nil
}

func (s *streamer) event(e event.Event) error {
	wanted := e.Step == "" || s.opts.Select == nil || s.opts.Select(e.Job, e.Step)
	if s.opts.Select != nil && e.Step == "" {
		wanted = false
	}
	s.finished = s.finished || e.Type == event.RunFinished
	if !wanted {
		return nil
	}
	key := stepKey{e.Job, e.Step}
	switch e.Type {
	case event.StepStarted:
		if s.running[key] == nil {
			st := &stepTail{stepKey: key}
			st.transcript = tail{name: filepath.Join(s.r.Dir, transcriptPath(e.Job, e.Step)), optional: true}
			s.running[key] = st
			s.order = append(s.order, st)
		}
		s.running[key].attempt = e.Attempt
	case event.StepFinished:
		if err := s.finish(key); err != nil {
			return err
		}
	}
	s.sink.Emit(e)
	return nil
}

func (s *streamer) finish(key stepKey) error {
	st := s.running[key]
	if st == nil {
		return nil
	}
	delete(s.running, key)
	for i := range s.order {
		if s.order[i] == st {
			s.order = append(s.order[:i], s.order[i+1:]...)
			break
		}
	}
	return s.drain(st)
}

// drain gives what a step's transcript and log hold beyond what was given.
func (s *streamer) drain(st *stepTail) error {
	err := st.transcript.read(func(rec record) error {
		s.sink.Emit(rec.event())
		return nil
	})
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(s.r.Dir, logPath(st.job, st.step)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the log of %s/%s: %w", st.job, st.step, err)
	}
	defer f.Close()
	if _, err := f.Seek(st.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read the log of %s/%s: %w", st.job, st.step, err)
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			st.offset += int64(n)
			s.sink.Emit(event.Event{Type: event.Output, Job: st.job, Step: st.step, Attempt: st.attempt, Stream: "stdout", Data: buf[:n]})
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the log of %s/%s: %w", st.job, st.step, err)
		}
	}
}
