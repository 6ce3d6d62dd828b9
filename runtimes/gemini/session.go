package gemini

import (
	"path"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/internal/jsonscan"
	"github.com/herd-runner/herd-runner/sandbox"
)

// maxTold bounds the records and tool calls remembered as told.
const maxTold = 100_000

// SessionFiles are the conversations: the CLI names them for the time and the
// first letters of the session's id.
func (Runtime) SessionFiles(task runtimes.Task) []sandbox.Follow {
	return []sandbox.Follow{{Root: task.Box.Home, Pattern: path.Join(ConfigHome(""), ".gemini/tmp/*/chats/session-*.jsonl")}}
}

// DecodeSession returns a decoder of the conversations.
func (Runtime) DecodeSession(runtimes.Task) runtimes.SessionDecoder {
	return &sessionDecoder{told: map[string]bool{}, others: map[int]bool{}}
}

// sessionDecoder reads conversations. A record of the model is written again
// when it has more to say: each piece of it is told once.
type sessionDecoder struct {
	told   map[string]bool
	others map[int]bool // files of sub-agents
}

// Line decodes one record.
func (d *sessionDecoder) Line(file runtimes.SessionFile, line []byte) []event.Message {
	var typ, id, kind string
	var content, calls []byte
	if whole, _ := runtimes.Record(line, func(key, value []byte) {
		switch string(key) {
		case "type":
			typ = jsonscan.Text(value)
		case "id":
			id = jsonscan.Text(value)
		case "kind":
			kind = jsonscan.Text(value)
		case "content":
			content = value
		case "toolCalls":
			calls = value
		}
	}); !whole {
		return nil
	}
	if kind != "" && kind != "main" {
		d.others[file.ID] = true
	}
	if typ != "gemini" || d.others[file.ID] {
		return nil
	}
	var out []event.Message
	if text := jsonscan.Text(content); text != "" && d.first("text "+id) {
		out = append(out, event.Message{Kind: event.MessageText, Text: text})
	}
	jsonscan.Array(calls, func(call []byte) { out = append(out, d.call(call)...) })
	return out
}

// call is a tool call, and its result where it has one.
func (d *sessionDecoder) call(raw []byte) []event.Message {
	var id, name, status, shown string
	var args []byte
	jsonscan.Object(raw, func(key, value []byte) {
		switch string(key) {
		case "id":
			id = jsonscan.Text(value)
		case "name":
			name = jsonscan.Text(value)
		case "status":
			status = jsonscan.Text(value)
		case "args":
			args = value
		case "resultDisplay":
			shown = jsonscan.Text(value)
		}
	})
	var out []event.Message
	if d.first("call " + id) {
		out = append(out, event.Message{Kind: event.MessageToolCall, Tool: name, CallID: id, Input: jsonscan.Clean(args)})
	}
	switch status {
	case "success", "error", "cancelled":
		if d.first("result " + id) {
			out = append(out, event.Message{Kind: event.MessageToolResult, CallID: id, Text: shown, IsError: status != "success"})
		}
	}
	return out
}

func (d *sessionDecoder) first(what string) bool {
	if d.told[what] || len(d.told) >= maxTold {
		return false
	}
	d.told[what] = true
	return true
}

// Key: a call has the same id in both.
func (*sessionDecoder) Key(m event.Message) string { return m.CallID }
