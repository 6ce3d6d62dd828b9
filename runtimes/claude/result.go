package claude

import (
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/internal/jsonscan"
)

// result is the CLI's last word. Its token and cost fields are not read: they
// are cumulative over a resumed session, guessed for unknown models, and the
// agent could have written them itself.
type result struct {
	subtype        string
	isError        bool // true unless the record says false
	result         string
	errors         []string
	apiErrorStatus int
	apiError       string
	terminalReason string
	stopReason     string
	numTurns       int
	sessionID      string
	structured     []byte
	denied         []string // tools that were refused permission
}

func readResult(line []byte) *result {
	r := &result{isError: true}
	jsonscan.Object(line, func(key, value []byte) {
		switch string(key) {
		case "subtype":
			r.subtype = jsonscan.Text(value)
		case "is_error":
			r.isError = string(value) != "false"
		case "result":
			r.result = jsonscan.Text(value)
		case "errors":
			jsonscan.Array(value, func(value []byte) { r.errors = append(r.errors, jsonscan.Text(value)) })
		case "api_error_status":
			r.apiErrorStatus = jsonscan.Int(value)
		case "api_error":
			r.apiError = jsonscan.Text(value)
		case "terminal_reason":
			r.terminalReason = jsonscan.Text(value)
		case "stop_reason":
			r.stopReason = jsonscan.Text(value)
		case "num_turns":
			r.numTurns = jsonscan.Int(value)
		case "session_id":
			r.sessionID = jsonscan.Text(value)
		case "permission_denials":
			jsonscan.Array(value, func(denial []byte) {
				jsonscan.Object(denial, func(key, value []byte) {
					if string(key) == "tool_name" {
						r.denied = append(r.denied, jsonscan.Text(value))
					}
				})
			})
		case "structured_output":
			if string(value) != "null" {
				r.structured = jsonscan.Clean(value)
			}
		}
	})
	return r
}

func (r *result) text() string {
	if r.result != "" {
		return r.result
	}
	return strings.Join(r.errors, "; ")
}

func (d *decoder) result(rec record) []event.Message {
	r := readResult(rec.line)
	d.last = r
	d.turns += max(r.numTurns, 0)
	if r.sessionID != "" {
		d.sessionID = r.sessionID
	}
	out := one(event.Message{Kind: event.MessageResult, Text: r.text(), IsError: r.isError, SessionID: r.sessionID})
	if len(r.denied) > 0 && d.denied == 0 {
		// Older versions say it here only, and exit 0 all the same.
		slices.Sort(r.denied)
		out = append(out, event.Message{Kind: event.MessageWarning,
			Text: "permission was denied for " + strings.Join(slices.Compact(r.denied), ", ") + ": see allowed-tools and permission-mode"})
	}
	return out
}

// Finish weighs the CLI's own word against the process's end and what the
// gateway saw.
func (d *decoder) Finish(end runtimes.End) runtimes.Result {
	claim := runtimes.Claim{Final: d.last != nil, Cut: d.cut, Idle: !d.did}
	if d.last != nil {
		claim.Text, claim.Structured = d.last.text(), d.last.structured
		claim.Refused = d.last.stopReason == "refusal"
		claim.Truncated = d.last.stopReason == "max_tokens"
		if d.last.isError || d.last.subtype != "success" {
			failure := d.failed(end)
			claim.Failure = &failure
		}
	}
	verdict := runtimes.Verdict(d.task, end, claim)
	verdict.SessionID = d.sessionID
	verdict.Turns = d.turns
	return verdict
}

// failed is a run whose last result record is an error.
func (d *decoder) failed(end runtimes.End) runtimes.Result {
	fail := func(cause event.Cause, hint string) runtimes.Result {
		message := d.last.text()
		if message == "" {
			message = "the agent failed: " + d.last.subtype
		}
		return runtimes.Result{Cause: cause, Message: message, Hint: hint}
	}
	switch d.last.subtype {
	case "error_max_turns":
		return fail(event.CauseMaxTurns, "raise max-turns, or give the step less to do")
	case "error_max_budget_usd":
		return fail(event.CauseBudget, "raise max-cost-usd, or give the step less to do")
	case "error_max_structured_output_retries":
		return fail(event.CauseNoResult, "the model did not keep to output-schema: make the schema simpler or say in the prompt what goes where")
	}
	if d.last.stopReason == "refusal" || runtimes.Refusal(end.Gateway.LastStop) {
		return fail(event.CauseRefused, runtimes.RefusedHint)
	}
	if d.last.terminalReason == "prompt_too_long" {
		return fail(event.CauseExitCode, "shorten the prompt, or have the agent read less")
	}
	if end.Gateway.LastStatus == 0 && d.last.apiErrorStatus >= 400 {
		// No gateway was in the way: the CLI's word is all there is.
		view := runtimes.GatewayView{LastStatus: d.last.apiErrorStatus, Error: d.last.text()}
		if r, ok := runtimes.GatewayVerdict(d.task, view); ok {
			return r
		}
	}
	if strings.HasPrefix(d.last.result, "Not logged in") {
		return fail(event.CauseAuth, "`herd-runner doctor` says which credential is missing and how to get it")
	}
	if d.last.terminalReason == "api_error" && end.Gateway.LastStatus < 400 {
		return fail(event.CauseInfrastructure, "the model's API gave no usable answer: run again")
	}
	if strings.HasPrefix(d.last.text(), "No conversation found") {
		return fail(event.CauseExitCode, "the session to go on from is not in this box's HOME")
	}
	return fail(event.CauseExitCode, "`herd-runner logs RUN JOB/STEP` shows its whole output")
}
