package agent

import (
	"encoding/json"
	"slices"
)

// message is one side's turn, in no vendor's words. It is what a session holds;
// each vendor's client turns it into its own form and back.
type message struct {
	Role  string `json:"role"` // "user" or "assistant"
	Parts []part `json:"parts"`
}

const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

type partKind string

const (
	partText     partKind = "text"
	partThinking partKind = "thinking"
	partCall     partKind = "call"
	partResult   partKind = "result"
)

// part is one piece of a message.
type part struct {
	Kind partKind `json:"kind"`
	Text string   `json:"text,omitempty"` // of text, thinking and result
	// ID and Tool name the call that is made or answered, Input is what it was
	// called with: any JSON value, since a model may get it wrong.
	ID      string          `json:"id,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	IsError bool            `json:"is_error,omitempty"`
	// Seal is the vendor's own token for the part. The vendor wants it back
	// unchanged, another can not read it.
	Seal string `json:"seal,omitempty"`
}

func textPart(text string) part { return part{Kind: partText, Text: text} }

func resultPart(c call, out toolOutput) part {
	return part{Kind: partResult, ID: c.id, Tool: c.name, Text: out.text, IsError: out.isError}
}

// calls are the tool calls in the message.
func (m message) calls() []call {
	var calls []call
	for _, p := range m.Parts {
		if p.Kind == partCall {
			calls = append(calls, call{id: p.ID, name: p.Tool, input: p.Input})
		}
	}
	return calls
}

// unseal takes out what only the vendor that gave it can read.
func (m *message) unseal() {
	m.Parts = slices.DeleteFunc(m.Parts, func(p part) bool { return p.Kind == partThinking })
	for i := range m.Parts {
		m.Parts[i].Seal = ""
	}
}

// question is all that goes to the model. It holds nothing that differs
// between two runs of the same conversation, so that recordings replay.
type question struct {
	model    string
	system   []string
	messages []message
	tools    []tool
	answer   *structured // the tool of structured output; nil: none
	forced   bool        // the model must call that tool
}

// response is the model's whole answer.
type response struct {
	message message
	stop    stopReason
}

// stopReason is why an answer ended.
type stopReason int

const (
	stopDone    stopReason = iota // it is whole, with calls or without
	stopLimit                     // cut at the output limit
	stopRefused                   // the model or the vendor's filter declined
	stopWindow                    // the context window is full
	stopPaused                    // the vendor wants to be asked again
)
