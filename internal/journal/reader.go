package journal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
)

// recordMax bounds one line of a journal or transcript, in bytes.
const recordMax = 64 << 20

// Reader reads the record of one run, also while it is being written. It keeps
// no file open between calls and is safe for concurrent use.
type Reader struct {
	ID  string
	Dir string
}

// NotFoundError says that no run, or more than one, answers to ID.
type NotFoundError struct {
	Project string
	ID      string
	Matches []string // newest first; empty: none
	Known   int      // how many runs there are
}

func (e *NotFoundError) Error() string {
	switch {
	case e.Known == 0:
		return fmt.Sprintf("no runs in %s", RunsDir(e.Project))
	case len(e.Matches) == 0:
		return fmt.Sprintf("no run %q in %s", e.ID, RunsDir(e.Project))
	}
	shown := e.Matches[:min(len(e.Matches), 5)]
	return fmt.Sprintf("%d runs begin with %q: %s", len(e.Matches), e.ID, strings.Join(shown, ", "))
}

// Hint says what to do next.
func (e *NotFoundError) Hint() string {
	switch {
	case e.Known == 0:
		return "start one with: herd-runner run WORKFLOW"
	case len(e.Matches) == 0:
		return "herd-runner ps lists the runs"
	}
	return "give more of the id, or \"latest\""
}

// Open finds a run of projectDir by its id, the beginning of it, the four
// digits at its end, or "latest" (also the empty id).
func Open(projectDir, id string) (*Reader, error) {
	ids, err := runIDs(projectDir)
	if err != nil {
		return nil, err
	}
	var matches []string
	for _, known := range ids {
		if known == id {
			matches = []string{known}
			break
		}
		if strings.HasPrefix(known, id) || strings.HasSuffix(known, "-"+id) {
			matches = append(matches, known)
		}
	}
	if (id == "" || id == "latest") && len(ids) > 0 {
		matches = ids[:1]
	}
	if len(matches) != 1 {
		return nil, &NotFoundError{Project: projectDir, ID: id, Matches: matches, Known: len(ids)}
	}
	return &Reader{ID: matches[0], Dir: filepath.Join(RunsDir(projectDir), matches[0])}, nil
}

// runIDs lists the runs of a project, newest first.
func runIDs(projectDir string) ([]string, error) {
	entries, err := os.ReadDir(RunsDir(projectDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the runs: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			ids = append(ids, e.Name())
		}
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	return ids, nil
}

// Alive says whether the process of the run is still there.
func (r *Reader) Alive() (bool, error) { return alive(r.Dir) }

// Path is the file the run's events are in.
func (r *Reader) Path() string { return filepath.Join(r.Dir, journalName) }

// Events gives the events recorded so far, in order; Output and Agent events
// are not among them (see Log and Transcript). A record cut short at the end is
// left out: the run was stopped while writing it. A record that can not be read
// with others after it is an error, and the last thing given.
func (r *Reader) Events(yield func(event.Event, error) bool) {
	for rec, err := range r.records {
		if !yield(rec.event(), err) {
			return
		}
	}
}

func (rec record) event() event.Event {
	if rec.Event == nil {
		return event.Event{}
	}
	return *rec.Event
}

func (r *Reader) records(yield func(record, error) bool) {
	t := tail{name: r.Path()}
	t.all(yield)
}

// Transcript gives what the agent of a step said and did, in order. A step
// without an agent has an empty one.
func (r *Reader) Transcript(job, step string) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		t := tail{name: filepath.Join(r.Dir, transcriptPath(job, step)), optional: true}
		t.all(func(rec record, err error) bool { return yield(rec.event(), err) })
	}
}

// Log opens the output of a step; a step that printed nothing has an empty one.
// The caller closes it.
func (r *Reader) Log(job, step string) (io.ReadCloser, error) {
	f, err := os.Open(filepath.Join(r.Dir, logPath(job, step)))
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(strings.NewReader("")), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the log of %s/%s: %w", job, step, err)
	}
	return f, nil
}

// tail reads whole records of a file that may still grow.
type tail struct {
	name     string
	optional bool // a missing file is an empty one
	line     int
	offset   int64 // of the first byte not yet consumed
}

var errStopped = errors.New("stopped")

func (t *tail) all(yield func(record, error) bool) {
	err := t.read(func(rec record) error {
		if !yield(rec, nil) {
			return errStopped
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStopped) {
		yield(record{}, err)
	}
}

// read gives the whole records that came since the last call. An error of fn
// ends it and is returned as it is.
func (t *tail) read(fn func(record) error) error {
	f, err := os.Open(t.name)
	if t.optional && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the record of the run: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(t.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", t.name, err)
	}
	in := bufio.NewReaderSize(f, 64<<10)
	var bad error
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: line %d: %w", t.name, t.line+1, err)
		}
		if bad != nil {
			return bad
		}
		rec := record{Event: &event.Event{}}
		if err := json.Unmarshal(line, &rec); err != nil || rec.Type == "" {
			// Only an error when more follows: a power cut leaves rubbish at the end.
			bad = fmt.Errorf("read %s: line %d is no record: %w", t.name, t.line+1, orNoType(err))
			continue
		}
		t.line++
		t.offset += int64(len(line))
		if err := fn(rec); err != nil {
			return err
		}
	}
}

func orNoType(err error) error {
	if err == nil {
		return errors.New("it has no type")
	}
	return err
}

// readLine gives a line with its end; io.EOF where there is no whole one.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > recordMax {
			return nil, fmt.Errorf("a record of more than %d MiB", recordMax>>20)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
