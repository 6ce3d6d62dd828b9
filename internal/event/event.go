// Package event is the one stream of everything that happens in a run. The
// executor emits events; the journal, the terminal and the reports consume
// them. Nothing reads back up.
package event

import (
	"encoding/json"
	"time"
)

// Type names what happened.
type Type string

// The types of events. Each says which payload of Event is set.
const (
	RunStarted   Type = "run.started"   // Run
	RunFinished  Type = "run.finished"  // Outcome
	JobStarted   Type = "job.started"   // Name
	JobFinished  Type = "job.finished"  // Outcome
	StepStarted  Type = "step.started"  // Name, StepInfo
	StepFinished Type = "step.finished" // Outcome
	StepRetry    Type = "step.retry"    // Outcome of the attempt that failed
	BoxStarted   Type = "box.started"   // Box
	Output       Type = "output"        // Stream, Data: bytes of a step, not cut at lines
	Agent        Type = "agent"         // Message
	Exchange     Type = "exchange"      // Exchange
	Egress       Type = "egress"        // Egress
	Waiting      Type = "waiting"       // Wait: a model call is kept waiting
	Annotation   Type = "annotation"    // Note
	Group        Type = "group"         // Text: title of a ::group::, empty for ::endgroup::
	Summary      Type = "summary"       // Text: markdown of GITHUB_STEP_SUMMARY
	Notice       Type = "notice"        // Note: the runner itself speaks to the person
	Condition    Type = "condition"     // Text: why it was skipped, empty where it runs; Condition
)

// Event is one happening. Job is the id of a job's leg as in workflow.Leg.ID
// ("test", "test (1.26, linux)"), or of the job itself for what is decided
// before it has legs: its condition, and its end where it has none. Step is the
// step's id in its job. Both are empty for what concerns the run.
type Event struct {
	Seq     int64     `json:"seq"`
	Time    time.Time `json:"time"`
	Type    Type      `json:"type"`
	Job     string    `json:"job,omitempty"`
	Step    string    `json:"step,omitempty"`
	Attempt int       `json:"attempt,omitempty"` // 1-based; 0 outside a step
	// From is the run that a job or step was taken over from; empty: it is of this
	// run.
	From string `json:"from,omitempty"`

	Name      string         `json:"name,omitempty"`
	Text      string         `json:"text,omitempty"`
	Stream    string         `json:"stream,omitempty"` // "stdout" or "stderr"
	Data      []byte         `json:"-"`                // Output only; consumers must not retain it
	Run       *RunInfo       `json:"run,omitempty"`
	StepInfo  *StepInfo      `json:"step_info,omitempty"`
	Box       *BoxInfo       `json:"box,omitempty"`
	Message   *Message       `json:"message,omitempty"`
	Exchange  *ModelCall     `json:"exchange,omitempty"`
	Egress    *EgressCall    `json:"egress,omitempty"`
	Wait      *Wait          `json:"wait,omitempty"`
	Note      *Note          `json:"note,omitempty"`
	Condition *ConditionInfo `json:"condition,omitempty"`
	Outcome   *Outcome       `json:"outcome,omitempty"`
}

// RunInfo identifies a run.
type RunInfo struct {
	ID       string   `json:"id"`
	Name     string   `json:"name,omitempty"` // what run-name gives
	Workflow string   `json:"workflow"`       // name, or file where it has none
	File     string   `json:"file"`
	SHA256   string   `json:"sha256"` // of the workflow file
	Event    string   `json:"event"`
	Dir      string   `json:"dir"` // the project directory
	PID      int      `json:"pid"`
	Args     []string `json:"args,omitempty"` // secrets redacted
	Version  string   `json:"version"`
	// Attempt counts a run and its reruns, 1-based; RerunOf is the run that this
	// one goes on from. Both are empty where it goes on from none.
	Attempt int    `json:"attempt,omitempty"`
	RerunOf string `json:"rerun_of,omitempty"`
}

