package runtimes

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes/schema"
)

// Claim is what an agent's own records say of how it fared. The zero Claim is
// of one that said nothing.
type Claim struct {
	Final bool // its last record came
	Cut   bool // a record was longer than MaxLine and is lost
	// Failure is what its last record makes of a run that failed; nil where it
	// claims success.
	Failure *Result
	// Refused and Truncated say why the model stopped, where the records do.
	Refused, Truncated bool
	// Idle says that its records show nothing said and no tool used.
	Idle       bool
	Text       string // the final answer
	Structured json.RawMessage
}

// Verdict weighs an agent's claim against the process's end and what the
// gateway saw; success needs all three. Result's SessionID and Turns are the
// caller's to set.
func Verdict(task Task, end End, claim Claim) Result {
	r := weigh(task, end, claim)
	r.Text = claim.Text
	if r.Cause == "" && task.Config.OutputSchema != nil {
		r.Structured = claim.Structured
	}
	return r
}

func weigh(task Task, end End, claim Claim) Result {
	if end.Exit.OOMKilled {
		r, _ := ExitVerdict(end)
		return r
	}
	if end.Exit.Signal == "" || end.Exit.Stopped {
		if r, ok := GatewayVerdict(task, end.Gateway); ok {
			return r
		}
	}
	switch {
	case !claim.Final:
		return NoResult(end, claim.Cut)
	case claim.Failure != nil:
		return *claim.Failure
	}
	if r, ok := ExitVerdict(end); ok {
		r.Message += " although it reported success"
		return r
	}
	return succeeded(task, end.Gateway, claim)
}

// succeeded checks a claimed success against the gateway and the schema.
func succeeded(task Task, g GatewayView, claim Claim) Result {
	noResult := func(message, hint string) Result {
		return Result{Cause: event.CauseNoResult, Message: message, Hint: hint}
	}
	switch {
	case claim.Refused || Refusal(g.LastStop):
		return Result{Cause: event.CauseRefused, Message: "the model declined the request: " + claim.Text, Hint: RefusedHint}
	case task.Box.Gateway != "" && g.LastStatus == 0:
		return noResult("the agent reported success without having asked the model anything",
			"a prompt that is only a command of the agent does nothing here: write what the agent should do")
	case claim.Idle && claim.Text == "":
		return noResult("the agent ended without having said or done anything", "running the step again may help")
	case claim.Truncated:
		return noResult("the answer was cut at the model's output limit", "ask for a shorter answer, or for a file instead")
	case task.Config.OutputSchema == nil:
		return Result{}
	}
	wanted, err := schema.Compile(task.Config.OutputSchema)
	switch {
	case err != nil:
		return noResult("output-schema: "+err.Error(), "correct the schema")
	case claim.Structured == nil:
		return noResult("the agent gave no structured output",
			"say in the prompt that the answer must follow the schema")
	}
	if err := wanted.Validate(claim.Structured); err != nil {
		return noResult("the structured output does not match output-schema: "+err.Error(),
			"make the schema simpler or say in the prompt what goes where")
	}
	return Result{}
}

// RefusedHint is for a model that declined.
const RefusedHint = "change the prompt or the model"

// Refusal knows the stop reasons with which the vendors say that the model, or
// a filter in front of it, declined.
func Refusal(stop string) bool {
	switch stop {
	case "refusal", "content_filter", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII":
		return true
	}
	return false
}

// GatewayVerdict is the failure that the gateway's last exchange proves, the
// same for every runtime; ok is false when it proves none. Only Cause,
// Message, Hint and RetryAt are set. The gateway is on the runner's side: an
// agent can forge its own records but not this.
func GatewayVerdict(task Task, g GatewayView) (r Result, ok bool) {
	if r, ok := refusedByGateway(g); ok {
		return r, true
	}
	said := ""
	if g.Error != "" {
		said = ": " + g.Error
	}
	fail := func(cause event.Cause, message, hint string) (Result, bool) {
		return Result{Cause: cause, Message: message + said, Hint: hint}, true
	}
	switch status := g.LastStatus; {
	case status < 400:
		return Result{}, false
	case status == 401, status == 403:
		return fail(event.CauseAuth, fmt.Sprintf("the model's API refused the credential (HTTP %d)", status), authHint(g.API, task.Credential.Kind))
	case status == 402, status == 400 && noMoney(g.Error):
		return fail(event.CauseBudget, fmt.Sprintf("the account at the model's vendor can not pay (HTTP %d)", status),
			"top up the account or raise its spending limit at the vendor, then run again")
	case status == 429, status == 529:
		r, _ := fail(event.CauseRateLimited, fmt.Sprintf("the model's API is limiting requests (HTTP %d)", status),
			rateLimitHint)
		r.RetryAt = g.RetryAt
		return r, true
	case status == 404:
		return fail(event.CauseExitCode, "the model's API does not know the model (HTTP 404)",
			"set `model:` in `runtime:` to one that the account may use")
	case status == 413:
		return fail(event.CauseExitCode, "the conversation is too large for the model's API (HTTP 413)",
			"shorten the prompt, or have the agent read less")
	case status >= 500:
		return fail(event.CauseInfrastructure, fmt.Sprintf("the model's API failed (HTTP %d)", status),
			"run again; the vendor's status page says whether there is an outage")
	default:
		return fail(event.CauseExitCode, fmt.Sprintf("the model's API rejected the request (HTTP %d)", status),
			"`herd-runner logs RUN JOB/STEP` shows what the agent did before")
	}
}

