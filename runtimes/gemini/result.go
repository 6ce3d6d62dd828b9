package gemini

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
)

// Exit codes of the CLI for what it finds before it asks the model. For an
// error of the API it takes the HTTP status modulo 256, which is of no use.
const (
	exitAuth      = 41
	exitInput     = 42
	exitConfig    = 52
	exitMaxTurns  = 53
	exitUntrusted = 55
)

// Finish weighs the CLI's own word against the process's end and what the
// gateway saw. Success needs all three.
func (d *decoder) Finish(end runtimes.End) runtimes.Result {
	claim := runtimes.Claim{Final: d.last != nil, Cut: d.cut, Text: d.answer.String(), Idle: !d.did}
	if failed := d.failed(end); failed != nil {
		claim.Final, claim.Failure = true, failed
	}
	r := runtimes.Verdict(d.task, end, claim)
	r.SessionID, r.Turns = d.sessionID, d.turns
	return r
}

const seeLogs = "`herd-runner logs RUN JOB/STEP` shows its whole output"

// failed is what the CLI's last record, or without one its exit code, says of a
// run that failed; nil where neither says so.
func (d *decoder) failed(end runtimes.End) *runtimes.Result {
	if d.last == nil {
		return early(end)
	}
	if d.last.ok {
		if d.answer.Len() > 0 || d.said == "" {
			return nil
		}
		// "Loop detected, stopping execution", with exit code 0.
		return &runtimes.Result{Cause: event.CauseNoResult, Message: "the agent gave up without an answer: " + d.said,
			Hint: "say in the prompt what to do where it gets stuck, try another model, or run the step again"}
	}
	message := d.last.message
	if message == "" {
		message = d.said
	}
	if message == "" {
		message = "the agent failed without a word"
	}
	fail := func(cause event.Cause, hint string) *runtimes.Result {
		return &runtimes.Result{Cause: cause, Message: message, Hint: hint}
	}
	if end.Exit.Code == exitMaxTurns || d.last.errType == "FatalTurnLimitedError" {
		return fail(event.CauseMaxTurns, "raise max-turns, or give the step less to do")
	}
	apiError := strings.HasPrefix(message, "[API Error")
	if apiError && end.Gateway.LastStatus == 0 {
		// No gateway was in the way: the CLI's word is all there is.
		view := runtimes.GatewayView{LastStatus: apiStatus(message, end.Exit.Code), Error: message}
		if r, ok := runtimes.GatewayVerdict(d.task, view); ok {
			return &r
		}
	}
	if apiError || d.last.message == "" && d.said != "" {
		// The model's stream was empty (exit code 0), broken or cut short.
		return fail(event.CauseInfrastructure, "the model's API gave no usable answer: run again")
	}
	return fail(event.CauseExitCode, seeLogs)
}

// early is why the CLI ended before it asked the model.
func early(end runtimes.End) *runtimes.Result {
	if end.Exit.Signal != "" || end.Exit.OOMKilled {
		return nil
	}
	ended, _ := runtimes.ExitVerdict(end)
	fail := func(cause event.Cause, hint string) *runtimes.Result {
		return &runtimes.Result{Cause: cause, Message: ended.Message, Hint: hint}
	}
	switch end.Exit.Code {
	case exitAuth:
		return fail(event.CauseAuth, "`herd-runner doctor` says which credential is missing and how to get it")
	case exitInput:
		return fail(event.CauseExitCode, "the CLI took the prompt for a command of its own, or does not have the session to go on from")
	case exitConfig:
		return fail(event.CauseExitCode, "the CLI refused its settings: check mcp-servers, allowed-tools and denied-tools")
	case exitUntrusted:
		return fail(event.CauseExitCode, "the CLI did not take the workspace as trusted: is it the version of herd-runner/agent?")
	}
	return nil
}

var apiCode = regexp.MustCompile(`"code":\s*(\d{3})\b`)

// apiStatus is the HTTP status of "[API Error: …]", from its text or from the
// exit code, which is the status modulo 256; 0 where neither has one.
func apiStatus(message string, exit int) int {
	if m := apiCode.FindStringSubmatch(message); m != nil {
		status, _ := strconv.Atoi(m[1])
		return status
	}
	if status := exit + 256; status >= 400 {
		return status
	}
	return 0
}
