package redact

// Stream masks a stream of bytes. It holds back only what may be the beginning
// of a secret, so that everything else is seen at once. Not safe for concurrent
// use.
type Stream struct {
	masker *Masker
	out    func([]byte)

	automaton *automaton
	state     int32
	held      []byte // the end of what was written, not yet given out
	base      int    // offset of held in the stream
	found     []span // secrets in held
	masked    int    // where the last mask that was given out ends
	buffer    []byte
}

// NewStream returns a Stream that gives what is masked to out, which must not
// retain the bytes.
func NewStream(m *Masker, out func([]byte)) *Stream {
	return &Stream{masker: m, out: out, masked: -1}
}

// Write masks p; it never fails. Secrets that were added to the Masker since the
// last Write count, also for what is held back.
func (s *Stream) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.refresh()
	text, from := p, s.base
	if len(s.held) > 0 {
		from += len(s.held)
		s.held = append(s.held, p...)
		text = s.held
	}
	s.state = find(s.automaton, s.state, p, from, &s.found)
	safe := s.base + len(text) - int(s.automaton.nodes[s.state].depth)
	s.emit(text, safe)
	s.held = append(s.held[:0], text[safe-s.base:]...)
	s.base = safe
	return len(p), nil
}

// Flush gives out what is held back: no more will come that could make it a
// secret.
func (s *Stream) Flush() {
	if len(s.held) > 0 {
		s.refresh()
		s.emit(s.held, s.base+len(s.held))
	}
	s.base += len(s.held)
	s.held, s.state, s.found = s.held[:0], 0, s.found[:0]
}

// refresh takes the newest automaton and reads again what is held back.
func (s *Stream) refresh() {
	a := s.masker.automaton()
	if a == s.automaton {
		return
	}
	s.automaton, s.found = a, s.found[:0]
	s.state = find(a, 0, s.held, s.base, &s.found)
}

// emit gives out text, which begins at base, up to the offset safe: no secret
// that is still to be found begins before it.
func (s *Stream) emit(text []byte, safe int) {
	if len(s.found) == 0 && s.masked <= s.base {
		if safe > s.base {
			s.out(text[:safe-s.base])
		}
		return
	}
	out := s.buffer[:0]
	at := max(s.base, s.masked)
	done := 0
	for _, f := range s.found {
		if f.start > safe {
			break
		}
		done++
		if f.start > s.masked {
			out = append(append(out, text[at-s.base:f.start-s.base]...), Mask...)
		}
		s.masked = max(s.masked, f.end)
		at = max(at, s.masked)
	}
	if at < safe {
		out = append(out, text[at-s.base:safe-s.base]...)
	}
	s.found = append(s.found[:0], s.found[done:]...)
	s.buffer = out
	if len(out) > 0 {
		s.out(out)
	}
}
