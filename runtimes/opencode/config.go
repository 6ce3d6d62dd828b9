package opencode

import (
	"encoding/json"
	"fmt"
	"path"

	"github.com/herd-runner/herd-runner/runtimes"
)

// config is OPENCODE_CONFIG_CONTENT. The CLI replaces {env:NAME} and
// {file:PATH} in its strings.
type config struct {
	AutoUpdate       bool                      `json:"autoupdate"`
	Share            string                    `json:"share"`
	Snapshot         bool                      `json:"snapshot"` // a git repository of its own, for undo
	EnabledProviders []string                  `json:"enabled_providers"`
	Provider         map[string]providerConfig `json:"provider"`
	Permission       *permissions              `json:"permission"`
	Instructions     []string                  `json:"instructions"`
	Agent            map[string]agentConfig    `json:"agent,omitempty"`
	MCP              map[string]mcpServer      `json:"mcp,omitempty"`
}

type providerConfig struct {
	NPM     string              `json:"npm,omitempty"`
	Name    string              `json:"name,omitempty"`
	Options providerOptions     `json:"options"`
	Models  map[string]struct{} `json:"models"`
}

type providerOptions struct {
	BaseURL string `json:"baseURL,omitempty"`
	APIKey  string `json:"apiKey"`
}

type agentConfig struct {
	Prompt string `json:"prompt"`
}

type mcpServer struct {
	Type        string            `json:"type"`
	Command     []string          `json:"command,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
	URL         string            `json:"url,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Enabled     bool              `json:"enabled"`
}

// configuration takes the paths of the two prompts; "" for none.
func configuration(task runtimes.Task, systemPrompt, appended string) (string, error) {
	allowed, err := permission(task)
	if err != nil {
		return "", err
	}
	servers, err := mcpServers(task)
	if err != nil {
		return "", err
	}
	v, model := choose(task)
	p := providerConfig{
		Options: providerOptions{APIKey: "{env:" + v.key + "}"},
		Models:  map[string]struct{}{model: {}},
	}
	if v.provider == compatible {
		p.NPM, p.Name = "@ai-sdk/openai-compatible", compatible // built into the CLI
		p.Options.BaseURL = task.Config.BaseURL
	}
	if task.Box.Gateway != "" {
		p.Options.BaseURL = "http://" + task.Box.Gateway + v.path
	}
	out := config{
		Share:            "disabled",
		EnabledProviders: []string{v.provider},
		Provider:         map[string]providerConfig{v.provider: p},
		Permission:       allowed,
		// With the project's configuration the CLI leaves these out as well.
		Instructions: []string{path.Join(task.Box.Workdir, "AGENTS.md"), path.Join(task.Box.Workdir, "CLAUDE.md")},
		MCP:          servers,
	}
	if appended != "" {
		out.Instructions = append(out.Instructions, appended)
	}
	if systemPrompt != "" {
		out.Agent = map[string]agentConfig{"build": {Prompt: "{file:" + systemPrompt + "}"}}
	}
	data, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("configuration: %w", err)
	}
	return string(data), nil
}

func mcpServers(task runtimes.Task) (map[string]mcpServer, error) {
	servers, err := runtimes.MCPServers(task.Config.MCPServers)
	if err != nil {
		return nil, err
	}
	out := map[string]mcpServer{}
	for _, s := range servers {
		if s.URL != "" {
			out[s.Name] = mcpServer{Type: "remote", URL: s.URL, Headers: s.Headers, Enabled: true}
			continue
		}
		out[s.Name] = mcpServer{Type: "local", Command: append([]string{s.Command}, s.Args...), Environment: s.Env, Enabled: true}
	}
	return out, nil
}
