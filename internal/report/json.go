package report

import (
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/herd-runner/herd-runner/internal/event"
)

// JSON is the sink behind --json: each event is one JSON object on a line of
// its own, as docs/json-events.md tells. It is safe for concurrent use; a line
// appears at the latest 50 ms after its event. Close it.
type JSON struct {
	out  *out
	seq  int64
	rest map[outputKey][]byte // the begun character at the end of a chunk
}

type outputKey struct{ job, step, stream string }

// NewJSON makes a JSON that writes to w.
func NewJSON(w io.Writer) *JSON {
	return &JSON{out: newOut(w), rest: map[outputKey][]byte{}}
}

// Emit writes e. Events are numbered in the order they are written, from 1.
func (j *JSON) Emit(e event.Event) {
	j.out.mu.Lock()
	defer j.out.mu.Unlock()
	switch e.Type {
	case event.Output:
		j.output(e)
	case event.StepFinished:
		for _, stream := range []string{"stdout", "stderr"} {
			key := outputKey{e.Job, e.Step, stream}
			if rest := j.rest[key]; len(rest) > 0 {
				delete(j.rest, key)
				j.put(event.Event{Type: event.Output, Time: e.Time, Job: e.Job, Step: e.Step, Attempt: e.Attempt, Stream: stream, Text: "\uFFFD"})
			}
		}
		j.put(e)
	default:
		j.put(e)
	}
	if e.Type == event.RunFinished {
		j.out.flush()
	}
	j.out.commit()
}

func (j *JSON) output(e event.Event) {
	key := outputKey{e.Job, e.Step, e.Stream}
	data := e.Data
	if rest := j.rest[key]; len(rest) > 0 {
		data = append(rest, data...)
		delete(j.rest, key)
	}
	whole := len(data) - begun(data)
	if whole < len(data) {
		j.rest[key] = append([]byte(nil), data[whole:]...)
	}
	if whole == 0 {
		return
	}
	e.Text = strings.ToValidUTF8(string(data[:whole]), "\uFFFD")
	j.put(e)
}

// begun is how many bytes at the end of data begin a character that goes on.
func begun(data []byte) int {
	for n := 1; n <= min(len(data), utf8.UTFMax-1); n++ {
		c := data[len(data)-n]
		if c < 0x80 {
			return 0
		}
		if utf8.RuneStart(c) {
			if utf8.FullRune(data[len(data)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}

func (j *JSON) put(e event.Event) {
	j.seq++
	e.Seq = j.seq
	line, err := json.Marshal(e)
	if err != nil && e.Message != nil {
		m := *e.Message
		m.Input, _ = json.Marshal(string(m.Input))
		e.Message = &m
		line, err = json.Marshal(e)
	}
	if err != nil && j.out.err == nil {
		j.out.err = err
	}
	if err == nil {
		j.out.buf = append(append(j.out.buf, line...), '\n')
	}
}

// Close writes what is pending and gives the first error.
func (j *JSON) Close() error { return j.out.close() }
