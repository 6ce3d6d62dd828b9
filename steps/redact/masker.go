package redact

import (
	"strings"
	"sync"
	"sync/atomic"
)

// Mask stands where a secret stood.
const Mask = "***"

// minLine is the length in bytes from which a single line of a secret of several
// lines is a secret too: the braces of a JSON key are none.
const minLine = 3

// Masker knows the secrets of a run. It is safe for concurrent use; a secret
// counts from the moment Add returns. The zero value is not ready: use New.
type Masker struct {
	mu       sync.Mutex
	known    map[string]bool // forms
	patterns []string
	// current is nil when a secret has been added since it was built.
	current atomic.Pointer[automaton]
}

// New returns a Masker that knows no secret.
func New() *Masker {
	m := &Masker{known: map[string]bool{}}
	m.current.Store(newAutomaton(nil))
	return m
}

// Add makes secret one, and with it its lines, and the encoded forms of both.
// Blanks around it are not part of it; of nothing but blanks nothing is masked.
func (m *Masker) Add(secret string) {
	secret = strings.TrimSpace(secret)
	if secret == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	added := m.add(secret)
	lines := strings.FieldsFunc(secret, func(r rune) bool { return r == '\r' || r == '\n' })
	if len(lines) > 1 {
		for _, line := range lines {
			if line = strings.TrimSpace(line); len(line) >= minLine {
				added = m.add(line) || added
			}
		}
	}
	if added {
		m.current.Store(nil)
	}
}

func (m *Masker) add(secret string) (added bool) {
	if m.known[secret] {
		return false
	}
	for _, form := range forms(secret) {
		if !m.known[form] {
			m.known[form] = true
			m.patterns = append(m.patterns, form)
			added = true
		}
	}
	return added
}

// automaton builds what finds the secrets when it is first needed, so that many
// secrets added in a row cost one building.
func (m *Masker) automaton() *automaton {
	if a := m.current.Load(); a != nil {
		return a
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.current.Load(); a != nil {
		return a
	}
	a := newAutomaton(m.patterns)
	m.current.Store(a)
	return a
}

// Contains reports whether s holds a secret in any form.
func (m *Masker) Contains(s string) bool {
	var found []span
	find(m.automaton(), 0, s, 0, &found)
	return len(found) > 0
}

// String returns s with each secret masked; secrets that overlap or touch give
// one mask. A string without secrets comes back as it is.
func (m *Masker) String(s string) string {
	var found []span
	find(m.automaton(), 0, s, 0, &found)
	if len(found) == 0 {
		return s
	}
	var out strings.Builder
	at := 0
	for _, f := range found {
		out.WriteString(s[at:f.start])
		out.WriteString(Mask)
		at = f.end
	}
	out.WriteString(s[at:])
	return out.String()
}

// Bytes is String for bytes. What it returns is p itself where there is nothing
// to mask, and does not share memory with p otherwise.
func (m *Masker) Bytes(p []byte) []byte {
	var found []span
	find(m.automaton(), 0, p, 0, &found)
	if len(found) == 0 {
		return p
	}
	out := make([]byte, 0, len(p))
	at := 0
	for _, f := range found {
		out = append(append(out, p[at:f.start]...), Mask...)
		at = f.end
	}
	return append(out, p[at:]...)
}
