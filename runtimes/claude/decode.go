package claude

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/internal/jsonscan"
)

// Decode returns a decoder for one run of the CLI.
func (Runtime) Decode(task runtimes.Task) runtimes.Decoder {
	return &decoder{task: task}
}

// decoder turns stream-json records into messages. What it counts is for
// people; tokens and money are the gateway's.
type decoder struct {
	task runtimes.Task

	sessionID string
	last      *result // a run has several results when background tasks end late
	turns     int
	did       bool // it said or did anything
	cut       bool // a record was longer than runtimes.MaxLine
	denied    int  // permissions refused, by records of their own
}

// record is one line. Only what is used is looked at, in place.
type record struct {
	typ, subtype, parent, session string
	message                       []byte
	line                          []byte
}

// Line decodes one record of stdout.
func (d *decoder) Line(line []byte) []event.Message {
	rec := record{line: line}
	whole, lost := runtimes.Record(line, func(key, value []byte) {
		switch string(key) {
		case "type":
			rec.typ = jsonscan.Text(value)
		case "subtype":
			rec.subtype = jsonscan.Text(value)
		case "parent_tool_use_id":
			rec.parent = jsonscan.Text(value)
		case "session_id":
			rec.session = jsonscan.Text(value)
		case "message":
			rec.message = value
		}
	})
	if !whole {
		d.cut = d.cut || lost != nil
		return lost
	}
	switch rec.typ {
	case "system":
		return d.system(rec)
	case "assistant":
		return d.assistant(rec)
	case "user":
		return d.user(rec)
	case "result":
		return d.result(rec)
	case "rate_limit_event":
		return d.rateLimit(rec)
	}
	return nil
}

func (d *decoder) assistant(rec record) []event.Message {
	var content []byte
	synthetic := false
	jsonscan.Object(rec.message, func(key, value []byte) {
		switch string(key) {
		case "content":
			content = value
		case "model":
			synthetic = string(value) == `"<synthetic>"`
		}
	})
	var out []event.Message
	jsonscan.Array(content, func(value []byte) {
		b := readBlock(value)
		m := event.Message{Parent: rec.parent}
		switch {
		case b.typ == "text":
			m.Kind, m.Text = event.MessageText, b.text
			if synthetic {
				m.Kind = event.MessageWarning // the CLI speaks, not the model
			}
		case b.typ == "thinking":
			m.Kind, m.Text = event.MessageThinking, b.thinking
		case strings.HasSuffix(b.typ, "tool_use"):
			m.Kind, m.Tool, m.CallID, m.Input = event.MessageToolCall, b.name, b.id, jsonscan.Clean(b.input)
		case strings.HasSuffix(b.typ, "tool_result"):
			m = toolResult(b, rec.parent)
		default:
			return
		}
		if m.Text != "" || m.Kind == event.MessageToolCall || m.Kind == event.MessageToolResult {
			d.did = d.did || m.Kind == event.MessageText || m.Kind == event.MessageToolCall
			out = append(out, m)
		}
	})
	return out
}

func (d *decoder) user(rec record) []event.Message {
	var content []byte
	jsonscan.Object(rec.message, func(key, value []byte) {
		if string(key) == "content" {
			content = value
		}
	})
	var out []event.Message
	jsonscan.Array(content, func(value []byte) {
		// Text is a prompt (ours, or a sub-agent's, which its call shows).
		if b := readBlock(value); strings.HasSuffix(b.typ, "tool_result") {
			out = append(out, toolResult(b, rec.parent))
		}
	})
	return out
}

// block is one content block of a message.
type block struct {
	typ, text, thinking, name, id, callID string
	input, content                        []byte
	isError                               bool
}

func readBlock(raw []byte) block {
	var b block
	jsonscan.Object(raw, func(key, value []byte) {
		switch string(key) {
		case "type":
			b.typ = jsonscan.Text(value)
		case "text":
			b.text = jsonscan.Text(value)
		case "thinking":
			b.thinking = jsonscan.Text(value)
		case "name":
			b.name = jsonscan.Text(value)
		case "id":
			b.id = jsonscan.Text(value)
		case "tool_use_id":
			b.callID = jsonscan.Text(value)
		case "input":
			b.input = value
		case "content":
			b.content = value
		case "is_error":
			b.isError = string(value) == "true"
		}
	})
	return b
}

