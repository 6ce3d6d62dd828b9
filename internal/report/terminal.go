package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
)

// TerminalOptions say how a Terminal shows a run.
type TerminalOptions struct {
	// Color allows colours, ours and those that steps print.
	Color bool
	// Width is that of the terminal in columns, 0 where it is not known. Output
	// is never cut to it, only what is shown of an agent's tool calls.
	Width int
	// Verbose also shows thinking, tool results, boxes, model calls and debug
	// notes.
	Verbose bool
	// Labels are the "job/step" known before the run, to align by; others may
	// come.
	Labels []string
	// Plain leaves out what frames the run: its table and where its record
	// lies. It is for showing a part of one.
	Plain bool
}

// Terminal is the sink that shows a run to a person, line by line, each under
// the name of its step. It is safe for concurrent use; what it shows appears at
// the latest 50 ms later. Close it.
type Terminal struct {
	opts  TerminalOptions
	p     paint
	out   *out
	fold  journal.Fold
	steps map[[2]string]*stepView
	last  *stepView
	jobs  map[string]int
	align int
	fails []failed
	bare  bool // no prefixes: there is but one step
}

// stepView is what is kept of a step while it runs.
type stepView struct {
	job, step string
	prefix    []byte
	aligned   int
	partial   [2][]byte // of stdout and stderr: a line without its end yet
	skipped   [2]int    // bytes of it beyond maxLine
	tail      []byte    // the end of its output
	name      string
	said      string // the last text of its agent
	refusals  refusals
}

type failed struct {
	view *stepView
	info event.StepInfo
	o    event.Outcome
}

const (
	tailSize  = 2 << 10 // bytes of output kept to show why a step failed
	tailLines = 12
	failsMax  = 20
)

// NewTerminal makes a Terminal that writes to w.
func NewTerminal(w io.Writer, opts TerminalOptions) *Terminal {
	t := &Terminal{opts: opts, p: paint(opts.Color), out: newOut(w), steps: map[[2]string]*stepView{}, jobs: map[string]int{}}
	for _, l := range opts.Labels {
		t.align = max(t.align, width(oneLine(l, labelMax)))
	}
	return t
}

// Close shows what is pending and gives the first error of writing.
func (t *Terminal) Close() error { return t.out.close() }

// Emit shows e.
func (t *Terminal) Emit(e event.Event) {
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	if e.Type == event.Output {
		t.output(t.view(e.Job, e.Step), e)
	} else {
		t.fold.Add(e)
		t.happening(e)
	}
	t.out.commit()
}

func (t *Terminal) view(job, step string) *stepView {
	v := t.last
	if v == nil || v.job != job || v.step != step {
		key := [2]string{job, step}
		if v = t.steps[key]; v == nil {
			v = &stepView{job: job, step: step, name: step}
			if step == "" {
				v.name = job
			}
			t.steps[key] = v
			t.align = max(t.align, width(label(job, step)))
		}
		t.last = v
	}
	if v.prefix == nil || v.aligned != t.align {
		v.aligned = t.align
		v.prefix = t.prefix(v)
	}
	return v
}

func (t *Terminal) prefix(v *stepView) []byte {
	if t.bare {
		return []byte{}
	}
	if _, ok := t.jobs[v.job]; !ok {
		t.jobs[v.job] = len(t.jobs)
	}
	name := label(v.job, v.step)
	space := strings.Repeat(" ", t.align-width(name)+1)
	return []byte(t.p.with(jobColour(t.jobs[v.job]), "["+name+"]") + space)
}

// output shows whole lines and keeps the rest for later.
func (t *Terminal) output(v *stepView, e event.Event) {
	stream := 0
	if e.Stream == "stderr" {
		stream = 1
	}
	v.remember(e.Data)
	data := e.Data
	for {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			break
		}
		if len(v.partial[stream]) > 0 {
			v.keep(stream, data[:i])
			t.endLine(v, stream)
		} else {
			t.line(v, data[:i])
		}
		data = data[i+1:]
		if len(t.out.buf) >= outSize {
			t.out.flush()
		}
	}
	if len(data) > 0 {
		v.keep(stream, data)
	}
}

func (v *stepView) remember(data []byte) {
	if len(data) >= tailSize {
		v.tail = append(v.tail[:0], data[len(data)-tailSize:]...)
		return
	}
	if len(v.tail)+len(data) > 2*tailSize {
		v.tail = append(v.tail[:0], v.tail[len(v.tail)-tailSize:]...)
	}
	v.tail = append(v.tail, data...)
}

func (v *stepView) keep(stream int, data []byte) {
	n := min(len(data), maxLine+1-len(v.partial[stream]))
	v.partial[stream] = append(v.partial[stream], data[:n]...)
	v.skipped[stream] += len(data) - n
}

func (t *Terminal) endLine(v *stepView, stream int) {
	line := v.partial[stream]
	skipped := v.skipped[stream]
	v.partial[stream], v.skipped[stream] = line[:0], 0
	t.cutLine(v, line, len(line)+skipped)
}

