package opencode

import (
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/internal/jsonscan"
)

// Decode returns a decoder for one run of the CLI.
func (r Runtime) Decode(task runtimes.Task) runtimes.Decoder {
	return &decoder{task: task, describe: r.Describe()}
}

// decoder turns `opencode run --format json` records into messages. There is no
// final record: a run has ended well when the last of its steps has, for a
// reason that is the model's. Its tokens and costs are not read: those are the
// gateway's.
type decoder struct {
	task     runtimes.Task
	describe runtimes.Description

	sessionID string
	message   string          // the message that text belongs to
	text      strings.Builder // the last message's text
	did       bool            // it said or did anything
	turns     int
	reason    string // why the last step ended; "" while one is under way
	failure   *failure
	cut       bool // a record was longer than runtimes.MaxLine
}

// failure is an error record.
type failure struct {
	name, message string
	status        int // HTTP; 0: none
}

// Line decodes one record of stdout.
func (d *decoder) Line(line []byte) []event.Message {
	var typ, session string
	var part, failed []byte
	whole, lost := runtimes.Record(line, func(key, value []byte) {
		switch string(key) {
		case "type":
			typ = jsonscan.Text(value)
		case "sessionID":
			session = jsonscan.Text(value)
		case "part":
			part = value
		case "error":
			failed = value
		}
	})
	if !whole {
		d.cut = d.cut || lost != nil
		return lost
	}
	switch typ {
	case "step_start", "text", "reasoning", "tool_use", "step_finish", "error":
		return append(d.started(session), d.record(typ, part, failed)...)
	}
	return nil
}

// started says once which session this is; every record does.
func (d *decoder) started(session string) []event.Message {
	if d.sessionID != "" || !d.describe.ValidSession(session) {
		return nil
	}
	d.sessionID = session
	_, model := choose(d.task)
	return one(event.Message{Kind: event.MessageInit, SessionID: session, Model: model})
}

func (d *decoder) record(typ string, raw, failed []byte) []event.Message {
	switch typ {
	case "step_start":
		d.reason, d.failure = "", nil
		return nil
	case "error":
		d.failure = readFailure(failed)
		return one(event.Message{Kind: event.MessageResult, Text: d.failure.message, IsError: true, SessionID: d.sessionID})
	}
	p := readPart(raw)
	switch typ {
	case "text":
		return d.said(p)
	case "reasoning":
		if p.text != "" {
			return one(event.Message{Kind: event.MessageThinking, Text: p.text})
		}
	case "tool_use":
		return d.used(p)
	case "step_finish":
		d.turns++
		if d.reason = p.reason; d.ended() {
			return one(event.Message{Kind: event.MessageResult, Text: d.text.String(), SessionID: d.sessionID})
		}
	}
	return nil
}

// ended reports whether no further step is to come: after "tool-calls" and
// "unknown" (an answer of nothing) the CLI asks the model again.
func (d *decoder) ended() bool {
	switch d.reason {
	case "", "tool-calls", "unknown":
		return false
	}
	return true
}

func (d *decoder) said(p part) []event.Message {
	if p.text == "" {
		return nil
	}
	d.did = true
	more := p.text
	if p.message == "" || p.message != d.message {
		d.message = p.message
		d.text.Reset()
	} else {
		more = "\n" + more
	}
	room := runtimes.MaxLine - d.text.Len()
	d.text.WriteString(more[:min(len(more), room)])
	return one(event.Message{Kind: event.MessageText, Text: p.text})
}

// used is a tool call that has ended; there is no record of its beginning.
func (d *decoder) used(p part) []event.Message {
	d.did = true
	text := p.output
	if p.status == "error" {
		text = p.failure
	}
	return []event.Message{
		{Kind: event.MessageToolCall, Tool: p.tool, CallID: p.call, Input: jsonscan.Clean(p.input)},
		{Kind: event.MessageToolResult, CallID: p.call, Text: text, IsError: p.status == "error"},
	}
}

// part is a piece of a message. Only what is used is looked at, in place.
type part struct {
	message, text, reason, tool, call string
	status, output, failure           string
	input                             []byte
}

func readPart(raw []byte) part {
	var p part
	jsonscan.Object(raw, func(key, value []byte) {
		switch string(key) {
		case "messageID":
			p.message = jsonscan.Text(value)
		case "text":
			p.text = jsonscan.Text(value)
		case "reason":
			p.reason = jsonscan.Text(value)
		case "tool":
			p.tool = jsonscan.Text(value)
		case "callID":
			p.call = jsonscan.Text(value)
		case "state":
			jsonscan.Object(value, p.state)
		}
	})
	return p
}

func (p *part) state(key, value []byte) {
	switch string(key) {
	case "status":
		p.status = jsonscan.Text(value)
	case "input":
		p.input = value
	case "output":
		p.output = jsonscan.Text(value)
	case "error":
		p.failure = jsonscan.Text(value)
	}
}

func readFailure(raw []byte) *failure {
	f := &failure{}
	jsonscan.Object(raw, func(key, value []byte) {
		switch string(key) {
		case "name":
			f.name = jsonscan.Text(value)
		case "data":
			jsonscan.Object(value, func(key, value []byte) {
				switch string(key) {
				case "message":
					f.message = jsonscan.Text(value)
				case "statusCode":
					f.status = jsonscan.Int(value)
				}
			})
		}
	})
	if f.message == "" {
		f.message = "the agent failed: " + f.name
	}
	return f
}

func one(m event.Message) []event.Message { return []event.Message{m} }
