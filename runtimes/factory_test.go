package runtimes_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/claude"
	"github.com/herd-runner/herd-runner/runtimes/opencode"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

func factory(t *testing.T) *runtimes.Factory {
	t.Helper()
	f, err := runtimes.NewFactory(sdk.New(sdk.Anthropic), claude.New())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPick(t *testing.T) {
	f := factory(t)
	tests := []struct{ typ, engine, want, err string }{
		{"", "", "claude", ""},
		{"cli", "", "claude", ""},
		{"sdk", "", "anthropic-sdk", ""},
		{"cli", "claude", "claude", ""},
		{"sdk", "anthropic", "anthropic-sdk", ""},
		{"", "anthropic", "anthropic-sdk", ""},
		{"", "claude", "claude", ""},
		{"", "cluade", "", `unknown engine "cluade" for runtime type "cli": expected one of cli/claude, sdk/anthropic (type/engine); did you mean "claude"?`},
		{"sdk", "openai", "", `unknown engine "openai" for runtime type "sdk": expected one of cli/claude, sdk/anthropic (type/engine)`},
		{"sdk", "claude", "", `unknown engine "claude" for runtime type "sdk"`},
		{"skd", "", "", `unknown runtime type "skd": expected one of cli/claude, sdk/anthropic (type/engine); did you mean "sdk"?`},
		{"CLI", "", "", `did you mean "cli"?`},
		{strings.Repeat("x", 1<<20), "", "", "unknown runtime type"},
	}
	for _, tt := range tests {
		rt, err := f.Pick(runtimes.Config{Type: tt.typ, Engine: tt.engine})
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%.20q/%q: %.200v, want %q", tt.typ, tt.engine, err, tt.err)
			}
			continue
		}
		if err != nil || rt.Describe().Name != tt.want {
			t.Errorf("%q/%q: %v, %v", tt.typ, tt.engine, rt, err)
		}
	}
}

func TestAllIsSorted(t *testing.T) {
	all := factory(t).All()
	if len(all) != 2 || all[0].Engine != "claude" || all[1].Engine != "anthropic" {
		t.Errorf("%+v", all)
	}
}

func TestTwoOfAKindAreRefused(t *testing.T) {
	if _, err := runtimes.NewFactory(claude.New(), claude.New()); err == nil {
		t.Error("taken")
	}
}

func TestAnEmptyFactorySaysSo(t *testing.T) {
	f, err := runtimes.NewFactory()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Pick(runtimes.Config{}); err == nil {
		t.Error("picked")
	}
}

func TestCheckSaysEverythingAtOnce(t *testing.T) {
	cfg := runtimes.Config{
		MCPServers:   json.RawMessage(`{"x":{}}`),
		MaxTurns:     -2,
		OutputSchema: json.RawMessage(`{"type":"wibble"}`),
	}
	err := runtimes.Check(opencode.New(), cfg)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"needs an output schema (output-schema), which runtime opencode lacks", "max-turns is -2", "output-schema: not a JSON Schema"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if err := runtimes.Check(claude.New(), runtimes.Config{MCPServers: json.RawMessage(`{"x":{"command":"y"}}`), MaxTurns: 3}); err != nil {
		t.Error(err)
	}
	if err := runtimes.Check(sdk.New(sdk.Anthropic), runtimes.Config{MCPServers: json.RawMessage(`{}`)}); err != nil {
		t.Errorf("no servers are no need: %v", err)
	}
	if err := runtimes.Check(claude.New(), runtimes.Config{MCPServers: json.RawMessage(`[]`)}); err == nil {
		t.Error("mcp-servers may be a list")
	}
}
