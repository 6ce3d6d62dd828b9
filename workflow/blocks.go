package workflow

import (
	"encoding/json"
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// Docker is an evaluated `docker:` block. Zero values mean "not said".
type Docker struct {
	Host          bool // docker: false
	Image         string
	Pull          string // "always", "missing", "never"
	Memory        int64  // bytes
	CPUs          float64
	CPUShares     int64
	CPUPeriod     int64 // microseconds
	CPUQuota      int64 // microseconds
	PidsLimit     int64
	ShmSize       int64 // bytes
	Network       Network
	User          string // "uid:gid"
	Volumes       []Volume
	Tmpfs         []Tmpfs
	Env           map[string]string
	Labels        map[string]string
	Ports         []string
	Ulimits       []Ulimit
	ReadOnly      *bool
	Ephemeral     *bool
	MaxContainers int
	Reuse         bool
	OCIRuntime    string
	Auth          string // "gateway", "env", "mount"
	HostConfig    json.RawMessage
	Privileged    bool
}

// Network is an evaluated `docker.network`.
type Network struct {
	Mode    string // "", "none", "bridge", "host", "allow"
	Allow   []string
	Gateway *bool // false: not even the model gateway
}

// Volume is one `host:container[:ro|rw]`.
type Volume struct {
	Source, Target string
	ReadOnly       bool
}

// Tmpfs is one in-memory file system.
type Tmpfs struct {
	Target string
	Size   int64 // bytes
	Exec   bool
}

// Ulimit is one resource limit.
type Ulimit struct {
	Name       string
	Soft, Hard int64
}

// Runtime is an evaluated `runtime:` block.
type Runtime struct {
	Type, Engine, Model, FallbackModel string
	MaxTurns                           int
	MaxCostUSD                         float64
	MaxTokens                          int64
	MaxUnanswered                      int     // 0: the gateway's default
	StallMinutes                       float64 // 0: the executor's default
	SystemPrompt, AppendSystemPrompt   string
	AllowedTools, DeniedTools          []string
	PermissionMode                     string
	MCPServers                         json.RawMessage
	Session                            Session         // zero: a new one
	OutputSchema                       json.RawMessage // property order kept
	Env                                map[string]string
	Args                               []string
	BaseURL                            string
	Command                            []string // of engine `command`
	Prompt                             string   // "", "stdin", "file"
	Output                             string   // "", "text", "json-lines"
	APIs                               []string // "anthropic", "openai", "gemini"
}

// Session names the step whose conversation another goes on with.
type Session struct {
	Job  string // empty: the step's own
	Step string
	Fork bool
}

// SessionOf gives the session that a step goes on with; the zero Session where
// it begins its own.
func SessionOf(s *Step) Session {
	at := s.Runtime.Get("session")
	if at == nil {
		return Session{}
	}
	d := &decoder{eval: staticEval, static: true}
	return d.session(at)
}

// SessionSource gives the step whose session another goes on with; nil where it
// begins its own, or names none there is.
func (w *Workflow) SessionSource(job *Job, s *Step) *Step {
	named := SessionOf(s)
	if named.Step == "" {
		return nil
	}
	for _, j := range w.Jobs {
		if named.Job == "" && j == job || named.Job != "" && strings.EqualFold(j.ID, named.Job) {
			return stepByID(j, named.Step)
		}
	}
	return nil
}

// ChooseRuntime puts a chosen type and engine in place of `type: auto`.
func (s *Step) ChooseRuntime(typ, engine string) {
	at := s.Runtime.Get("type")
	chosen := func(text string) *Value {
		return &Value{Pos: at.Pos, EndLine: at.EndLine, Text: text, Plain: text, src: at.src, size: 1}
	}
	s.Runtime = Merge(s.Runtime, wrap("type", chosen(typ)), wrap("engine", chosen(engine)))
}

// Retry is an evaluated `retry:` of a step.
type Retry struct {
	Max int
	On  []string // causes; empty: rate_limited, stalled, infrastructure
}

// Budget is an evaluated `budget:` block. Zero: no limit.
type Budget struct {
	MaxCostUSD  float64
	MaxTokens   int64 // of all kinds, cached ones too
	MaxRequests int64
	MaxTurns    int64
}

// EvalFunc evaluates a Value in the scope of a step: scalars that are one whole
// ${{ }} keep their type, mappings become *expr.Object, sequences *expr.Array.
type EvalFunc func(v *Value) (expr.Value, error)
