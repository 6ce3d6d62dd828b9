package codex

import (
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/herd-runner/herd-runner/runtimes"
)

// config is the config.toml of one run. A project's own .codex/config.toml,
// hooks and rules count in trusted projects only, and no project is trusted
// here; AGENTS.md and skills count all the same. (A project that is marked
// untrusted loses those too, so it is not mentioned at all.)
type config struct {
	Model                 string               `toml:"model,omitempty"`
	ModelProvider         string               `toml:"model_provider"`
	ApprovalPolicy        string               `toml:"approval_policy"`
	SandboxMode           string               `toml:"sandbox_mode"`
	WebSearch             string               `toml:"web_search"`
	CheckForUpdate        bool                 `toml:"check_for_update_on_startup"`
	ModelInstructionsFile string               `toml:"model_instructions_file,omitempty"`
	DeveloperInstructions string               `toml:"developer_instructions,omitempty"`
	ProjectDocFallback    []string             `toml:"project_doc_fallback_filenames"`
	Analytics             toggle               `toml:"analytics"`
	Feedback              toggle               `toml:"feedback"`
	Features              map[string]bool      `toml:"features"`
	ModelProviders        map[string]provider  `toml:"model_providers"`
	MCPServers            map[string]mcpServer `toml:"mcp_servers,omitempty"`
}

type toggle struct {
	Enabled bool `toml:"enabled"`
}

type provider struct {
	Name         string `toml:"name"`
	BaseURL      string `toml:"base_url"`
	EnvKey       string `toml:"env_key"`
	WireAPI      string `toml:"wire_api"`
	StreamIdleMS int    `toml:"stream_idle_timeout_ms"`
}

type mcpServer struct {
	Command     string            `toml:"command,omitempty"`
	Args        []string          `toml:"args,omitempty"`
	Env         map[string]string `toml:"env,omitempty"`
	URL         string            `toml:"url,omitempty"`
	HTTPHeaders map[string]string `toml:"http_headers,omitempty"`
	Required    bool              `toml:"required"`
}

// providerName is no built-in provider's: those try a WebSocket first.
const providerName = "herd"

func configFile(task runtimes.Task, instructions string) ([]byte, error) {
	cfg := task.Config
	sandboxMode, err := sandboxMode(task)
	if err != nil {
		return nil, err
	}
	servers, err := mcpServers(task)
	if err != nil {
		return nil, err
	}
	out, err := toml.Marshal(config{
		Model:          cfg.Model,
		ModelProvider:  providerName,
		ApprovalPolicy: "never",
		SandboxMode:    sandboxMode,
		// It runs at the vendor and would reach what the box may not.
		WebSearch:             "disabled",
		ModelInstructionsFile: instructions,
		DeveloperInstructions: strings.ToValidUTF8(cfg.AppendSystemPrompt, "\uFFFD"),
		ProjectDocFallback:    []string{"CLAUDE.md"},
		Features: map[string]bool{
			// With it a refused connection is tried for ever.
			"unbounded_connection_retries": false,
			// These speak to the vendor beside the model.
			"apps":    false,
			"plugins": false,
			// An agent before this one may have left some in HOME.
			"hooks": false,
		},
		ModelProviders: map[string]provider{providerName: {
			Name:    providerName,
			BaseURL: baseURL(task),
			EnvKey:  keyVariable,
			WireAPI: "responses",
			// The CLI's own 300 s, five times over, is longer than any stall
			// should last.
			StreamIdleMS: 180_000,
		}},
		MCPServers: servers,
	})
	if err != nil {
		return nil, fmt.Errorf("config.toml: %w", err)
	}
	return out, nil
}

func baseURL(task runtimes.Task) string {
	switch {
	case task.Box.Gateway != "":
		return "http://" + task.Box.Gateway + "/v1"
	case task.Config.BaseURL != "":
		return task.Config.BaseURL
	}
	return "https://api.openai.com/v1"
}

// sandboxMode turns permission-mode into the CLI's sandbox. That can not nest in
// ours: the CLI would run nothing and still end with exit code 0.
func sandboxMode(task runtimes.Task) (string, error) {
	mode, host := task.Config.PermissionMode, task.Box.Backend == "host"
	switch mode {
	case "":
		if host {
			return "workspace-write", nil
		}
		return "danger-full-access", nil
	case "danger-full-access":
		return mode, nil
	case "read-only", "workspace-write":
		if host {
			return mode, nil
		}
		return "", runtimes.Refuse("permission-mode", "", "permission-mode %q: codex's own sandbox can not run inside a box; leave it out and use `workspace: ro` or `docker.network` instead", mode)
	}
	return "", runtimes.Refuse("permission-mode", "", "permission-mode %q: expected read-only, workspace-write or danger-full-access, as in codex's --sandbox", mode)
}

// mcpServers are required: a server that does not start would otherwise be
// missed in silence.
func mcpServers(task runtimes.Task) (map[string]mcpServer, error) {
	servers, err := runtimes.MCPServers(task.Config.MCPServers)
	if err != nil {
		return nil, err
	}
	out := map[string]mcpServer{}
	for _, s := range servers {
		if s.SSE {
			return nil, runtimes.Refuse("mcp-servers", s.Name, "mcp-servers: %s: codex has no transport \"sse\": expected a command, or the url of a server that speaks streamable HTTP (type: http)", s.Name)
		}
		out[s.Name] = mcpServer{Command: s.Command, Args: s.Args, Env: s.Env, URL: s.URL, HTTPHeaders: s.Headers, Required: true}
	}
	return out, nil
}
