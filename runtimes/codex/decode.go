package codex

import (
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/internal/jsonscan"
)

// Decode returns a decoder for one run of the CLI.
func (r Runtime) Decode(task runtimes.Task) runtimes.Decoder {
	return &decoder{task: task, describe: r.Describe(), open: map[string]bool{}}
}

// maxOpen bounds the tool calls remembered as begun.
const maxOpen = 10_000

// decoder turns `codex exec --json` records into messages. Its records hold
// tokens (cumulative over a resumed session), which are not read: tokens and
// money are the gateway's.
type decoder struct {
	task     runtimes.Task
	describe runtimes.Description

	sessionID string
	open      map[string]bool // tool calls begun and not ended
	text      string          // the last thing the agent said
	did       bool            // it said or did anything
	turns     int
	last      lastWord
	cut       bool // a record was longer than runtimes.MaxLine
}

// lastWord is how the agent's last turn ended.
type lastWord struct {
	ended  bool
	failed bool
	why    string
}

// Line decodes one record of stdout.
func (d *decoder) Line(line []byte) []event.Message {
	var typ, thread, message string
	var item, failure []byte
	whole, lost := runtimes.Record(line, func(key, value []byte) {
		switch string(key) {
		case "type":
			typ = jsonscan.Text(value)
		case "thread_id":
			thread = jsonscan.Text(value)
		case "message":
			message = jsonscan.Text(value)
		case "item":
			item = value
		case "error":
			failure = value
		}
	})
	if !whole {
		d.cut = d.cut || lost != nil
		return lost
	}
	switch typ {
	case "thread.started":
		return d.started(thread)
	case "turn.started":
		d.last = lastWord{}
	case "item.started", "item.updated", "item.completed":
		return d.item(typ, item)
	case "turn.completed":
		d.turns++
		d.last = lastWord{ended: true}
		return one(event.Message{Kind: event.MessageResult, Text: d.text, SessionID: d.sessionID})
	case "turn.failed":
		d.last = lastWord{ended: true, failed: true, why: vendorWords(field(failure, "message"))}
		return one(event.Message{Kind: event.MessageResult, Text: d.last.why, IsError: true, SessionID: d.sessionID})
	case "error":
		kind := event.MessageWarning
		if strings.HasPrefix(message, "Reconnecting") {
			kind = event.MessageRetry
		}
		return one(event.Message{Kind: kind, Text: vendorWords(message)})
	}
	return nil
}

func (d *decoder) started(thread string) []event.Message {
	if thread == d.sessionID || !d.describe.ValidSession(thread) {
		return nil
	}
	d.sessionID = thread
	return one(event.Message{Kind: event.MessageInit, SessionID: thread, Model: d.task.Config.Model})
}

// item is a thing said or done: begun, changed (todo lists only), ended.
func (d *decoder) item(stage string, raw []byte) []event.Message {
	it := readItem(raw)
	switch it.typ {
	case "":
		return nil
	case "agent_message", "reasoning", "error":
		if stage != "item.completed" || it.text == "" {
			return nil
		}
	}
	switch it.typ {
	case "agent_message":
		d.text, d.did = it.text, true
		return one(event.Message{Kind: event.MessageText, Text: it.text})
	case "reasoning":
		return one(event.Message{Kind: event.MessageThinking, Text: it.text})
	case "error":
		return one(event.Message{Kind: event.MessageWarning, Text: it.text})
	}
	if stage == "item.updated" {
		return nil
	}
	d.did = true
	var out []event.Message
	if !d.open[it.id] {
		out = append(out, it.called())
		if len(d.open) < maxOpen {
			d.open[it.id] = true
		}
	}
	if stage == "item.completed" {
		delete(d.open, it.id)
		out = append(out, it.answered())
	}
	return out
}

// item is one item of a turn. Only what is used is looked at, in place.
type item struct {
	id, typ, text, status, printed string
	server, toolName               string
	raw, command, changes          []byte
	arguments, result, failure     []byte
	query, items, content          []byte
}

func readItem(raw []byte) item {
	it := item{raw: raw}
	jsonscan.Object(raw, func(key, value []byte) {
		switch string(key) {
		case "id":
			it.id = jsonscan.Text(value)
		case "type":
			it.typ = jsonscan.Text(value)
		case "text", "message":
			it.text = jsonscan.Text(value)
		case "status":
			it.status = jsonscan.Text(value)
		case "aggregated_output":
			it.printed = jsonscan.Text(value)
		case "server":
			it.server = jsonscan.Text(value)
		case "tool":
			it.toolName = jsonscan.Text(value)
		case "command":
			it.command = value
		case "changes":
			it.changes = value
		case "arguments":
			it.arguments = value
		case "result":
			it.result = value
		case "error":
			it.failure = value
		case "query":
			it.query = value
		case "items":
			it.items = value
		case "content":
			it.content = value
		}
	})
	return it
}

func (it item) called() event.Message {
	return event.Message{Kind: event.MessageToolCall, Tool: it.tool(), CallID: it.id, Input: it.input()}
}

func (it item) answered() event.Message {
	return event.Message{Kind: event.MessageToolResult, CallID: it.id, Text: it.output(), IsError: it.status == "failed" || it.status == "declined"}
}

func (it item) tool() string {
	switch it.typ {
	case "command_execution":
		return "shell"
	case "file_change":
		return "apply_patch"
	case "mcp_tool_call":
		return "mcp__" + it.server + "__" + it.toolName
	}
	return it.typ
}

// input is what the tool was called with; the whole item where its kind is new.
func (it item) input() []byte {
	named := func(name string, value []byte) []byte {
		return jsonscan.Clean([]byte(`{"` + name + `":` + string(value) + `}`))
	}
	switch it.typ {
	case "command_execution":
		return named("command", it.command)
	case "file_change":
		return named("changes", it.changes)
	case "mcp_tool_call":
		return jsonscan.Clean(it.arguments)
	case "web_search":
		return named("query", it.query)
	case "todo_list":
		return named("items", it.items)
	}
	return jsonscan.Clean(it.raw)
}

func (it item) output() string {
	if it.typ == "mcp_tool_call" {
		return it.mcpOutput()
	}
	if it.printed == "" {
		return it.status
	}
	return it.printed
}

func (it item) mcpOutput() string {
	if text := field(it.failure, "message"); text != "" {
		return text
	}
	var parts []string
	jsonscan.Object(it.result, func(key, value []byte) {
		if string(key) != "content" {
			return
		}
		jsonscan.Array(value, func(block []byte) {
			if text := field(block, "text"); text != "" {
				parts = append(parts, text)
			} else if typ := field(block, "type"); typ != "" {
				parts = append(parts, "["+typ+"]")
			}
		})
	})
	return strings.Join(parts, "\n")
}

// field is a text field of an object; "" where there is none.
func field(object []byte, name string) (text string) {
	jsonscan.Object(object, func(key, value []byte) {
		if string(key) == name {
			text = jsonscan.Text(value)
		}
	})
	return text
}

// vendorWords takes the vendor's message out of the error body that the CLI
// passes on as it came.
func vendorWords(message string) string {
	var inner string
	jsonscan.Object([]byte(strings.TrimSpace(message)), func(key, value []byte) {
		if string(key) == "error" {
			inner = field(value, "message")
		}
	})
	if inner != "" {
		return inner
	}
	return strings.TrimSpace(message)
}

func one(m event.Message) []event.Message { return []event.Message{m} }