func toolResult(b block, parent string) event.Message {
	m := event.Message{Kind: event.MessageToolResult, CallID: b.callID, IsError: b.isError, Parent: parent}
	if len(b.content) > 0 && b.content[0] == '"' {
		m.Text = jsonscan.Text(b.content)
		return m
	}
	var parts []string
	jsonscan.Array(b.content, func(value []byte) {
		inner := readBlock(value)
		switch {
		case inner.typ == "text":
			parts = append(parts, inner.text)
		case inner.typ != "":
			parts = append(parts, "["+inner.typ+"]")
		}
	})
	m.Text = strings.Join(parts, "\n")
	return m
}

func (d *decoder) system(rec record) []event.Message {
	if rec.subtype == "init" {
		return d.init(rec)
	}
	var s struct {
		Attempt      int     `json:"attempt"`
		MaxRetries   int     `json:"max_retries"`
		RetryDelayMS float64 `json:"retry_delay_ms"`
		ErrorStatus  int     `json:"error_status"`
		Error        string  `json:"error"`
		ToolName     string  `json:"tool_name"`
		Message      string  `json:"message"`
		Content      string  `json:"content"`
	}
	warning := func(text string) []event.Message {
		return one(event.Message{Kind: event.MessageWarning, Text: text, Parent: rec.parent})
	}
	switch rec.subtype {
	case "api_retry", "model_fallback", "permission_denied", "informational":
		if json.Unmarshal(rec.line, &s) != nil {
			return nil
		}
	}
	switch rec.subtype {
	case "api_retry":
		why := s.Error
		if s.ErrorStatus != 0 {
			why = strings.TrimSuffix(fmt.Sprintf("HTTP %d %s", s.ErrorStatus, s.Error), " ")
		}
		wait := time.Duration(s.RetryDelayMS) * time.Millisecond
		return one(event.Message{Kind: event.MessageRetry,
			Text: fmt.Sprintf("retry %d of %d in %s: %s", s.Attempt, s.MaxRetries, wait.Round(100*time.Millisecond), why)})
	case "permission_denied":
		d.denied++
		return warning(fmt.Sprintf("permission for %s was denied: %s", s.ToolName, s.Message))
	case "model_fallback", "informational":
		if s.Content != "" {
			return warning(s.Content)
		}
	}
	return nil
}

func (d *decoder) init(rec record) []event.Message {
	if rec.session == d.sessionID {
		return nil
	}
	d.sessionID = rec.session
	out := one(event.Message{Kind: event.MessageInit, SessionID: rec.session})
	jsonscan.Object(rec.line, func(key, value []byte) {
		switch string(key) {
		case "model":
			out[0].Model = jsonscan.Text(value)
		case "mcp_servers":
			jsonscan.Array(value, func(server []byte) {
				if name, failed := failedServer(server); failed {
					out = append(out, event.Message{Kind: event.MessageWarning, Text: fmt.Sprintf("MCP server %q did not start", name)})
				}
			})
		}
	})
	return out
}

func failedServer(raw []byte) (name string, failed bool) {
	jsonscan.Object(raw, func(key, value []byte) {
		switch string(key) {
		case "name":
			name = jsonscan.Text(value)
		case "status":
			failed = jsonscan.Text(value) == "failed"
		}
	})
	return name, failed
}

func (d *decoder) rateLimit(rec record) []event.Message {
	var s struct {
		Info struct {
			Status   string `json:"status"`
			ResetsAt int64  `json:"resetsAt"` // Unix seconds
			Type     string `json:"rateLimitType"`
		} `json:"rate_limit_info"`
	}
	if json.Unmarshal(rec.line, &s) != nil || s.Info.Status == "" || s.Info.Status == "allowed" {
		return nil
	}
	text := "the account's rate limit: " + s.Info.Status
	if s.Info.Type != "" {
		text += " (" + s.Info.Type + ")"
	}
	if s.Info.ResetsAt > 0 {
		text += ", resets at " + time.Unix(s.Info.ResetsAt, 0).UTC().Format(time.RFC3339)
	}
	return one(event.Message{Kind: event.MessageWarning, Text: text})
}

func one(m event.Message) []event.Message { return []event.Message{m} }
