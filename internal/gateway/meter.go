package gateway

import (
	"bytes"
	"time"
)

// Bounds of what a meter holds of an answer, in bytes.
const (
	maxEventLine = 8 << 20  // the last event of some APIs repeats the whole answer
	maxPlainBody = 16 << 20 // longer unstreamed answers are not counted
	maxErrorBody = 64 << 10
	maxTokens    = 1 << 40 // per counter: no model answers more
)

// tokens is what one answer consumed. The counters add up: none is part of
// another but cacheWrite1h of cacheWrite, and reasoning of output.
type tokens struct {
	input, output, cacheRead, cacheWrite int64
	cacheWrite1h                         int64
	reasoning                            int64
}

func (t tokens) total() int64 { return t.input + t.output + t.cacheRead + t.cacheWrite }

// meter reads an answer as it passes by. It trusts nothing: what it cannot read
// it leaves out, and it never holds more than the bounds above. Not safe for
// concurrent use.
type meter struct {
	dialect *dialect
	stream  bool // server-sent events, else one JSON document
	limit   int  // of buf

	buf     []byte // the unfinished line, or the document
	over    bool   // buf outgrew limit
	tokens  tokens
	counted bool          // some usage was seen
	pieces  int64         // events that go on with the answer; each is a token at least
	stop    string        // the last stop reason
	kind    string        // of an error
	message string        // of an error
	reason  string        // of an error that says what to do whatever its status is
	retryIn time.Duration // of an error: when a limit ends; 0: it does not say
	ended   bool          // the last event was seen, or the document was whole
}

func (d *dialect) newMeter(status int, contentType string) *meter {
	m := &meter{dialect: d, limit: maxPlainBody}
	switch {
	case status >= 400:
		m.limit = maxErrorBody
	case isEventStream(contentType):
		m.stream, m.limit = true, maxEventLine
	}
	return m
}

// Reasons that an error of the vendor's gives.
const (
	reasonAuth     = "auth"      // the credential is not good
	reasonNoCredit = "no_credit" // the account can not pay
)

// add takes over counts, of which the largest are the last.
func (m *meter) add(t tokens) {
	for _, n := range []*int64{&t.input, &t.output, &t.cacheRead, &t.cacheWrite, &t.reasoning} {
		*n = min(max(*n, 0), maxTokens)
	}
	t.reasoning = min(t.reasoning, t.output)
	if m.counted = true; t.total() >= m.tokens.total() {
		m.tokens = t
	}
}

// untold says that an answer came, or began to, and did not say what it used.
func (m *meter) untold() bool {
	return m.stream && (!m.counted && m.pieces > 0 || m.counted && !m.ended)
}

// estimate completes the count of such an answer to a request of so many bytes.
func (m *meter) estimate(request int) tokens {
	t := m.tokens
	if !m.counted {
		t.input = int64(request/bytesPerToken) + 1
	}
	t.output = min(max(t.output, m.pieces), maxTokens)
	return t
}

// why is the reason of an answer with status; empty where it is well or its
// status says it all.
func (m *meter) why(status int) string {
	switch {
	case m.reason != "":
		return m.reason
	case m.kind != "" && status < 400:
		return "stream_error"
	}
	return ""
}

func (m *meter) write(p []byte) {
	if !m.stream {
		m.keep(p)
		return
	}
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			m.keep(p)
			return
		}
		if len(m.buf) == 0 && !m.over {
			m.line(p[:i])
		} else {
			m.keep(p[:i])
			if !m.over {
				m.line(m.buf)
			}
		}
		m.buf, m.over = m.buf[:0], false
		p = p[i+1:]
	}
}

func (m *meter) keep(p []byte) {
	if m.over || len(m.buf)+len(p) > m.limit {
		m.over, m.buf = true, nil
		return
	}
	m.buf = append(m.buf, p...)
}

func (m *meter) line(line []byte) {
	if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
		if mentions(data, "delta") {
			m.pieces++
		}
		m.dialect.event(m, data)
	}
}

// close reads what is only complete at the end of the answer.
func (m *meter) close() {
	if !m.stream && !m.over {
		m.dialect.document(m, m.buf)
	}
	m.buf = nil
}
