// Package sdk is the runtime of type "sdk": our own agent loop over a
// vendor's API, with no CLI installed. This package is its outside: it says
// how to start the loop in a box and reads what it prints. The loop itself is
// package sdk/agent, run inside the box as the verb `agent` of what is process 1
// there; the two speak the protocol of protocol.go.
package sdk

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
)

// Runtime is the SDK runtime for one vendor's API: type "sdk". Stateless.
type Runtime struct {
	engine string
}

// New returns the runtime for an engine: Anthropic, OpenAI or Gemini.
func New(engine string) Runtime { return Runtime{engine: engine} }

// Describe says what the loop can do.
func (r Runtime) Describe() runtimes.Description {
	return runtimes.Description{
		Name:   r.name(),
		Type:   runtimes.TypeSDK,
		Engine: r.engine,
		API:    r.api(),
		Features: []runtimes.Feature{
			runtimes.FeatureOutputSchema,
			runtimes.FeatureResume,
			runtimes.FeatureFork,
			runtimes.FeatureMCP,
			runtimes.FeatureMaxTurns,
			runtimes.FeatureMaxCost,
			runtimes.FeatureTools,
			runtimes.FeatureSystemPrompt,
			runtimes.FeatureFallback,
		},
		SessionState: []string{SessionDir},
		NoLogin:      "the loop takes keys, not the login of another program: set the key and use auth: env",
	}
}

func (r Runtime) name() string { return r.engine + "-sdk" }

func (r Runtime) api() string {
	switch r.engine {
	case OpenAI:
		return runtimes.APIOpenAI
	case Gemini:
		return runtimes.APIGemini
	}
	return runtimes.APIAnthropic
}

// Command is the verb `agent` of Box.Runner, with the task as a Request on stdin.
func (r Runtime) Command(task runtimes.Task) (runtimes.Command, error) {
	if err := runtimes.CheckTask(r, task); err != nil {
		return runtimes.Command{}, err
	}
	req, err := r.request(task)
	if err != nil {
		return runtimes.Command{}, err
	}
	if task.Box.Runner == "" {
		return runtimes.Command{}, fmt.Errorf("the box does not say where the herd-runner executable is")
	}
	env, err := r.environment(task)
	if err != nil {
		return runtimes.Command{}, err
	}
	stdin, err := json.Marshal(req)
	if err != nil {
		return runtimes.Command{}, fmt.Errorf("encode the task: %w", err)
	}
	return runtimes.Command{
		Argv:     []string{task.Box.Runner, "agent"},
		Env:      env,
		Stdin:    append(stdin, '\n'),
		Stop:     []sandbox.StopStage{{Signal: "TERM", Grace: 10 * time.Second}},
		QuietEnd: 10 * time.Second,
	}, nil
}

func (r Runtime) request(task runtimes.Task) (Request, error) {
	cfg := task.Config
	if len(cfg.Args) > 0 {
		return Request{}, runtimes.Refuse("args", "", "args: runtime %s has no command line: remove %q", r.name(), strings.Join(cfg.Args, " "))
	}
	servers, err := runtimes.MCPServers(cfg.MCPServers)
	if err != nil {
		return Request{}, err
	}
	if err := checkRules("allowed-tools", cfg.AllowedTools, servers); err != nil {
		return Request{}, err
	}
	if err := checkRules("denied-tools", cfg.DeniedTools, servers); err != nil {
		return Request{}, err
	}
	return Request{
		Version:            ProtocolVersion,
		Engine:             r.engine,
		Prompt:             strings.ToValidUTF8(task.Prompt, "\uFFFD"),
		Model:              cfg.Model,
		FallbackModel:      cfg.FallbackModel,
		MaxTurns:           cfg.MaxTurns,
		SystemPrompt:       cfg.SystemPrompt,
		AppendSystemPrompt: cfg.AppendSystemPrompt,
		AllowedTools:       cfg.AllowedTools,
		DeniedTools:        cfg.DeniedTools,
		MCPServers:         cfg.MCPServers,
		OutputSchema:       cfg.OutputSchema,
		SessionID:          task.SessionID,
		Resume:             task.Resume,
		Fork:               task.Fork,
		Workdir:            task.Box.Workdir,
		Home:               task.Box.Home,
	}, nil
}

// checkRules refuses entries of allowed-tools and denied-tools that name no tool
// of ours and no server of the step's.
func checkRules(key string, rules []string, servers []runtimes.MCPServer) error {
	for _, text := range rules {
		rule, err := ParseRule(text)
		if err != nil {
			return runtimes.Refuse(key, text, "%s: %v", key, err)
		}
		ofServer, ok := strings.CutPrefix(rule.Tool, MCPPrefix)
		server, _, _ := strings.Cut(ofServer, "__")
		if !ok || strings.Contains(server, "*") {
			continue
		}
		if !slices.ContainsFunc(servers, func(s runtimes.MCPServer) bool { return s.Name == server }) {
			return runtimes.Refuse(key, text, "%s: %q: there is no server %q in mcp-servers", key, text, server)
		}
	}
	return nil
}

// environment points the loop at the gateway with a placeholder of the same
// kind as the real credential.
func (r Runtime) environment(task runtimes.Task) (map[string]string, error) {
	v := r.variables()
	env, err := runtimes.Environment(task, nil, append(Credentials(r.engine), v.baseURL))
	if err != nil {
		return nil, err
	}
	switch {
	case task.Box.Gateway != "":
		env[v.baseURL] = "http://" + task.Box.Gateway + v.path
	case task.Config.BaseURL != "":
		env[v.baseURL] = task.Config.BaseURL
	}
	name := v.key
	if task.Credential.Kind == "oauth" && v.token != "" {
		name = v.token
	}
	if task.Credential.Token != "" {
		env[name] = task.Credential.Token
	}
	return env, nil
}

// variables are where an engine's address and credential stand.
type variables struct {
	baseURL, path string // path is behind the gateway's address
	key           string
	token         string // of a login; empty: as the key
}

func (r Runtime) variables() variables {
	switch r.engine {
	case OpenAI:
		return variables{baseURL: EnvOpenAIBaseURL, path: "/v1", key: EnvOpenAIKey}
	case Gemini:
		return variables{baseURL: EnvGeminiBaseURL, key: EnvGeminiKey}
	}
	return variables{baseURL: EnvBaseURL, key: EnvAPIKey, token: EnvOAuthToken}
}