const rateLimitHint = "wait and run again, add `retry: {max: 2, on: [rate_limited]}` to the step, or lower --max-agents"

// refusedByGateway is what the gateway itself said of the last exchange: a
// refusal of its own, or that the vendor's answer broke. Its words are those
// of package gateway; for others the HTTP status decides.
func refusedByGateway(g GatewayView) (Result, bool) {
	said := g.Error
	if said == "" {
		said = "the gateway ended a request: " + g.LastReason
	}
	fail := func(cause event.Cause, hint string) (Result, bool) {
		return Result{Cause: cause, Message: said, Hint: hint}, true
	}
	switch g.LastReason {
	case "upstream", "upstream_idle", "upstream_timeout", "stream_error", "redirect", "encoding":
		return fail(event.CauseInfrastructure, "check that this machine reaches the model's API, then run again")
	}
	if g.LastStatus != 0 && g.LastStatus < 400 {
		return Result{}, false
	}
	switch g.LastReason {
	case "budget_exhausted":
		return fail(event.CauseBudget, "raise max-cost-usd or max-tokens, or give the step less to do")
	case "no_credit":
		return fail(event.CauseBudget, "top up the account or raise its spending limit at the vendor, then run again")
	case "rate_limited":
		r, _ := fail(event.CauseRateLimited, rateLimitHint)
		r.RetryAt = g.RetryAt
		return r, true
	case "no_progress":
		return fail(event.CauseNoResult, "its model gives empty answers: try another model, or the step again; runtime.max-unanswered is how many are borne")
	case "budget_book":
		return fail(event.CauseInfrastructure, "the day's budget is kept in ~/.local/state/herd-runner/budget: see that it can be written")
	case "auth":
		return fail(event.CauseAuth, "`herd-runner doctor` says which credential is missing and how to get it")
	case "replay_miss":
		return fail(event.CauseInfrastructure, "the cassette does not hold this exchange: record it again with --record DIR")
	case "model", "host", "proxy":
		return fail(event.CausePolicyDenied, "change the step, or have the operator's policy allow it")
	case "request", "path", "upgrade":
		return fail(event.CauseExitCode, "the agent asked for something the gateway does not serve; `herd-runner logs RUN JOB/STEP` shows what it did before")
	}
	return Result{}, false
}

func authHint(api, kind string) string {
	name := "ANTHROPIC_API_KEY"
	switch {
	case api == APIOpenAI && kind == "oauth":
		return "the ChatGPT login has expired or was revoked: run `codex login`, or set OPENAI_API_KEY"
	case api == APIOpenAI:
		name = "OPENAI_API_KEY"
	case api == APIGemini:
		name = "GEMINI_API_KEY"
	case kind == "oauth":
		return "the login has expired or was revoked: run `claude setup-token` and put the token in CLAUDE_CODE_OAUTH_TOKEN, or log in again with `claude`"
	}
	return "check " + name + " in the environment herd-runner is started from; `herd-runner doctor` tests it"
}

// noMoney knows the two answers that come as a plain 400.
func noMoney(message string) bool {
	return strings.Contains(message, "credit balance is too low") || strings.Contains(message, "API usage limits")
}

// ExitVerdict is the failure that the way the process ended proves: the
// kernel's OOM killer, a signal or an exit code. ok is false for a clean end
// and for one the executor asked for, whose cause only it knows.
func ExitVerdict(end End) (r Result, ok bool) {
	exit := end.Exit
	switch {
	case exit.OOMKilled:
		return Result{Cause: event.CauseOOM, Message: "the agent was killed because its box ran out of memory",
			Hint: "raise `memory:` in `docker:`"}, true
	case exit.Stopped:
		return Result{}, false
	case exit.Signal != "":
		hint := "something in the box sent the signal; `herd-runner logs RUN JOB/STEP` shows what the agent did last"
		if exit.ToolOOM {
			hint = "a process of the box was killed for memory before: raise `memory:` in `docker:`"
		}
		return Result{Cause: event.CauseExitCode, Message: "the agent was ended by signal " + exit.Signal, Hint: hint}, true
	case exit.Code == 127:
		return Result{Cause: event.CauseExitCode, Message: withStderr("the agent could not be started: exit code 127", end.Stderr),
			Hint: "the image has no such program: use herd-runner/agent (herd-runner image build), or put the program into yours"}, true
	case exit.Code != 0:
		return Result{Cause: event.CauseExitCode, Message: withStderr(fmt.Sprintf("the agent ended with exit code %d", exit.Code), end.Stderr),
			Hint: "`herd-runner logs RUN JOB/STEP` shows its whole output"}, true
	}
	return Result{}, false
}

// withStderr adds the last line of stderr, cut to 500 bytes.
func withStderr(message string, stderr []byte) string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(stderr), "\uFFFD"))
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = strings.TrimSpace(text[i+1:])
	}
	if len(text) > 500 {
		text = strings.ToValidUTF8(text[:500], "") + "…"
	}
	if text == "" {
		return message
	}
	return message + ": " + text
}

// NoResult is the verdict on a run that gave no final record; cut says that a
// record was longer than MaxLine and lost.
func NoResult(end End, cut bool) Result {
	if r, ok := ExitVerdict(end); ok {
		return r
	}
	message := "the agent ended without a result"
	if cut {
		message = fmt.Sprintf("the agent's result was longer than %d MiB and is lost", MaxLine>>20)
	}
	return Result{Cause: event.CauseNoResult, Message: message,
		Hint: "`herd-runner logs RUN JOB/STEP` shows what it did; running the step again may help"}
}
