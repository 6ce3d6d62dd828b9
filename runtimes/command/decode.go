package command

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/internal/jsonscan"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

// maxAnswer is the longest answer of a program that prints text, in bytes; what
// comes behind it is in the log only.
const maxAnswer = 1 << 20

// Decode returns a decoder for what the program was declared to print: text, or
// the records of our own loop (sdk.Record).
func (Runtime) Decode(task runtimes.Task) runtimes.Decoder {
	if task.Config.Output == runtimes.OutputJSONLines {
		return sdk.New(sdk.Anthropic).Decode(task)
	}
	return &textDecoder{task: task}
}

// textDecoder takes all that a program prints as its answer.
type textDecoder struct {
	task   runtimes.Task
	answer strings.Builder
	cut    bool
}

// Line gives one line on.
func (d *textDecoder) Line(line []byte) []event.Message {
	text := strings.ToValidUTF8(string(bytes.TrimRight(line, "\r")), "\uFFFD")
	messages := []event.Message{{Kind: event.MessageText, Text: text}}
	if strings.TrimSpace(text) == "" {
		messages = nil
	}
	switch {
	case d.cut:
	case d.answer.Len()+len(text) > maxAnswer:
		d.cut = true
		messages = append(messages, event.Message{Kind: event.MessageWarning,
			Text: fmt.Sprintf("the answer is longer than %d KiB: what follows is in the log only", maxAnswer>>10)})
	default:
		d.answer.WriteString(text)
		d.answer.WriteByte('\n')
	}
	return messages
}

// Finish weighs the answer against the process's end and what the gateway saw.
// With an output-schema the answer is data: one JSON object and nothing else.
func (d *textDecoder) Finish(end runtimes.End) runtimes.Result {
	answer := strings.TrimSpace(d.answer.String())
	claim := runtimes.Claim{Final: answer != "", Text: answer}
	if d.task.Config.OutputSchema != nil {
		claim.Structured = jsonscan.Clean([]byte(answer))
	}
	if answer == "" && end.Exit.Code == 0 && end.Exit.Signal == "" {
		claim.Final, claim.Failure = true, &runtimes.Result{Cause: event.CauseNoResult,
			Message: "the program printed nothing", Hint: "it must print its answer to stdout; `output: json-lines` is for programs that print records"}
	}
	return runtimes.Verdict(d.task, end, claim)
}
