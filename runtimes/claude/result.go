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
// gateway saw. Success needs all three.
func (d *decoder) Finish(end runtimes.End) runtimes.Result {
	verdict := d.verdict(end)
	verdict.SessionID = d.sessionID
	verdict.Turns = d.turns
	if d.last != nil {
		verdict.Text = d.last.text()
		if verdict.Cause == "" && d.schema != nil {
			verdict.Structured = d.last.structured
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
	switch {
	case d.last == nil:
		return runtimes.NoResult(end, d.cut)
	case d.last.isError || d.last.subtype != "success":
		return d.failed(end)
	}
	if r, ok := runtimes.ExitVerdict(end); ok {
		r.Message += " although it reported success"
		return r
	}
	return d.succeeded(end.Gateway)
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
	if d.last.stopReason == "refusal" || end.Gateway.LastStop == "refusal" {
		return fail(event.CauseRefused, refusedHint)
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

const refusedHint = "the model declined the request: change the prompt or the model"

// succeeded checks a claimed success against the gateway and the schema.
func (d *decoder) succeeded(g runtimes.GatewayView) runtimes.Result {
	noResult := func(message, hint string) runtimes.Result {
		return runtimes.Result{Cause: event.CauseNoResult, Message: message, Hint: hint}
	}
	switch {
	case d.last.stopReason == "refusal" || g.LastStop == "refusal":
		return runtimes.Result{Cause: event.CauseRefused, Message: "the model declined the request: " + d.last.text(), Hint: refusedHint}
	case d.task.Box.Gateway != "" && g.LastStatus == 0:
		return noResult("the agent reported success without having asked the model anything",
			"a prompt that is only a slash command of the CLI does nothing here: write what the agent should do")
	case d.last.stopReason == "max_tokens":
		return noResult("the answer was cut at the model's output limit", "ask for a shorter answer, or for a file instead")
	case d.schemaErr != nil:
		return noResult("output-schema: "+d.schemaErr.Error(), "correct the schema")
	case d.schema == nil:
		return runtimes.Result{}
	case d.last.structured == nil:
		return noResult("the agent gave no structured output",
			"the model did not call the tool for it: say in the prompt that the answer must follow the schema")
	}
	if err := d.schema.Validate(d.last.structured); err != nil {
		return noResult("the structured output does not match output-schema: "+err.Error(),
			"make the schema simpler or say in the prompt what goes where")
	}
	return runtimes.Result{}
}
