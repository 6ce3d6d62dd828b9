// Package sdk is the runtime of type "sdk": our own agent loop over the
// vendor's API, with no CLI installed. This package is its outside: it says
// how to start the loop in a box and reads what it prints. The loop itself is
// package sdk/agent, run by the hidden verb `herd-runner agent` inside the
// box; the two speak the protocol of protocol.go.
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

// Runtime is the SDK runtime for Anthropic's API: type "sdk", engine
// "anthropic". Stateless.
type Runtime struct{}

// New returns the runtime.
func New() Runtime { return Runtime{} }

// Describe says what the loop can do.
func (Runtime) Describe() runtimes.Description {
	return runtimes.Description{
		Name:   "anthropic-sdk",
		Type:   runtimes.TypeSDK,
		Engine: "anthropic",
		API:    "anthropic",
		Features: []runtimes.Feature{
			runtimes.FeatureOutputSchema,
			runtimes.FeatureResume,
			runtimes.FeatureFork,
			runtimes.FeatureMaxTurns,
			runtimes.FeatureMaxCost,
			runtimes.FeatureTools,
			runtimes.FeatureSystemPrompt,
			runtimes.FeatureFallback,
		},
	}
}

// Command is `herd-runner agent` with the task as a Request on stdin.
func (r Runtime) Command(task runtimes.Task) (runtimes.Command, error) {
	if err := runtimes.CheckTask(r, task); err != nil {
		return runtimes.Command{}, err
	}
	req, err := request(task)
	if err != nil {
		return runtimes.Command{}, err
	}
	if task.Box.Runner == "" {
		return runtimes.Command{}, fmt.Errorf("the box does not say where the herd-runner executable is")
	}
	env, err := environment(task)
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

func request(task runtimes.Task) (Request, error) {
	cfg := task.Config
	if cfg.PermissionMode != "" && cfg.PermissionMode != "bypassPermissions" {
		return Request{}, fmt.Errorf("permission-mode %q: runtime anthropic-sdk never asks; use allowed-tools or denied-tools, or a ro workspace", cfg.PermissionMode)
	}
	if len(cfg.Args) > 0 {
		return Request{}, fmt.Errorf("args: runtime anthropic-sdk has no command line: remove %q", strings.Join(cfg.Args, " "))
	}
	allowed, err := toolNames("allowed-tools", cfg.AllowedTools)
	if err != nil {
		return Request{}, err
	}
	denied, err := toolNames("denied-tools", cfg.DeniedTools)
	if err != nil {
		return Request{}, err
	}
	return Request{
		Version:            ProtocolVersion,
		Prompt:             strings.ToValidUTF8(task.Prompt, "\uFFFD"),
		Model:              cfg.Model,
		FallbackModel:      cfg.FallbackModel,
		MaxTurns:           cfg.MaxTurns,
		SystemPrompt:       cfg.SystemPrompt,
		AppendSystemPrompt: cfg.AppendSystemPrompt,
		AllowedTools:       allowed,
		DeniedTools:        denied,
		OutputSchema:       cfg.OutputSchema,
		SessionID:          task.SessionID,
		Resume:             task.Resume,
		Fork:               task.Fork,
		Workdir:            task.Box.Workdir,
		Home:               task.Box.Home,
	}, nil
}

// toolNames takes our names and the CLI's spelling of them ("Bash"), so that a
// step can change its runtime and keep its list.
func toolNames(key string, names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		tool := strings.ToLower(strings.TrimSpace(name))
		if tool == "ls" {
			tool = "list"
		}
		if !slices.Contains(Tools(), tool) {
			return nil, fmt.Errorf("%s: unknown tool %q: runtime anthropic-sdk has %s (whole tools only, no patterns)", key, name, strings.Join(Tools(), ", "))
		}
		out = append(out, tool)
	}
	return out, nil
}

// environment points the loop at the gateway with a placeholder of the same
// kind as the real credential.
func environment(task runtimes.Task) (map[string]string, error) {
	env := map[string]string{}
	for name, value := range task.Config.Env {
		switch name {
		case EnvBaseURL, EnvAPIKey, EnvOAuthToken:
			return nil, fmt.Errorf("env: %s is set by the runner, which keeps credentials out of the box: remove it (base-url chooses another endpoint)", name)
		}
		env[name] = value
	}
	for _, name := range []string{EnvBaseURL, EnvAPIKey, EnvOAuthToken} {
		if task.Box.Env[name] != "" {
			env[name] = ""
		}
	}
	env["HOME"] = task.Box.Home
	env["TMPDIR"] = task.Box.Temp
	switch {
	case task.Box.Gateway != "":
		env[EnvBaseURL] = "http://" + task.Box.Gateway
	case task.Config.BaseURL != "":
		env[EnvBaseURL] = task.Config.BaseURL
	}
	switch task.Credential.Kind {
	case "api-key":
		env[EnvAPIKey] = task.Credential.Token
	case "oauth":
		env[EnvOAuthToken] = task.Credential.Token
	case "":
		if task.Box.Gateway != "" {
			return nil, fmt.Errorf("the task has no credential for the gateway")
		}
	default:
		return nil, fmt.Errorf("credential kind %q: expected api-key or oauth", task.Credential.Kind)
	}
	runtimes.TrustWorkspace(env, task.Box)
	return env, nil
}
