package opencode

import (
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
)

// Finish weighs the CLI's own word against the process's end and what the
// gateway saw.
func (d *decoder) Finish(end runtimes.End) runtimes.Result {
	claim := runtimes.Claim{Final: true, Cut: d.cut, Text: strings.ToValidUTF8(d.text.String(), "\uFFFD"),
		Refused: d.reason == "content-filter", Truncated: d.reason == "length", Idle: !d.did}
	switch {
	case d.failure != nil:
		claim.Failure = d.failed(end)
	case d.reason == "tool-calls" && end.Exit.Code == 0 && end.Exit.Signal == "":
		// So it ends, with exit code 0, when it would have had to ask a person.
		claim.Failure = noResult("the agent stopped in the middle of its work, after a tool call",
			"a permission may have been refused: see allowed-tools, denied-tools and permission-mode")
	case !d.ended():
		claim.Final = false
	}
	verdict := runtimes.Verdict(d.task, end, claim)
	verdict.SessionID = d.sessionID
	verdict.Turns = d.turns
	return verdict
}

func noResult(message, hint string) *runtimes.Result {
	return &runtimes.Result{Cause: event.CauseNoResult, Message: message, Hint: hint}
}

// failed judges an error record that the gateway does not explain.
func (d *decoder) failed(end runtimes.End) *runtimes.Result {
	if g := end.Gateway; g.LastStatus == 0 && d.failure.status >= 400 {
		// No gateway was in the way: the CLI's word is all there is.
		view := runtimes.GatewayView{LastStatus: d.failure.status, Error: d.failure.message}
		if r, ok := runtimes.GatewayVerdict(d.task, view); ok {
			return &r
		}
	}
	fail := func(cause event.Cause, hint string) *runtimes.Result {
		return &runtimes.Result{Cause: cause, Message: d.failure.message, Hint: hint}
	}
	switch {
	case runtimes.Refusal(end.Gateway.LastStop):
		return fail(event.CauseRefused, runtimes.RefusedHint)
	case d.failure.name == "ProviderAuthError":
		return fail(event.CauseAuth, "`herd-runner doctor` says which credential is missing and how to get it")
	case d.failure.name == "ContextOverflowError":
		return fail(event.CauseExitCode, "shorten the prompt, or have the agent read less")
	case d.failure.name == "MessageOutputLengthError":
		return fail(event.CauseNoResult, "ask for a shorter answer, or for a file instead")
	case strings.HasPrefix(d.failure.message, "JSON parsing failed"):
		return fail(event.CauseInfrastructure, "the model's API gave no usable answer: run again")
	}
	return fail(event.CauseExitCode, "`herd-runner logs RUN JOB/STEP` shows its whole output")
}