func (t *Terminal) line(v *stepView, line []byte) { t.cutLine(v, line, len(line)) }

// cutLine shows a line of which size bytes there were.
func (t *Terminal) cutLine(v *stepView, line []byte, size int) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) <= maxLine && plain(line) {
		t.out.buf = append(t.out.buf, v.prefix...)
		t.out.buf = append(t.out.buf, line...)
		t.out.buf = append(t.out.buf, '\n')
		return
	}
	more := 0
	if len(line) > maxLine {
		line = bytes.TrimRightFunc(line[:maxLine], func(r rune) bool { return r == '\uFFFD' })
		more = size - len(line)
	}
	for part := range bytes.SplitSeq(line, []byte("\r")) {
		t.out.buf = append(t.out.buf, v.prefix...)
		t.out.buf = appendClean(t.out.buf, part, t.opts.Color)
		t.out.buf = append(t.out.buf, '\n')
	}
	if more > 0 {
		t.out.buf = t.out.buf[:len(t.out.buf)-1]
		t.out.buf = fmt.Appendf(t.out.buf, "… (%s more, see the log)\n", Bytes(int64(more)))
	}
}

// finishOutput shows lines that never ended.
func (t *Terminal) finishOutput(v *stepView) {
	for stream := range v.partial {
		if len(v.partial[stream]) > 0 {
			t.endLine(v, stream)
		}
	}
}

// say writes a line of our own under the name of v; nil: of the run.
func (t *Terminal) say(v *stepView, text string) {
	if v != nil {
		t.out.buf = append(t.out.buf, v.prefix...)
	}
	t.out.buf = append(t.out.buf, strings.TrimRight(text, " ")...)
	t.out.buf = append(t.out.buf, '\n')
}

func (t *Terminal) sayDetail(v *stepView, o event.Outcome) {
	if o.Message != "" {
		lines, more := textLines(o.Message, tailLines)
		for _, l := range lines {
			t.say(v, "  "+l)
		}
		if more > 0 {
			t.say(v, t.p.with(dim, fmt.Sprintf("  … %d more lines", more)))
		}
	}
	if o.Hint != "" {
		t.say(v, "  "+t.p.with(cyan, "hint: ")+oneLine(o.Hint, 500))
	}
}

func (t *Terminal) finishRun(e event.Event) {
	keys := slices.SortedFunc(maps.Keys(t.steps), compareSteps)
	for _, key := range keys {
		t.finishOutput(t.steps[key])
	}
	if t.opts.Plain {
		return
	}
	s := t.fold.State()
	t.failures(s)
	t.say(nil, "")
	t.out.buf = append(t.out.buf, stepTable(s, t.p, e.Time)...)
	t.say(nil, "")
	t.say(nil, closing(s, t.p, e.Time))
	if e.Outcome != nil {
		t.sayDetail(nil, *e.Outcome)
	}
	if s.Info.Dir != "" && s.ID != "" {
		t.say(nil, t.p.with(dim, "  record: "+Clean(filepath.Join(journal.RunsDir(s.Info.Dir), s.ID))))
	}
	t.out.flush()
}

func compareSteps(a, b [2]string) int { return slices.Compare(a[:], b[:]) }

// closing is the line a run ends with.
func closing(s journal.RunState, p paint, now time.Time) string {
	sign, sgr := mark(s.Status)
	verb := map[journal.Status]string{journal.Success: "succeeded in", journal.Failure: "failed after", journal.Cancelled: "cancelled after",
		journal.Died: "died after", journal.Running: "running for"}[s.Status]
	if verb == "" {
		verb = string(s.Status) + " after"
	}
	bad := 0
	for _, st := range s.Steps() {
		if st.Status == journal.Failure {
			bad++
		}
	}
	text := fmt.Sprintf("run %s %s %s", Clean(s.ID), verb, Duration(s.Duration(now)))
	if bad > 0 {
		text += fmt.Sprintf(": %d of %s failed", bad, plural(len(s.Steps()), "step"))
	}
	return p.with(sgr, sign+" "+text)
}

// failures shows once more what went wrong: with steps in parallel it has long
// scrolled away.
func (t *Terminal) failures(s journal.RunState) {
	if len(t.fails) == 0 {
		return
	}
	slices.SortStableFunc(t.fails, func(a, b failed) int {
		return cmp.Or(strings.Compare(a.info.File, b.info.File), a.info.Line-b.info.Line)
	})
	t.say(nil, "")
	for _, f := range t.fails {
		at := ""
		if f.info.Line > 0 {
			at = "  " + t.p.with(dim, place(f.info.File, f.info.Line))
		}
		t.say(nil, t.p.with(red, "✗ "+label(f.view.job, f.view.step)+": "+result(journal.Failure, &f.o))+at)
		t.sayDetail(nil, f.o)
		lines, _ := textLines(string(f.view.tail), 1<<10)
		for _, l := range lines[max(len(lines)-tailLines, 0):] {
			if len(f.view.tail) > 0 {
				t.say(nil, t.p.with(dim, "  │ ")+l)
			}
		}
	}
}
