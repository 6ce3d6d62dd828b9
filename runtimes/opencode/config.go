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

// The two providers: OpenAI itself speaks Responses, of which the CLI knows the
// models; what else speaks "the OpenAI API" (base-url) means Chat Completions.
const (
	openAI     = "openai"
	compatible = "herd"
)

func provider(task runtimes.Task) string {
	if task.Config.BaseURL != "" {
		return compatible
	}
	return openAI
}

func model(task runtimes.Task) string {
	if task.Config.Model == "" {
		return DefaultModel
	}
	return task.Config.Model
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
	p := providerConfig{
		Options: providerOptions{APIKey: "{env:" + keyVariable + "}"},
		Models:  map[string]struct{}{model(task): {}},
	}
	if provider(task) == compatible {
		p.NPM, p.Name = "@ai-sdk/openai-compatible", compatible // built into the CLI
		p.Options.BaseURL = task.Config.BaseURL
	}
	if task.Box.Gateway != "" {
		p.Options.BaseURL = "http://" + task.Box.Gateway + "/v1"
	}
	out := config{
		Share:            "disabled",
		EnabledProviders: []string{provider(task)},
		Provider:         map[string]providerConfig{provider(task): p},
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
