package gateway

import (
	"bytes"
	"encoding/json"
)

// Bounds of what a meter holds of an answer, in bytes.
const (
	maxEventLine = 1 << 20  // longer stream lines are model text, not usage
	maxPlainBody = 16 << 20 // longer unstreamed answers are not counted
	maxErrorBody = 64 << 10
	maxTokens    = 1 << 40 // per counter: no model answers more
)

// tokens is what one answer consumed.
type tokens struct {
	input, output, cacheRead, cacheWrite int64
	cacheWrite1h                         int64 // part of cacheWrite
}

func (t tokens) total() int64 { return t.input + t.output + t.cacheRead + t.cacheWrite }

// meter reads an Anthropic answer as it passes by. It trusts nothing: what it
// cannot read it leaves out, and it never holds more than the bounds above.
// Not safe for concurrent use.
type meter struct {
	stream bool // server-sent events, else one JSON document
	limit  int  // of buf

	buf     []byte // the unfinished line, or the document
	over    bool   // buf outgrew limit
	tokens  tokens
	counted bool   // some usage was seen
	stop    string // the last stop reason
	kind    string // of an error
	message string // of an error
	ended   bool   // message_stop was seen, or the document was whole
}

func newMeter(status int, contentType string) *meter {
	m := &meter{limit: maxPlainBody}
	switch {
	case status >= 400:
		m.limit = maxErrorBody
	case isEventStream(contentType):
		m.stream, m.limit = true, maxEventLine
	}
	return m
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
		m.over, m.buf = true, m.buf[:0]
		return
	}
	m.buf = append(m.buf, p...)
}

// close reads what is only complete at the end of the answer.
func (m *meter) close() {
	if !m.stream && !m.over {
		m.document(m.buf)
	}
	m.buf = nil
}

// wireUsage is `usage` in Anthropic's words. Pointers: absent is not zero.
type wireUsage struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	Creation   struct {
		OneHour *int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
}

type wireError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

type wireEvent struct {
	Type    string `json:"type"`
	Message struct {
		Usage *wireUsage `json:"usage"`
	} `json:"message"`
	Delta struct {
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
	Usage      *wireUsage `json:"usage"`
	StopReason string     `json:"stop_reason"`
	Error      *wireError `json:"error"`
}

// line reads one line of a stream. Only few events matter, and the check of
// their names in the raw bytes spares the rest a parse; the parse decides, so
// that model text which quotes an event changes nothing.
func (m *meter) line(line []byte) {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok || !mentionsCounts(data) {
		return
	}
	var e wireEvent
	if json.Unmarshal(data, &e) != nil {
		return
	}
	switch e.Type {
	case "message_start":
		m.add(e.Message.Usage)
	case "message_delta":
		m.add(e.Usage)
		if e.Delta.StopReason != "" {
			m.stop = e.Delta.StopReason
		}
	case "message_stop":
		m.ended = true
	case "error":
		m.fail(e.Error)
	}
}

func mentionsCounts(data []byte) bool {
	return bytes.Contains(data, []byte(`message_`)) || bytes.Contains(data, []byte(`error`))
}

func (m *meter) document(doc []byte) {
	var e wireEvent
	if json.Unmarshal(doc, &e) != nil {
		return
	}
	m.ended = true
	m.add(e.Usage)
	m.stop = e.StopReason
	if e.Type == "error" {
		m.fail(e.Error)
	}
}

func (m *meter) fail(e *wireError) {
	if e != nil {
		m.kind, m.message = e.Type, e.Message
	}
}

// add takes over what u says. Counts in a stream are cumulative: later ones
// replace earlier ones, but never lower them.
func (m *meter) add(u *wireUsage) {
	if u == nil {
		return
	}
	m.counted = true
	raise(&m.tokens.input, u.Input)
	raise(&m.tokens.output, u.Output)
	raise(&m.tokens.cacheRead, u.CacheRead)
	raise(&m.tokens.cacheWrite, u.CacheWrite)
	raise(&m.tokens.cacheWrite1h, u.Creation.OneHour)
	m.tokens.cacheWrite1h = min(m.tokens.cacheWrite1h, m.tokens.cacheWrite)
}

func raise(to *int64, n *int64) {
	if n != nil && *n > *to {
		*to = min(*n, maxTokens)
	}
}
