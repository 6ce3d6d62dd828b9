// Package runtimes is the contract between the executor and the ways an agent
// can be driven. A runtime describes and interprets, it never executes: Task →
// Command is a pure function, and a Decoder turns the process's stdout into
// messages and a Result. So every runtime runs in any box, and is tested from
// recorded transcripts without containers or keys.
package runtimes

import (
	"encoding/json"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/sandbox"
)

// Runtime drives one kind of agent. Implementations are stateless and safe for
// concurrent use.
type Runtime interface {
	// Describe says what the runtime can do; constant.
	Describe() Description
	// Command is what to run in the box for task. Pure: the same task gives
	// the same command. An error is a problem of the task ("needs MCP
	// servers, which runtime X lacks") for the person.
	Command(task Task) (Command, error)
	// Decode returns a fresh decoder for the output of Command(task).
	Decode(task Task) Decoder
}

// Decoder reads the stdout of one agent process. Not safe for concurrent use.
type Decoder interface {
	// Line takes one line without its end and returns the messages in it.
	// Lines it does not understand give none; it never fails. Lines longer
	// than MaxLine arrive cut.
	Line(line []byte) []event.Message
	// Finish is called once, after the process has ended and the last line
	// was given, and says how the agent fared.
	Finish(end End) Result
}

// SessionReader is a Runtime whose agent writes its conversation to files while
// it runs: a second source of its messages, never of its result.
type SessionReader interface {
	// SessionFiles are the files to follow while Command(task) runs. Pure.
	SessionFiles(task Task) []sandbox.Follow
	// DecodeSession returns a fresh decoder for them.
	DecodeSession(task Task) SessionDecoder
}

// SessionDecoder reads followed files. Not safe for concurrent use.
type SessionDecoder interface {
	// Line takes one line of a file without its end and returns the messages in
	// it that the agent's output tells too: text, thinking, tool calls and their
	// results. What it does not understand, and what is not of this run, gives
	// none; it never fails.
	Line(file SessionFile, line []byte) []event.Message
	// Key is the same for a tool call, or a result, of the output and for the
	// one of the files that tells it too.
	Key(m event.Message) string
}

// SessionFile is a followed file: the index of what it matched in SessionFiles,
// and its number.
type SessionFile struct{ Of, ID int }

// MaxLine is the longest line in bytes given to a Decoder.
const MaxLine = 16 << 20

// Description is what a runtime can do; `herd-runner runtimes` prints it.
type Description struct {
	Name   string // "claude"
	Type   string // "cli" or "sdk"
	Engine string // "claude", "anthropic"
	API    string // what it speaks to the gateway
	// OtherAPIs are those it can speak instead, or as well, where the model
	// says so: see APIsFor.
	OtherAPIs []string
	Features  []Feature
	// Sessions is the regular expression that a whole session id of the agent
	// matches; empty: a UUID.
	Sessions string
	// NamesSessions says that the agent names its new sessions itself:
	// Task.SessionID then names the task's own files only.
	NamesSessions bool
	// SessionState is what makes up the agent's sessions, and nothing that it would
	// run or obey: patterns, as for path.Match, of files and directories below
	// HOME. Put into another HOME they can be gone on with
	// there, by runtimes that have the same. Empty: they can not.
	SessionState []string
	// NoLogin says, for the person, why the agent can not have the login of its
	// own program in the box; empty where it has FeatureAuthMount.
	NoLogin string
}

// The APIs that runtimes speak and the gateway serves.
const (
	APIAnthropic = "anthropic" // Messages
	APIOpenAI    = "openai"    // Responses and Chat Completions
	APIGemini    = "gemini"    // generateContent
)

// Feature is something a step may need of its runtime.
type Feature string

// The features.
const (
	FeatureOutputSchema Feature = "output-schema"
	FeatureResume       Feature = "session-resume"
	FeatureFork         Feature = "session-fork"
	FeatureMCP          Feature = "mcp-servers"
	FeatureMaxTurns     Feature = "max-turns"
	FeatureMaxCost      Feature = "max-cost-usd"
	FeatureTools        Feature = "allowed-tools"
	FeatureSystemPrompt Feature = "system-prompt"
	FeaturePermission   Feature = "permission-mode"
	FeatureFallback     Feature = "fallback-model"
	FeatureAuthMount    Feature = "auth-mount"
)

