package runtimes

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

// Problem is one reason why a runtime can not do what a configuration asks.
type Problem struct {
	Keys []string // of `runtime:`, one of which asks for it
	// Entry is the item or the key of that value which is wrong; empty: the whole.
	Entry string
	Text  string
}

// Problems is an error with all the reasons.
type Problems []Problem

func (p Problems) Error() string {
	texts := make([]string, len(p))
	for i := range p {
		texts[i] = p[i].Text
	}
	return strings.Join(texts, "; ")
}

// Refuse is the problem that a key of `runtime:`, or an entry of its value, can not
// be right.
func Refuse(key, entry, format string, args ...any) error {
	return Problems{{Keys: []string{key}, Entry: entry, Text: fmt.Sprintf(format, args...)}}
}

// or is nil where there are none.
func (p Problems) or() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// need is one feature with the words for it in an error, and its keys.
type need struct {
	feature Feature
	wanted  bool
	words   string
	keys    []string
}

// needs are all features, with whether cfg asks for them.
func needs(cfg Config) []need {
	return []need{
		{FeatureOutputSchema, cfg.OutputSchema != nil, "an output schema", []string{"output-schema"}},
		{FeatureMCP, hasServers(cfg.MCPServers), "MCP servers", []string{"mcp-servers"}},
		{FeatureMaxTurns, cfg.MaxTurns != 0, "a limit of turns", []string{"max-turns"}},
		{FeatureMaxCost, cfg.MaxCostUSD != 0 || cfg.MaxTokens != 0, "a budget", []string{"max-cost-usd", "max-tokens"}},
		{FeatureTools, len(cfg.AllowedTools)+len(cfg.DeniedTools) > 0, "a choice of tools", []string{"allowed-tools", "denied-tools"}},
		{FeatureSystemPrompt, cfg.SystemPrompt != "" || cfg.AppendSystemPrompt != "", "a system prompt", []string{"system-prompt", "append-system-prompt"}},
		{FeaturePermission, cfg.PermissionMode != "", "a permission mode", []string{"permission-mode"}},
		{FeatureFallback, cfg.FallbackModel != "", "a second model", []string{"fallback-model"}},
		{FeatureResume, cfg.Session == SessionResume, "to resume a session", []string{"session"}},
		{FeatureFork, cfg.Session == SessionFork, "to fork a session", []string{"session"}},
	}
}

// Check reports, before anything runs, what cfg asks of rt that rt does not
// have or that can not be right: Problems.
func Check(rt Runtime, cfg Config) error {
	problems := lacking(rt.Describe(), needs(cfg))
	add := func(key, format string, args ...any) {
		problems = append(problems, Problem{Keys: []string{key}, Text: fmt.Sprintf(format, args...)})
	}
	if cfg.MaxTurns < 0 {
		add("max-turns", "max-turns is %d: expected 1 or more, or leave it out for no limit", cfg.MaxTurns)
	}
	if !(cfg.MaxCostUSD >= 0) {
		add("max-cost-usd", "max-cost-usd is %v: expected an amount above 0, or leave it out for no limit", cfg.MaxCostUSD)
	}
	if cfg.MaxTokens < 0 {
		add("max-tokens", "max-tokens is %d: expected 1 or more, or leave it out for no limit", cfg.MaxTokens)
	}
	if cfg.OutputSchema != nil {
		if _, err := schema.Compile(cfg.OutputSchema); err != nil {
			add("output-schema", "output-schema: %v", err)
		}
	}
	if _, err := Servers(cfg.MCPServers); err != nil {
		var of Problems
		errors.As(err, &of)
		problems = append(problems, of...)
	}
	return problems.or()
}

// CheckTask is Check and what only a task knows: its session, its prompt.
// Every Command begins with it.
func CheckTask(rt Runtime, task Task) error {
	d := rt.Describe()
	if err := Check(rt, task.Config); err != nil {
		return err
	}
	session := []string{"session"}
	problems := lacking(d, []need{
		{FeatureResume, task.Resume != "", "to resume a session", session},
		{FeatureFork, task.Fork, "to fork a session", session},
		{FeatureAuthMount, task.Credential.Kind == "login", "the login of its own program", []string{"docker.auth"}},
	})
	add := func(keys []string, format string, args ...any) {
		problems = append(problems, Problem{Keys: keys, Text: fmt.Sprintf(format, args...)})
	}
	if strings.TrimSpace(task.Prompt) == "" {
		add(nil, "the prompt is empty: write what the agent should do")
	}
	if task.Fork && task.Resume == "" {
		add(session, "a session can only be forked when it is resumed: name the session to go on from")
	}
	if id := task.SessionID; id != "" && !validUUID(id) {
		add(nil, "session id %q is not a UUID such as 3f2b6c1e-8a4d-4f7b-9c2e-5d1a0b7e6f43", id)
	}
	if id := task.Resume; id != "" && !d.ValidSession(id) {
		add(session, "session id %q is none of runtime %s: expected one that an earlier run of it gave as session-id", id, d.Name)
	}
	return problems.or()
}

// Servers splits an mcp-servers object by name. Keys that a runtime knows beside
// the common ones are left to it.
func Servers(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var servers map[string]json.RawMessage
	if err := json.Unmarshal(raw, &servers); err != nil {
		return nil, Refuse("mcp-servers", "", "mcp-servers: expected an object of servers by name")
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		var form *mcpForm
		if err := json.Unmarshal(servers[name], &form); err != nil {
			return nil, Refuse("mcp-servers", name, "mcp-servers: %s: %v", name, misformed(err))
		}
		if form == nil || (form.Command == "") == (form.URL == "") {
			return nil, Refuse("mcp-servers", name, "mcp-servers: %s: expected either command (a program) or url (an address)", name)
		}
	}
	return servers, nil
}

func hasServers(raw json.RawMessage) bool {
	servers, err := Servers(raw)
	return err != nil || len(servers) > 0
}

func lacking(d Description, needs []need) Problems {
	var problems Problems
	for _, n := range needs {
		if n.wanted && !d.Has(n.feature) {
			problems = append(problems, Problem{Keys: n.keys, Text: fmt.Sprintf("needs %s (%s), which runtime %s lacks", n.words, strings.Join(n.keys, ", "), d.Name)})
		}
	}
	return problems
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
