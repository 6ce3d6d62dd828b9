// Package session joins the two sources of what an agent says: its output, and
// the files that it writes its conversation to. The output is told at once. What
// the files say waits for the output to say it too, and is told where the output
// does not: it has stalled, or was lost when the agent was killed. It stands
// between the decoders of a runtime and the event stream.
package session

import (
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
)

const (
	// maxHeld bounds the half lines of all files and the messages that wait, in
	// bytes each.
	maxHeld = 32 << 20
	// maxUnits bounds what is remembered of both sources; beyond it the files
	// are not listened to any more.
	maxUnits = 1 << 18
)

// Merge tells every message once, whichever source it came from first. The
// sources need not be cut into messages alike: text is compared line by line,
// tool calls and their results by SessionDecoder.Key. What both say n times is
// told n times. Not safe for concurrent use.
type Merge struct {
	dec  runtimes.SessionDecoder
	now  func() time.Time
	seed maphash.Seed

	heard counts // from the output
	told  counts
	files map[int]*source

	waiting []held
	size    int // bytes of waiting
	partial int // bytes of half lines
	deaf    bool
}

// counts are how often each line, call or result was said, by its hash.
type counts map[uint64]int

// unit is one line of text, call or result, said for the nth time.
type unit struct {
	hash uint64
	nth  int
}

// say counts what is said once more.
func (c counts) say(hashes []uint64) []unit {
	units := make([]unit, len(hashes))
	for i, h := range hashes {
		c[h]++
		units[i] = unit{h, c[h]}
	}
	return units
}

// source is one followed file.
type source struct {
	lines Lines
	file  runtimes.SessionFile
	said  counts // as the file stands
}

type held struct {
	message event.Message
	units   []unit
	since   time.Time
}

// NewMerge joins output with the files that dec reads.
func NewMerge(dec runtimes.SessionDecoder, now func() time.Time) *Merge {
	return &Merge{
		dec: dec, now: now, seed: maphash.MakeSeed(),
		heard: counts{}, told: counts{}, files: map[int]*source{},
	}
}

// Output takes messages of the agent's output and gives those to tell: all but
// what was told from the files already.
func (m *Merge) Output(messages []event.Message) []event.Message {
	if m.deaf {
		return messages
	}
	out := messages[:0:0]
	for _, msg := range messages {
		units := m.heard.say(m.hashes(msg))
		if len(units) == 0 {
			out = append(out, msg)
		} else if msg, ok := m.tell(msg, units); ok {
			out = append(out, msg)
		}
	}
	m.forget()
	if len(m.told) > maxUnits {
		m.giveUp()
	}
	return out
}

// Followed takes a piece of a followed file.
func (m *Merge) Followed(f sandbox.Followed) {
	if f.Cut || m.deaf {
		return
	}
	s := m.files[f.File]
	if s == nil {
		s = &source{file: runtimes.SessionFile{Of: f.Of, ID: f.File}, said: counts{}}
		s.lines.Line = func(line []byte) { m.line(s, line) }
		m.files[f.File] = s
	}
	if f.Fresh {
		m.partial -= len(s.lines.buf)
		s.lines.drop()
		s.said = counts{}
	}
	before := len(s.lines.buf)
	s.lines.Max = min(runtimes.MaxLine, before+maxHeld-m.partial)
	_, _ = s.lines.Write(f.Data)
	m.partial += len(s.lines.buf) - before
}

func (m *Merge) line(s *source, line []byte) {
	for _, msg := range m.dec.Line(s.file, line) {
		units := s.said.say(m.hashes(msg))
		if m.deaf || !m.fresh(units) {
			continue
		}
		if m.size += weight(msg); m.size > maxHeld || len(s.said) > maxUnits {
			m.giveUp() // it says more than anybody will read
			return
		}
		m.waiting = append(m.waiting, held{msg, units, m.now()})
	}
}

// giveUp goes on with the output alone.
func (m *Merge) giveUp() {
	m.deaf = true
	m.waiting, m.files, m.heard, m.told = nil, nil, nil, nil
}

// Overdue gives the messages of the files that have waited for the output for so
// long, and when the next one will have; the zero time where none waits.
func (m *Merge) Overdue(patience time.Duration) (out []event.Message, next time.Time) {
	m.forget()
	for len(m.waiting) > 0 {
		due := m.waiting[0].since.Add(patience)
		if m.now().Before(due) {
			return out, due
		}
		out = append(out, m.next()...)
	}
	return out, time.Time{}
}

// Rest gives what only the files have said. It is called when the process has
// ended and both sources are read.
func (m *Merge) Rest() (out []event.Message) {
	for len(m.waiting) > 0 {
		out = append(out, m.next()...)
	}
	return out
}

// next takes the first waiting message, as far as it is to be told.
func (m *Merge) next() []event.Message {
	w := m.waiting[0]
	m.waiting, m.size = m.waiting[1:], m.size-weight(w.message)
	if msg, ok := m.tell(w.message, w.units); ok {
		return []event.Message{msg}
	}
	return nil
}

// forget lets go the first messages that wait for nothing any more.
func (m *Merge) forget() {
	for len(m.waiting) > 0 && !m.fresh(m.waiting[0].units) {
		m.size -= weight(m.waiting[0].message)
		m.waiting = m.waiting[1:]
	}
}

// fresh says whether one of the units was not told yet.
func (m *Merge) fresh(units []unit) bool {
	return slices.ContainsFunc(units, func(u unit) bool { return u.nth > m.told[u.hash] })
}

// tell counts a message as told and gives what of it was not: the message, some
// of its lines, or nothing (false).
func (m *Merge) tell(msg event.Message, units []unit) (event.Message, bool) {
	fresh := make([]bool, len(units))
	told := 0
	for i, u := range units {
		if u.nth <= m.told[u.hash] {
			told++
			continue
		}
		fresh[i], m.told[u.hash] = true, u.nth
	}
	if told == 0 || told == len(units) {
		return msg, told == 0
	}
	var lines []string
	i := 0
	for line := range strings.Lines(msg.Text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if fresh[i] {
			lines = append(lines, strings.TrimRight(line, "\r\n"))
		}
		i++
	}
	msg.Text = strings.Join(lines, "\n")
	return msg, true
}

// hashes are of what a message says, one for each line of text; none for what is not
// compared.
func (m *Merge) hashes(msg event.Message) []uint64 {
	var all []uint64
	switch msg.Kind {
	case event.MessageText, event.MessageThinking:
		for line := range strings.Lines(msg.Text) {
			if line = strings.TrimSpace(line); line != "" {
				all = append(all, m.hash(msg.Kind, line))
			}
		}
	case event.MessageToolCall, event.MessageToolResult:
		if key := m.dec.Key(msg); key != "" {
			all = append(all, m.hash(msg.Kind, key))
		}
	}
	return all
}

func (m *Merge) hash(kind event.MessageKind, text string) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	_, _ = h.WriteString(string(kind))
	_ = h.WriteByte(0)
	_, _ = h.WriteString(text)
	return h.Sum64()
}

func weight(msg event.Message) int { return len(msg.Text) + len(msg.Input) + 256 }