// Features are all of them, in the order of tables.
func Features() []Feature {
	return []Feature{
		FeatureOutputSchema, FeatureResume, FeatureFork, FeatureMCP, FeatureMaxTurns,
		FeatureMaxCost, FeatureTools, FeatureSystemPrompt, FeaturePermission, FeatureFallback, FeatureAuthMount,
	}
}

// Config is the evaluated `runtime:` block of a step.
type Config struct {
	Type, Engine       string
	Model              string
	FallbackModel      string
	MaxTurns           int     // 0: no limit
	MaxCostUSD         float64 // 0: no limit; the gateway enforces it
	MaxTokens          int64   // 0: no limit; the gateway enforces it
	MaxUnanswered      int     // 0: the gateway's default, which enforces it
	SystemPrompt       string
	AppendSystemPrompt string
	AllowedTools       []string
	DeniedTools        []string
	PermissionMode     string
	MCPServers         json.RawMessage // object by server name
	OutputSchema       json.RawMessage // JSON Schema; nil: free text
	Env                map[string]string
	Args               []string
	BaseURL            string
	// Session is how the task goes on with an earlier session: SessionResume or
	// SessionFork; empty: it begins its own.
	Session string

	// What engine "command" is told of its program.
	Command []string // the program and its arguments
	Prompt  string   // how it gets the prompt: PromptStdin (also empty), PromptFile
	Output  string   // what it prints: OutputText (also empty), OutputJSONLines
	APIs    []string // what it speaks to the gateway
}

// How a program of engine "command" gets its prompt, and what it prints.
const (
	PromptStdin     = "stdin"
	PromptFile      = "file"
	OutputText      = "text"
	OutputJSONLines = "json-lines"
)

// How a task goes on with an earlier session.
const (
	SessionResume = "resume" // under its id
	SessionFork   = "fork"   // as a copy with an id of its own
)

// Task is one agent run.
type Task struct {
	Prompt string // data: reaches the agent by stdin or a file, never argv
	Config Config
	// Box says where the workspace, HOME, temp and our executable are.
	Box sandbox.Info
	// Credential is what the gateway wants to see from this box.
	Credential Credential
	// SessionID is minted for a new session (a UUID). Resume is the session
	// to go on from, as a Result named it; Fork makes it a new one.
	SessionID string
	Resume    string
	Fork      bool
}

// Credential is the placeholder a box gets in place of the real one. Kind is
// "api-key" or "oauth": the placeholder is of the same kind as the real one,
// because CLIs behave differently by kind.
//
// Where the operator allows docker.auth to be "env" or "mount" it is the real
// one, the box has no gateway, and BaseURL says where it is good for (empty: at
// the vendor's). Of "mount" the Kind is "login", and Login the file of the
// program's own login, without what renews it, in the place of a Token.
type Credential struct {
	Kind    string
	Token   string
	BaseURL string
	Login   string
}

// Command is a process to start in the box. Argv holds no user text that could
// be taken for a flag, no secret and no prompt.
type Command struct {
	Argv  []string
	Env   map[string]string // over the box's base environment
	Files []sandbox.File
	Stdin []byte
	Stop  []sandbox.StopStage
	// QuietEnd bounds how long the process may live after its final record.
	QuietEnd time.Duration
}

// End is what the executor knows about the ended process.
type End struct {
	Exit   sandbox.Exit
	Stderr []byte // its last 64 KiB
	// Gateway is what the gateway saw; it decides about money and truth.
	Gateway GatewayView
}

// GatewayView is what the gateway saw of one agent run.
type GatewayView struct {
	Usage event.Usage
	API   string // of the last exchange
	// LastStatus and LastReason are of the last exchange: HTTP status (0: no
	// exchange) and the gateway's own reason for a refusal
	// ("budget_exhausted", "model", "auth", "replay_miss", …).
	LastStatus int
	LastReason string
	// LastStop is the last response's stop reason in the vendor's words.
	LastStop string
	// RetryAt is when a rate limit ends; zero: unknown.
	RetryAt time.Time
	// Error is the last error body's message, cut to 2 KiB.
	Error string
}

// Result is how the agent fared. Cause is empty for success only.
type Result struct {
	Cause      event.Cause
	Message    string // for the person
	Hint       string // what to do next
	Text       string // the final answer
	Structured json.RawMessage
	SessionID  string
	Turns      int
	RetryAt    time.Time
}