// StepInfo says what a step is before it runs.
type StepInfo struct {
	Kind    string `json:"kind"` // "run", "agent", "action" or "control"
	Runtime string `json:"runtime,omitempty"`
	Engine  string `json:"engine,omitempty"`
	Model   string `json:"model,omitempty"`
	// File is the one the step stands in, as RunInfo.File: the run's workflow, one
	// that it calls, or an action. Line is 1-based in it.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Number is the step's place in its job, 1-based; "2.1" is the first step of
	// the action that step 2 uses.
	Number string `json:"number,omitempty"`
}

// BoxInfo is a started box.
type BoxInfo struct {
	Backend string `json:"backend"`
	ID      string `json:"id,omitempty"`
	Image   string `json:"image,omitempty"`
	Reused  bool   `json:"reused,omitempty"` // kept from an earlier run and started again
	StartMS int64  `json:"start_ms"`
}

// MessageKind names what an agent said or did.
type MessageKind string

// The kinds of agent messages, the same for every runtime.
const (
	MessageInit       MessageKind = "init"        // SessionID, Model
	MessageText       MessageKind = "text"        // Text
	MessageThinking   MessageKind = "thinking"    // Text
	MessageToolCall   MessageKind = "tool_call"   // Tool, CallID, Input
	MessageToolResult MessageKind = "tool_result" // CallID, Text, IsError
	MessageRetry      MessageKind = "retry"       // Text: an API retry of the agent
	MessageWarning    MessageKind = "warning"     // Text
	MessageResult     MessageKind = "result"      // Text: the final answer
)

// Message is one typed message of an agent. Its text is untrusted.
type Message struct {
	Kind      MessageKind     `json:"kind"`
	Text      string          `json:"text,omitempty"`
	Tool      string          `json:"tool,omitempty"`
	CallID    string          `json:"call_id,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	SessionID string          `json:"session_id,omitempty"`
	Model     string          `json:"model,omitempty"`
	Parent    string          `json:"parent,omitempty"` // tool call that spawned the sub-agent
}

// Usage is what model calls consumed. The gateway counts it.
type Usage struct {
	Requests         int     `json:"requests"`
	InputTokens      int64   `json:"input_tokens"`
	OutputTokens     int64   `json:"output_tokens"`
	CacheReadTokens  int64   `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64   `json:"cache_write_tokens,omitempty"`
	ReasoningTokens  int64   `json:"reasoning_tokens,omitempty"` // part of OutputTokens
	CostUSD          float64 `json:"cost_usd"`
	// CostKnown is false when a model had no price; CostUSD is then a lower
	// bound, and null in JSON where nothing is known at all.
	CostKnown bool `json:"cost_known"`
	// Estimated says that tokens and cost are in part an estimate: an answer broke
	// off, or ended, without saying what it used.
	Estimated bool `json:"estimated,omitempty"`
	// CostBasis is how it is paid; empty: nothing was (a replay), or not known.
	CostBasis string `json:"cost_basis,omitempty"`
}

// What a cost is based on.
const (
	BasisAPI          = "api"          // by request, at API rates
	BasisSubscription = "subscription" // a login's; CostUSD is what API rates would be
	BasisMixed        = "mixed"        // some of both
)

// The reasons for which model calls wait.
const (
	WaitRateLimit = "rate_limit" // the API limits requests of the credential
	WaitBudget    = "budget"     // calls under way may use up the budget What
)

// Wait says that a model call is kept waiting.
type Wait struct {
	Reason string    `json:"reason"`
	What   string    `json:"what,omitempty"`
	Model  string    `json:"model,omitempty"`
	Until  time.Time `json:"until,omitzero"` // not before; zero: not known
}

