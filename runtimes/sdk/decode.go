package sdk

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/internal/jsonscan"
	"github.com/herd-runner/herd-runner/runtimes/schema"
)

// Decode returns a decoder for one run of the loop.
func (Runtime) Decode(task runtimes.Task) runtimes.Decoder {
	d := &decoder{task: task}
	if task.Config.OutputSchema != nil {
		d.schema, d.schemaErr = schema.Compile(task.Config.OutputSchema)
	}
	return d
}

type decoder struct {
	task      runtimes.Task
	schema    *schema.Schema
	schemaErr error

	sessionID string
	last      *Record
	cut       bool
}

// Line decodes one Record.
func (d *decoder) Line(line []byte) []event.Message {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' {
		return nil
	}
	var rec Record
	whole := jsonscan.Object(line, func(key, value []byte) {
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
		if len(line) < runtimes.MaxLine-1 {
			return nil
		}
		d.cut = true
		return []event.Message{{Kind: event.MessageWarning,
			Text: fmt.Sprintf("a record of the agent was longer than %d MiB and is lost", runtimes.MaxLine>>20)}}
	}
	m := event.Message{Kind: rec.Type, Text: rec.Text}
	switch rec.Type {
	case event.MessageInit:
		d.sessionID = rec.SessionID
		m.SessionID, m.Model = rec.SessionID, rec.Model
	case event.MessageText, event.MessageThinking, event.MessageRetry, event.MessageWarning:
	case event.MessageToolCall:
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
// gateway saw. Success needs all three.
func (d *decoder) Finish(end runtimes.End) runtimes.Result {
	verdict := d.verdict(end)
	verdict.SessionID = d.sessionID
	if d.last != nil {
		verdict.Text = d.last.Text
		verdict.Turns = max(d.last.Turns, 0)
		if verdict.Cause == "" && d.schema != nil {
			verdict.Structured = jsonscan.Clean(d.last.Structured)
		}
	}
	return verdict
}

func (d *decoder) verdict(end runtimes.End) runtimes.Result {
	if end.Exit.OOMKilled {
		r, _ := runtimes.ExitVerdict(end)
		return r
	}
	if end.Exit.Signal == "" || end.Exit.Stopped {
		if r, ok := runtimes.GatewayVerdict(d.task, end.Gateway); ok {
			return r
		}
	}
	if d.last == nil {
		return runtimes.NoResult(end, d.cut)
	}
	if d.last.Cause != "" {
		return runtimes.Result{Cause: known(d.last.Cause), Message: d.last.Message, Hint: d.last.Hint}
	}
	if r, ok := runtimes.ExitVerdict(end); ok {
		r.Message += " although it reported success"
		return r
	}
	return d.succeeded(end.Gateway)
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

func (d *decoder) succeeded(g runtimes.GatewayView) runtimes.Result {
	noResult := func(message, hint string) runtimes.Result {
		return runtimes.Result{Cause: event.CauseNoResult, Message: message, Hint: hint}
	}
	switch {
	case g.LastStop == "refusal":
		return runtimes.Result{Cause: event.CauseRefused, Message: "the model declined the request: " + d.last.Text,
			Hint: "the model declined the request: change the prompt or the model"}
	case d.task.Box.Gateway != "" && g.LastStatus == 0:
		return noResult("the agent reported success without having asked the model anything",
			"`herd-runner logs RUN JOB/STEP` shows what it did")
	case d.schemaErr != nil:
		return noResult("output-schema: "+d.schemaErr.Error(), "correct the schema")
	case d.schema == nil:
		return runtimes.Result{}
	case d.last.Structured == nil:
		return noResult("the agent gave no structured output",
			"say in the prompt that the answer must follow the schema")
	}
	if err := d.schema.Validate(d.last.Structured); err != nil {
		return noResult("the structured output does not match output-schema: "+err.Error(),
			"make the schema simpler or say in the prompt what goes where")
	}
	return runtimes.Result{}
}
