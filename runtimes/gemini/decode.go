package gemini

import (
	"bytes"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/internal/jsonscan"
)

// maxPending is how much text of the model is held back for the end of its
// line, in bytes.
const maxPending = 256 << 10

// Decode returns a decoder for one run of the CLI.
func (Runtime) Decode(task runtimes.Task) runtimes.Decoder { return &decoder{task: task} }

// decoder turns stream-json records into messages. What it counts is for
// people; tokens and money are the gateway's.
type decoder struct {
	task      runtimes.Task
	sessionID string
	turns     int
	answered  bool            // a tool's result came: what follows is a further turn
	did       bool            // it said or did anything
	answer    strings.Builder // the text since the last tool call
	pending   []byte          // of it, what was not given on yet
	said      string          // by the last error record
	last      *result
	cut       bool // a record was longer than runtimes.MaxLine
}

// result is the CLI's last record. Its counts are not read: the agent could
// have written them itself.
type result struct {
	ok               bool
	errType, message string
}

// record is one line. Only what is used is looked at, in place.
type record struct {
	typ, role, content, severity, message string
	session, model, tool, id, status      string
	parameters, output, failure           []byte
}

// Line decodes one record of stdout.
func (d *decoder) Line(line []byte) []event.Message {
	var rec record
	if whole, lost := runtimes.Record(line, rec.field); !whole {
		d.cut = d.cut || lost != nil
		return lost
	}
	switch rec.typ {
	case "init":
		d.sessionID = rec.session
		return []event.Message{{Kind: event.MessageInit, SessionID: rec.session, Model: rec.model}}
	case "message":
		if rec.role != "assistant" {
			return nil // our own prompt
		}
		return d.text(rec.content)
	case "tool_use":
		return d.toolCall(rec)
	case "tool_result":
		return d.toolResult(rec)
	case "error":
		d.said = rec.message
		return append(d.flush(), event.Message{Kind: event.MessageWarning, Text: rec.message})
	case "result":
		return d.result(rec)
	}
	return nil
}

func (r *record) field(key, value []byte) {
	switch string(key) {
	case "type":
		r.typ = jsonscan.Text(value)
	case "role":
		r.role = jsonscan.Text(value)
	case "content":
		r.content = jsonscan.Text(value)
	case "severity":
		r.severity = jsonscan.Text(value)
	case "message":
		r.message = jsonscan.Text(value)
	case "session_id":
		r.session = jsonscan.Text(value)
	case "model":
		r.model = jsonscan.Text(value)
	case "tool_name":
		r.tool = jsonscan.Text(value)
	case "tool_id":
		r.id = jsonscan.Text(value)
	case "status":
		r.status = jsonscan.Text(value)
	case "parameters":
		r.parameters = value
	case "output":
		r.output = value
	case "error":
		r.failure = value
	}
}

// text takes a piece of the model's answer. Pieces end anywhere: whole lines
// are given on, the rest waits for its end.
func (d *decoder) text(piece string) []event.Message {
	d.speak()
	if d.answer.Len() < runtimes.MaxLine {
		d.answer.WriteString(piece)
	}
	d.pending = append(d.pending, piece...)
	end := bytes.LastIndexByte(d.pending, '\n')
	if len(d.pending) > maxPending {
		end = len(d.pending) - 1
	}
	if end < 0 {
		return nil
	}
	whole := strings.TrimRight(string(d.pending[:end+1]), "\n")
	d.pending = append(d.pending[:0], d.pending[end+1:]...)
	if whole == "" {
		return nil
	}
	return []event.Message{{Kind: event.MessageText, Text: strings.ToValidUTF8(whole, "\uFFFD")}}
}

// flush gives on what waits for the end of its line.
func (d *decoder) flush() []event.Message {
	if len(d.pending) == 0 {
		return nil
	}
	m := event.Message{Kind: event.MessageText, Text: strings.ToValidUTF8(string(d.pending), "\uFFFD")}
	d.pending = d.pending[:0]
	return []event.Message{m}
}

// speak counts the turns of the model: one until its tools have answered.
func (d *decoder) speak() {
	d.did = true
	if d.turns == 0 || d.answered {
		d.turns++
		d.answered = false
	}
}

func (d *decoder) toolCall(rec record) []event.Message {
	d.speak()
	d.answer.Reset()
	return append(d.flush(), event.Message{Kind: event.MessageToolCall, Tool: rec.tool, CallID: rec.id, Input: jsonscan.Clean(rec.parameters)})
}

func (d *decoder) toolResult(rec record) []event.Message {
	d.answered = true
	m := event.Message{Kind: event.MessageToolResult, CallID: rec.id, IsError: rec.status != "success", Text: jsonscan.Text(rec.output)}
	if m.IsError && m.Text == "" {
		_, m.Text = failure(rec.failure)
	}
	return append(d.flush(), m)
}

func (d *decoder) result(rec record) []event.Message {
	d.last = &result{ok: rec.status == "success"}
	d.last.errType, d.last.message = failure(rec.failure)
	m := event.Message{Kind: event.MessageResult, Text: d.answer.String(), IsError: !d.last.ok, SessionID: d.sessionID}
	if m.IsError && d.last.message != "" {
		m.Text = d.last.message
	}
	return append(d.flush(), m)
}

// failure reads {"type": …, "message": …}.
func failure(raw []byte) (typ, message string) {
	jsonscan.Object(raw, func(key, value []byte) {
		switch string(key) {
		case "type":
			typ = jsonscan.Text(value)
		case "message":
			message = jsonscan.Text(value)
		}
	})
	return typ, message
}
