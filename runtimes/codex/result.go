package codex

import (
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/internal/jsonscan"
)

// Finish weighs the CLI's own word against the process's end and what the
// gateway saw.
func (d *decoder) Finish(end runtimes.End) runtimes.Result {
	claim := runtimes.Claim{Final: d.last.ended, Cut: d.cut, Text: d.text, Idle: !d.did}
	switch {
	case d.last.failed:
		claim.Failure = d.failed(end.Gateway)
	case d.last.ended:
		// The answer itself is what follows the schema.
		claim.Structured = jsonscan.Clean([]byte(d.text))
	}
	verdict := runtimes.Verdict(d.task, end, claim)
	verdict.SessionID = d.sessionID
	// Its own turns are whole prompts, whatever the model was asked in them.
	verdict.Turns = max(d.turns, end.Gateway.Usage.Requests)
	return verdict
}

// failed judges a failed turn that the gateway does not explain.
func (d *decoder) failed(g runtimes.GatewayView) *runtimes.Result {
	message := d.last.why
	if message == "" {
		message = "the agent's turn failed"
	}
	fail := func(cause event.Cause, hint string) *runtimes.Result {
		return &runtimes.Result{Cause: cause, Message: message, Hint: hint}
	}
	switch {
	case runtimes.Refusal(g.LastStop):
		return fail(event.CauseRefused, runtimes.RefusedHint)
	case strings.HasPrefix(message, "stream disconnected"), strings.HasPrefix(message, "Connection failed"):
		return fail(event.CauseInfrastructure, "the model's API gave no usable answer: run again")
	case strings.HasPrefix(message, "Missing environment variable"):
		return fail(event.CauseAuth, "`herd-runner doctor` says which credential is missing and how to get it")
	}
	return fail(event.CauseExitCode, "`herd-runner logs RUN JOB/STEP` shows its whole output")
}
