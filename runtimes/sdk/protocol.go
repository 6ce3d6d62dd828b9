package sdk

import (
	"encoding/json"

	"github.com/herd-runner/herd-runner/internal/event"
)

// ProtocolVersion is that of Request and Record. Runner and guest are of one
// build; the number catches a mix-up.
const ProtocolVersion = 3

// The engines, by the vendor whose API the loop speaks.
const (
	Anthropic = "anthropic" // Messages
	OpenAI    = "openai"    // Chat Completions, of OpenAI and of compatible endpoints
	Gemini    = "gemini"    // streamGenerateContent
)

// The environment of the loop: each engine has an address and a credential.
const (
	EnvBaseURL       = "ANTHROPIC_BASE_URL"
	EnvAPIKey        = "ANTHROPIC_API_KEY"
	EnvOAuthToken    = "CLAUDE_CODE_OAUTH_TOKEN"
	EnvOpenAIBaseURL = "OPENAI_BASE_URL" // with /v1
	EnvOpenAIKey     = "OPENAI_API_KEY"
	EnvGeminiBaseURL = "GOOGLE_GEMINI_BASE_URL" // before /v1beta
	EnvGeminiKey     = "GEMINI_API_KEY"
)

// Credentials are the variables of engine that the loop's tools do not see.
func Credentials(engine string) []string {
	switch engine {
	case OpenAI:
		return []string{EnvOpenAIKey}
	case Gemini:
		return []string{EnvGeminiKey}
	}
	return []string{EnvAPIKey, EnvOAuthToken}
}

// SessionDir is below HOME. A session is one file, a JSON line per message.
const SessionDir = ".herd-agent/sessions"

// StructuredTool is the tool through which the model gives structured output.
const StructuredTool = "structured_output"

// Tools are the names of the loop's tools for rules. Those that go with another,
// such as bash_output with bash, have no rules of their own.
func Tools() []string {
	return []string{"bash", "read", "write", "edit", "glob", "grep", "list", "fetch"}
}

// Request is the task, one JSON object on the loop's stdin.
type Request struct {
	Version            int             `json:"version"`
	Engine             string          `json:"engine"`
	Prompt             string          `json:"prompt"`
	Model              string          `json:"model,omitempty"`
	FallbackModel      string          `json:"fallback_model,omitempty"`
	MaxTurns           int             `json:"max_turns,omitempty"` // 0: no limit
	SystemPrompt       string          `json:"system_prompt,omitempty"`
	AppendSystemPrompt string          `json:"append_system_prompt,omitempty"`
	AllowedTools       []string        `json:"allowed_tools,omitempty"` // Rules; nil: all
	DeniedTools        []string        `json:"denied_tools,omitempty"`
	MCPServers         json.RawMessage `json:"mcp_servers,omitempty"` // for runtimes.MCPServers
	OutputSchema       json.RawMessage `json:"output_schema,omitempty"`
	SessionID          string          `json:"session_id,omitempty"`
	Resume             string          `json:"resume,omitempty"`
	Fork               bool            `json:"fork,omitempty"`
	Workdir            string          `json:"workdir"`
	Home               string          `json:"home"`
}

// Record is one line of the loop's stdout. Type is a kind of agent message and
// says which fields are set:
//
//	init         session_id, model
//	text         text
//	thinking     text
//	tool_call    call_id, tool, input
//	tool_result  call_id, text, is_error
//	retry        text
//	warning      text
//	result       text, structured, cause, message, hint, turns, session_id; the last line
type Record struct {
	Type       event.MessageKind `json:"type"`
	Text       string            `json:"text,omitempty"`
	Tool       string            `json:"tool,omitempty"`
	CallID     string            `json:"call_id,omitempty"`
	Input      json.RawMessage   `json:"input,omitempty"`
	IsError    bool              `json:"is_error,omitempty"`
	SessionID  string            `json:"session_id,omitempty"`
	Model      string            `json:"model,omitempty"`
	Structured json.RawMessage   `json:"structured,omitempty"`
	Cause      event.Cause       `json:"cause,omitempty"` // empty: success
	Message    string            `json:"message,omitempty"`
	Hint       string            `json:"hint,omitempty"`
	Turns      int               `json:"turns,omitempty"`
}
