package sdk

import (
	"encoding/json"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/internal/jsonscan"
)

// Decode returns a decoder for one run of the loop.
func (Runtime) Decode(task runtimes.Task) runtimes.Decoder {
	return &decoder{task: task}
}

type decoder struct {
	task runtimes.Task

	sessionID string
	last      *Record
	did       bool // it said or did anything
	cut       bool
}

// Line decodes one Record.
func (d *decoder) Line(line []byte) []event.Message {
	var rec Record
	whole, lost := runtimes.Record(line, func(key, value []byte) {
		switch string(key) {
		case "type":
			rec.Type = event.MessageKind(jsonscan.Text(value))
		case "text":
			rec.Text = jsonscan.Text(value)
		case "tool":
			rec.Tool = jsonscan.Text(value)
		case "call_id":
			rec.CallID = jsonscan.Text(value)
		case "input":
			rec.Input = jsonscan.Clean(value)
		case "is_error":
			rec.IsError = string(value) == "true"
		case "session_id":
			rec.SessionID = jsonscan.Text(value)
		case "model":
			rec.Model = jsonscan.Text(value)
		}
	})
	if !whole {
		d.cut = d.cut || lost != nil
		return lost
	}
	m := event.Message{Kind: rec.Type, Text: rec.Text}
	switch rec.Type {
	case event.MessageInit:
		d.sessionID = rec.SessionID
		m.SessionID, m.Model = rec.SessionID, rec.Model
	case event.MessageThinking, event.MessageRetry, event.MessageWarning:
	case event.MessageText:
		d.did = d.did || rec.Text != ""
	case event.MessageToolCall:
		d.did = true
		m.Tool, m.CallID, m.Input = rec.Tool, rec.CallID, rec.Input
	case event.MessageToolResult:
		m.CallID, m.IsError = rec.CallID, rec.IsError
	case event.MessageResult:
		last := &Record{}
		if json.Unmarshal(line, last) != nil {
			return nil
		}
		d.last = last
		if last.SessionID != "" {
			d.sessionID = last.SessionID
		}
		m.IsError = last.Cause != ""
		if m.IsError && m.Text == "" {
			m.Text = last.Message
		}
		m.SessionID = last.SessionID
	default:
		return nil
	}
	return []event.Message{m}
}

// Finish weighs the loop's own word against the process's end and what the
// gateway saw.
func (d *decoder) Finish(end runtimes.End) runtimes.Result {
	claim := runtimes.Claim{Final: d.last != nil, Cut: d.cut, Idle: !d.did}
	turns := 0
	if d.last != nil {
		claim.Text, claim.Structured = d.last.Text, jsonscan.Clean(d.last.Structured)
		turns = max(d.last.Turns, 0)
		if d.last.Cause != "" {
			claim.Failure = &runtimes.Result{Cause: known(d.last.Cause), Message: d.last.Message, Hint: d.last.Hint}
		}
	}
	verdict := runtimes.Verdict(d.task, end, claim)
	verdict.SessionID = d.sessionID
	verdict.Turns = turns
	return verdict
}

// known keeps a record from inventing causes, or those only the runner gives.
func known(c event.Cause) event.Cause {
	switch c {
	case event.CauseMaxTurns, event.CauseRefused, event.CauseNoResult, event.CauseRateLimited,
		event.CauseAuth, event.CauseBudget, event.CauseInfrastructure:
		return c
	}
	return event.CauseExitCode
}
