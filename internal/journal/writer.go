package journal

import (
	"bytes"
	"container/list"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
)

const (
	flushEvery = 100 * time.Millisecond
	flushSize  = 64 << 10 // bytes of records
	// pendingMax bounds the records kept for a disk that may have room again.
	pendingMax = 1 << 20
)

// Writer is the sink that records one run. It is safe for concurrent use. What
// it was given is on disk (not synced) 100 ms later, or at once when a step,
// job or the run finishes. A write that fails does not stop the run: Err and
// Close say so.
type Writer struct {
	dir  string
	root *os.Root
	lock *os.File
	file *os.File

	mu      sync.Mutex
	pending bytes.Buffer // whole records
	encode  *json.Encoder
	good    int64 // bytes of whole records in file
	seq     int64
	lost    int // records
	bulk    files
	steps   map[stepKey]*stepFiles
	last    *stepFiles
	timer   *time.Timer
	armed   bool
	closed  bool
	err     error // the first
}

type stepKey struct{ job, step string }

type stepFiles struct {
	stepKey
	log, transcript *appender
	counts          StepLog
}

// StepLog counts what a step wrote beside the journal.
type StepLog struct {
	Bytes     int64 `json:"bytes"`      // of output
	Messages  int   `json:"messages"`   // of its agent
	ToolCalls int   `json:"tool_calls"` // of its agent
}

// record is one line of the journal. Log is set where a step finished.
type record struct {
	*event.Event
	Log *StepLog `json:"log,omitempty"`
}

// Create starts the record of a run in projectDir. The run counts as alive
// until Close, or until this process ends. An id that is taken gives an error
// that is fs.ErrExist. The caller closes the Writer.
func Create(projectDir, id string) (*Writer, error) {
	runs, err := makeRunsDir(projectDir)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(runs, id)
	if filepath.Dir(dir) != runs || strings.HasPrefix(id, ".") {
		return nil, fmt.Errorf("%q can not be the id of a run", id)
	}
	if _, err := os.Lstat(dir); err == nil {
		return nil, fmt.Errorf("run %s: %w", id, fs.ErrExist)
	}
	w := &Writer{dir: dir, steps: map[stepKey]*stepFiles{}}
	w.bulk.open = list.New()
	w.encode = json.NewEncoder(&w.pending)
	w.encode.SetEscapeHTML(false)
	if err := w.open(runs, id); err != nil {
		return nil, &NoRecordError{fmt.Errorf("create the journal of run %s: %w", id, err)}
	}
	w.timer = time.AfterFunc(flushEvery, w.tick)
	w.timer.Stop()
	return w, nil
}

// open makes the folder under another name first: it appears locked, so that
// nobody takes a run that is about to start for a dead one.
func (w *Writer) open(runs, id string) (err error) {
	temp, err := os.MkdirTemp(runs, tempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		for _, f := range []*os.File{w.lock, w.file} {
			if f != nil {
				err = errors.Join(err, f.Close())
			}
		}
		err = errors.Join(err, os.RemoveAll(temp))
	}()
	if err = os.Chmod(temp, 0o755); err != nil {
		return err
	}
	if w.lock, err = lockFile(filepath.Join(temp, lockName)); err != nil {
		return fmt.Errorf("lock it: %w", err)
	}
	if w.file, err = os.OpenFile(filepath.Join(temp, journalName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return err
	}
	if w.root, err = os.OpenRoot(temp); err != nil {
		return err
	}
	w.bulk.root = w.root
	return os.Rename(temp, w.dir)
}

// Dir is the folder of the run.
func (w *Writer) Dir() string { return w.dir }

// Emit records e. It numbers events that bear no number yet, and does not
// retain e.Data.
func (w *Writer) Emit(e event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		w.fail(fmt.Errorf("event %q after the journal was closed", e.Type))
		return
	}
	if e.Type == event.Output {
		s := w.step(e.Job, e.Step)
		if s.log == nil {
			s.log = &appender{path: logPath(e.Job, e.Step)}
		}
		s.counts.Bytes += int64(len(e.Data))
		w.fail(w.bulk.write(s.log, e.Data))
		w.arm()
		return
	}
	if e.Seq == 0 {
		w.seq++
		e.Seq = w.seq
	}
	w.record(e)
	w.arm()
}