// ModelCall is the metadata of one exchange through the gateway.
type ModelCall struct {
	Method     string `json:"method"`
	Path       string `json:"path"`
	Model      string `json:"model,omitempty"`
	Status     int    `json:"status"`
	Mode       string `json:"mode"` // "live", "record", "replay", "refused"
	Reason     string `json:"reason,omitempty"`
	StopReason string `json:"stop_reason,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	Usage      Usage  `json:"usage"`
}

// EgressCall is one request of a box to the egress proxy. What a box can choose
// in it is bounded: a host is a name or an address in its usual form.
type EgressCall struct {
	Method   string `json:"method"`         // "CONNECT", or that of plain HTTP
	Host     string `json:"host,omitempty"` // empty where the request was not understood
	Port     int    `json:"port,omitempty"`
	Allowed  bool   `json:"allowed"`
	Entry    string `json:"entry,omitempty"`   // of the list, that allowed it
	Address  string `json:"address,omitempty"` // that was dialled
	Status   int    `json:"status,omitempty"`  // of plain HTTP
	Sent     int64  `json:"sent"`              // bytes to the server
	Received int64  `json:"received"`          // bytes from the server
	// Reason is why it was refused, or allowed and failed all the same; Message
	// says so, Hint what would allow it.
	Reason     string `json:"reason,omitempty"`
	Message    string `json:"message,omitempty"`
	Hint       string `json:"hint,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	Count      int    `json:"count,omitempty"` // of the requests this sums up; 0: it is one
	// Open says that the request has not ended, and Told, when it has, that it
	// was told while it was open.
	Open bool `json:"open,omitempty"`
	Told bool `json:"told,omitempty"`
}

// Note is a message to the person, with a place where it has one.
type Note struct {
	Level   string `json:"level"` // "error", "warning", "notice", "debug"
	Message string `json:"message"`
	Title   string `json:"title,omitempty"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	EndLine int    `json:"end_line,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// Cause says why a step did not succeed. Empty for success and skipped.
type Cause string

// The causes. Results are truthful: exit 0 alone is no success of an agent.
const (
	CauseExitCode       Cause = "exit_code"
	CauseTimeout        Cause = "timeout"
	CauseOOM            Cause = "oom"
	CauseResourceLimit  Cause = "resource_limit"
	CauseStalled        Cause = "stalled"
	CauseRateLimited    Cause = "rate_limited"
	CauseAuth           Cause = "auth"
	CauseBudget         Cause = "budget_exhausted"
	CauseMaxTurns       Cause = "max_turns"
	CauseRefused        Cause = "refused"
	CauseNoResult       Cause = "no_result"
	CausePolicyDenied   Cause = "policy_denied"
	CauseInfrastructure Cause = "infrastructure"
	CauseCancelled      Cause = "cancelled"
)

// Outcome is how a step, job or run ended. Result words are GitHub's:
// "success", "failure", "cancelled", "skipped".
type Outcome struct {
	Outcome    string            `json:"outcome"`
	Conclusion string            `json:"conclusion"` // after continue-on-error
	Cause      Cause             `json:"cause,omitempty"`
	ExitCode   int               `json:"exit_code"`
	Message    string            `json:"message,omitempty"` // for the person, redacted
	Hint       string            `json:"hint,omitempty"`
	Outputs    map[string]string `json:"outputs,omitempty"`
	// Withheld names what was set and is not told as it is: it holds a secret.
	Withheld []string `json:"withheld,omitempty"`
	// Env and Path are what a step gave to the steps after it, Path in the order
	// it was written.
	Env  map[string]string `json:"env,omitempty"`
	Path []string          `json:"path,omitempty"`
	// Work is what isolated workspaces of a job brought back.
	Work       []Work    `json:"work,omitempty"`
	DurationMS int64     `json:"duration_ms"`
	Usage      *Usage    `json:"usage,omitempty"`
	Turns      int       `json:"turns,omitempty"`
	SessionID  string    `json:"session_id,omitempty"`
	RetryAt    time.Time `json:"retry_at,omitzero"`     // of rate_limited: when the limit ends
	PeakMemory int64     `json:"peak_memory,omitempty"` // bytes
	CPUMS      int64     `json:"cpu_ms,omitempty"`
}

// Work is what was done in an isolated workspace.
type Work struct {
	Name    string   `json:"name"` // who did it
	Branch  string   `json:"branch"`
	Commit  string   `json:"commit"`
	Changed []string `json:"changed"` // paths, sorted
}

// Sink consumes events. Emit is safe for concurrent use, keeps the order of
// calls of one goroutine, and does not fail: a sink that can not go on says so
// when it is closed.
type Sink interface {
	Emit(e Event)
}

// Tee is a Sink that gives each event to all of its sinks in order.
type Tee []Sink

// Emit gives e to every sink.
func (t Tee) Emit(e Event) {
	for _, s := range t {
		s.Emit(e)
	}
}
