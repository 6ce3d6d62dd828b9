package runtimes

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/runtimes/schema"
)

// Has reports whether the runtime has feature.
func (d Description) Has(feature Feature) bool { return slices.Contains(d.Features, feature) }

// ValidSession reports whether id has the form of the runtime's session ids.
func (d Description) ValidSession(id string) bool {
	if d.Sessions == "" {
		return validUUID(id)
	}
	whole, err := regexp.MatchString("^(?:"+d.Sessions+")$", id)
	return err == nil && whole
}

// need is one feature with the words for it in a workflow and in an error.
type need struct {
	feature Feature
	wanted  bool
	words   string // "MCP servers (mcp-servers)"
}

// Check reports, before anything runs, what cfg asks of rt that rt does not
// have or that can not be right. All of it is in one error.
func Check(rt Runtime, cfg Config) error {
	d := rt.Describe()
	problems := lacking(d, []need{
		{FeatureOutputSchema, cfg.OutputSchema != nil, "an output schema (output-schema)"},
		{FeatureMCP, hasServers(cfg.MCPServers), "MCP servers (mcp-servers)"},
		{FeatureMaxTurns, cfg.MaxTurns != 0, "a limit of turns (max-turns)"},
		{FeatureMaxCost, cfg.MaxCostUSD != 0 || cfg.MaxTokens != 0, "a budget (max-cost-usd, max-tokens)"},
		{FeatureTools, len(cfg.AllowedTools)+len(cfg.DeniedTools) > 0, "a choice of tools (allowed-tools, denied-tools)"},
		{FeatureSystemPrompt, cfg.SystemPrompt != "" || cfg.AppendSystemPrompt != "", "a system prompt (system-prompt, append-system-prompt)"},
		{FeatureFallback, cfg.FallbackModel != "", "a second model (fallback-model)"},
	})
	if cfg.MaxTurns < 0 {
		problems = append(problems, fmt.Sprintf("max-turns is %d: expected 1 or more, or leave it out for no limit", cfg.MaxTurns))
	}
	if !(cfg.MaxCostUSD >= 0) {
		problems = append(problems, fmt.Sprintf("max-cost-usd is %v: expected an amount above 0, or leave it out for no limit", cfg.MaxCostUSD))
	}
	if cfg.MaxTokens < 0 {
		problems = append(problems, fmt.Sprintf("max-tokens is %d: expected 1 or more, or leave it out for no limit", cfg.MaxTokens))
	}
	if cfg.OutputSchema != nil {
		if _, err := schema.Compile(cfg.OutputSchema); err != nil {
			problems = append(problems, "output-schema: "+err.Error())
		}
	}
	if _, err := Servers(cfg.MCPServers); err != nil {
		problems = append(problems, err.Error())
	}
	return join(problems)
}

// CheckTask is Check and what only a task knows: its session, its prompt.
// Every Command begins with it.
func CheckTask(rt Runtime, task Task) error {
	d := rt.Describe()
	if err := Check(rt, task.Config); err != nil {
		return err
	}
	problems := lacking(d, []need{
		{FeatureResume, task.Resume != "", "to resume a session (session)"},
		{FeatureFork, task.Fork, "to fork a session (session)"},
	})
	if strings.TrimSpace(task.Prompt) == "" {
		problems = append(problems, "the prompt is empty: write what the agent should do")
	}
	if task.Fork && task.Resume == "" {
		problems = append(problems, "a session can only be forked when it is resumed: name the session to go on from")
	}
	if id := task.SessionID; id != "" && !validUUID(id) {
		problems = append(problems, fmt.Sprintf("session id %q is not a UUID such as 3f2b6c1e-8a4d-4f7b-9c2e-5d1a0b7e6f43", id))
	}
	if id := task.Resume; id != "" && !d.ValidSession(id) {
		problems = append(problems, fmt.Sprintf("session id %q is none of runtime %s: expected one that an earlier run of it gave as session-id", id, d.Name))
	}
	return join(problems)
}

// Servers splits an mcp-servers object by name.
func Servers(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var servers map[string]json.RawMessage
	if err := json.Unmarshal(raw, &servers); err != nil {
		return nil, fmt.Errorf("mcp-servers: expected an object of servers by name")
	}
	return servers, nil
}

func hasServers(raw json.RawMessage) bool {
	servers, err := Servers(raw)
	return err != nil || len(servers) > 0
}

func lacking(d Description, needs []need) []string {
	var problems []string
	for _, n := range needs {
		if n.wanted && !d.Has(n.feature) {
			problems = append(problems, fmt.Sprintf("needs %s, which runtime %s lacks", n.words, d.Name))
		}
	}
	return problems
}

func join(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(problems, "; "))
}

// validUUID takes the 8-4-4-4-12 form only.
func validUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
			continue
		}
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return false
		}
	}
	return true
}