func (w *Writer) record(e event.Event) {
	switch e.Type {
	case event.RunStarted, event.JobFinished:
		// At once: a run that is killed in its first moments says which it was, and
		// what is done need not be done again.
		w.append(record{Event: &e})
		w.flush()
	case event.Agent:
		w.transcribe(e)
	case event.StepFinished:
		s := w.step(e.Job, e.Step)
		w.append(record{&e, &s.counts})
		w.fail(w.bulk.close(s.log))
		w.fail(w.bulk.close(s.transcript))
		delete(w.steps, s.stepKey)
		w.last = nil
		w.flush()
	case event.RunFinished:
		w.append(record{Event: &e})
		w.fail(w.bulk.flushAll())
		w.flush()
	default:
		w.append(record{Event: &e})
		if w.pending.Len() >= flushSize {
			w.flush()
		}
	}
}

func (w *Writer) step(job, step string) *stepFiles {
	if w.last != nil && w.last.step == step && w.last.job == job {
		return w.last
	}
	key := stepKey{job, step}
	s, ok := w.steps[key]
	if !ok {
		s = &stepFiles{stepKey: key}
		w.steps[key] = s
	}
	w.last = s
	return s
}

func (w *Writer) transcribe(e event.Event) {
	s := w.step(e.Job, e.Step)
	if s.transcript == nil {
		s.transcript = &appender{path: transcriptPath(e.Job, e.Step)}
	}
	s.counts.Messages++
	if m := e.Message; m != nil {
		if m.Kind == event.MessageToolCall {
			s.counts.ToolCalls++
		}
		if len(m.Input) > 0 && !json.Valid(m.Input) {
			copied := *m
			copied.Input, _ = json.Marshal(string(m.Input))
			e.Message = &copied
		}
	}
	line, err := json.Marshal(e)
	if err != nil {
		w.fail(fmt.Errorf("encode a message of %s/%s: %w", e.Job, e.Step, err))
		return
	}
	w.fail(w.bulk.write(s.transcript, append(line, '\n')))
}

func (w *Writer) append(r record) {
	if w.pending.Len() > pendingMax {
		w.lost++
		return
	}
	before := w.pending.Len()
	if err := w.encode.Encode(r); err != nil {
		w.pending.Truncate(before)
		w.lost++
		w.fail(fmt.Errorf("encode event %q: %w", r.Type, err))
	}
}

// flush writes the pending records. After a write that stopped half way, the
// half record is taken back, and what is pending waits for the next flush.
func (w *Writer) flush() {
	if w.pending.Len() == 0 {
		return
	}
	n, err := w.file.Write(w.pending.Bytes())
	if err == nil {
		w.good += int64(n)
		w.pending.Reset()
		return
	}
	w.fail(err)
	w.fail(w.file.Truncate(w.good))
}

func (w *Writer) arm() {
	if !w.armed {
		w.armed = true
		w.timer.Reset(flushEvery)
	}
}

func (w *Writer) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.armed = false
	w.flush()
	w.fail(w.bulk.flushAll())
	if w.pending.Len() > 0 {
		w.arm()
	}
}

func (w *Writer) fail(err error) {
	if err != nil && w.err == nil {
		w.err = err
	}
}

// Err is the first failure to record something, nil while all is well.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// WriteSummary stores the summary of the run, replacing one already there.
func (w *Writer) WriteSummary(markdown string) error {
	if err := w.root.WriteFile(summaryName, []byte(markdown), 0o644); err != nil {
		return fmt.Errorf("write the run's summary: %w", err)
	}
	return nil
}

// Close writes what is pending, syncs the journal to disk and ends the run's
// life. It says what could not be recorded since Create. A second Close does
// nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	w.timer.Stop()
	w.fail(w.bulk.closeAll())
	w.flush()
	w.fail(w.file.Sync())
	w.fail(w.file.Close())
	w.fail(w.root.Close())
	w.fail(w.lock.Close())
	if w.err == nil {
		return nil
	}
	w.lost += bytes.Count(w.pending.Bytes(), []byte{'\n'})
	return fmt.Errorf("the record of this run is not complete (%d events and %d bytes of logs lost): %w", w.lost, w.bulk.lost, w.err)
}
