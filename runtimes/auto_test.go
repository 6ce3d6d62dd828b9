package runtimes_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/claude"
	"github.com/herd-runner/herd-runner/runtimes/codex"
	"github.com/herd-runner/herd-runner/runtimes/command"
	"github.com/herd-runner/herd-runner/runtimes/gemini"
	"github.com/herd-runner/herd-runner/runtimes/opencode"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

// TestChoose (FUTURE-01): by what a step asks, in a fixed order, each other with
// its reason.
func TestChoose(t *testing.T) {
	f, err := runtimes.NewFactory(command.New(), sdk.New(sdk.Gemini), claude.New(), codex.New(), gemini.New(), opencode.New(), sdk.New(sdk.Anthropic), sdk.New(sdk.OpenAI))
	if err != nil {
		t.Fatal(err)
	}
	const all = "cli/claude cli/codex cli/gemini cli/opencode sdk/gemini sdk/anthropic sdk/openai"
	for name, tt := range map[string]struct {
		cfg    runtimes.Config
		want   string
		passed string
	}{
		"nothing asked":        {runtimes.Config{}, all, ""},
		"its engine":           {runtimes.Config{Engine: "gemini"}, "cli/gemini sdk/gemini", ""},
		"engine command":       {runtimes.Config{Engine: "command"}, "", ""},
		"an output schema":     {runtimes.Config{OutputSchema: json.RawMessage(`{"type":"object"}`)}, "cli/claude cli/codex sdk/gemini sdk/anthropic sdk/openai", "cli/gemini: lacks output-schema"},
		"MCP servers":          {runtimes.Config{MCPServers: json.RawMessage(`{"a":{"command":"b"}}`)}, all, ""},
		"a fork and turns":     {runtimes.Config{Session: runtimes.SessionFork, MaxTurns: 3}, "cli/claude sdk/gemini sdk/anthropic sdk/openai", "cli/codex: lacks max-turns"},
		"a model":              {runtimes.Config{Model: "gpt-5.6-sol"}, "cli/codex cli/opencode sdk/openai", `cli/claude: the model "gpt-5.6-sol" is of another vendor`},
		"a model with vendor":  {runtimes.Config{Model: "google/gemini-2.5-pro"}, "cli/gemini sdk/gemini", ""},
		"a model nobody knows": {runtimes.Config{Model: "llama-9"}, "", `sdk/openai: whose model "llama-9" is cannot be told: say the engine`},
		"Claude's tools":       {runtimes.Config{AllowedTools: []string{"Bash(git *)"}}, "cli/claude cli/opencode sdk/gemini sdk/anthropic sdk/openai", "cli/gemini: its tools have other names"},
		"Gemini's tools":       {runtimes.Config{AllowedTools: []string{"read_file", "glob"}}, "cli/gemini", "cli/claude: its tools have other names"},
		"a second model":       {runtimes.Config{FallbackModel: "haiku"}, "cli/claude sdk/gemini sdk/anthropic sdk/openai", "cli/opencode: lacks fallback-model"},
		"a wrong limit":        {runtimes.Config{MaxTokens: -1}, "", "cli/claude: max-tokens is -1"},
	} {
		t.Run(name, func(t *testing.T) {
			c := f.Choose(tt.cfg, nil)
			var able []string
			for _, rt := range c.Able {
				able = append(able, rt.Describe().Path())
			}
			if got := strings.Join(able, " "); got != tt.want {
				t.Errorf("%s, want %s; passed %q", got, tt.want, c.Passed)
			}
			if got := strings.Join(c.Passed, "; "); !strings.Contains(got, tt.passed) {
				t.Errorf("passed over: %s; want %s", got, tt.passed)
			}
			if tt.cfg.Engine == "" && len(c.Able)+len(c.Passed) != 7 {
				t.Errorf("%d able, %d passed", len(c.Able), len(c.Passed))
			}
		})
	}
	c := f.Choose(runtimes.Config{}, func(rt runtimes.Runtime, cfg runtimes.Config) string {
		if d := rt.Describe(); cfg.Type != d.Type || cfg.Engine != d.Engine {
			t.Errorf("asked about %s as %s/%s", d.Path(), cfg.Type, cfg.Engine)
		}
		if rt.Describe().API == runtimes.APIAnthropic {
			return "no key"
		}
		return ""
	})
	if len(c.Able) != 5 || strings.Join(c.Passed, "; ") != "cli/claude: no key; sdk/anthropic: no key" {
		t.Errorf("%+v", c)
	}
}
