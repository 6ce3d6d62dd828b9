package codex

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/runtimetest"
)

// TestCommand compares whole commands with golden files.
func TestCommand(t *testing.T) {
	tests := map[string]func(*runtimes.Task){
		"plain": func(*runtimes.Task) {},
		"everything": func(task *runtimes.Task) {
			task.Config = runtimes.Config{
				Model: "gpt-6.1-sol", MaxCostUSD: 1.5,
				SystemPrompt: "You are terse.", AppendSystemPrompt: "Use tabs.\n\"quoted\" \\ 🐑 \x7f '''",
				MCPServers:   json.RawMessage(`{"files":{"command":"files","args":["-v"],"env":{"A":"b"}},"web":{"type":"http","url":"https://mcp.example","headers":{"X-Team":"a"}}}`),
				OutputSchema: json.RawMessage(nameSchema),
				Env:          map[string]string{"RUST_LOG": "debug"},
				Args:         []string{"-c", "model_reasoning_effort=high", "--add-dir", "/other"},
			}
		},
		"resume": func(task *runtimes.Task) { task.Resume = runtimetest.OldSession },
		"fork":   func(task *runtimes.Task) { task.Resume, task.Fork = runtimetest.OldSession, true },
		"host": func(task *runtimes.Task) {
			task.Box.Backend, task.Box.Workdir = "host", "/home/me/project"
			task.Config.PermissionMode = "read-only"
		},
		"no-gateway": func(task *runtimes.Task) {
			task.Box.Gateway, task.Credential, task.Config.BaseURL = "", runtimes.Credential{}, "https://models.example/v1"
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			task := runtimetest.Task()
			change(&task)
			cmd, err := New().Command(task)
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{}
			for _, f := range cmd.Files {
				files[f.Path] = string(f.Data)
			}
			var got strings.Builder
			enc := json.NewEncoder(&got)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			if err := enc.Encode(map[string]any{"argv": cmd.Argv, "env": cmd.Env, "files": files, "stdin": string(cmd.Stdin)}); err != nil {
				t.Fatal(err)
			}
			wantGolden(t, filepath.Join("testdata", "command-"+name+".golden"), got.String())
		})
	}
}

func TestArgsThatWouldUndoTheRunner(t *testing.T) {
	tests := []struct {
		args []string
		err  string
	}{
		{[]string{"--add-dir", "/x"}, ""},
		{[]string{"-c", "model_reasoning_effort=high"}, ""},
		{[]string{"--config=features.goals=false"}, ""},
		{[]string{"--enable", "goals"}, ""},
		{[]string{"-c", `model_providers.herd.base_url="http://evil"`}, `the configuration "model_providers" is set`},
		{[]string{`-c"model_provider"="evil"`}, `the configuration "model_provider" is set`},
		{[]string{"-c=openai_base_url=x"}, `the configuration "openai_base_url" is set`},
		{[]string{"--config=projects.'/workspace'.trust_level=trusted"}, `the configuration "projects" is set`},
		{[]string{"--trust"}, "--trust is set by the runner"},
		{[]string{"-mgpt-6"}, `use the key "model"`},
		{[]string{"--sandbox=read-only"}, `use the key "permission-mode"`},
		{[]string{"--last"}, `use the key "session"`},
		{[]string{"do something else"}, "the prompt belongs in"},
		{[]string{"--add-dir", "/x", "--", "hi"}, "remove it"},
	}
	for _, tt := range tests {
		task := runtimetest.Task()
		task.Config.Args = tt.args
		_, err := New().Command(task)
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%q: %v, want %q", tt.args, err, tt.err)
		}
	}
}

// TestWhatCodexCanNotDo is said before anything runs.
func TestWhatCodexCanNotDo(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg runtimes.Config
		err string
	}{
		"turns":            {runtimes.Config{MaxTurns: 3}, "needs a limit of turns (max-turns), which runtime codex lacks"},
		"tools":            {runtimes.Config{DeniedTools: []string{"shell"}}, "needs a choice of tools"},
		"second model":     {runtimes.Config{FallbackModel: "x"}, "needs a second model"},
		"sandbox in a box": {runtimes.Config{PermissionMode: "workspace-write"}, "codex's own sandbox can not run inside a box"},
		"permission mode":  {runtimes.Config{PermissionMode: "plan"}, "expected read-only, workspace-write or danger-full-access"},
		"sse":              {runtimes.Config{MCPServers: json.RawMessage(`{"a":{"type":"sse","url":"http://b"}}`)}, `no transport "sse"`},
		"schema of a list": {runtimes.Config{OutputSchema: json.RawMessage(`{"type":"array"}`)}, "put the value into a property"},
	} {
		task := runtimetest.Task()
		task.Config = tt.cfg
		if _, err := New().Command(task); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", name, err, tt.err)
		}
	}
}

func TestStrictSchema(t *testing.T) {
	tests := map[string]string{
		`{"type":"object"}`: `{"type":"object"}`,
		`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer","maximum":9007199254740993}},"required":["a"]}`:                                                                                                                            `{"additionalProperties":false,"properties":{"a":{"maximum":9007199254740993,"type":"integer"},"b":{"type":"string"}},"required":["a","b"],"type":"object"}`,
		`{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","properties":{"x":{"$ref":"#/$defs/d"}}}}},"$defs":{"d":{"anyOf":[{"type":"null"},{"type":"object","properties":{"y":{"type":"string"}},"additionalProperties":true}]}}}`: `{"$defs":{"d":{"anyOf":[{"type":"null"},{"additionalProperties":false,"properties":{"y":{"type":"string"}},"required":["y"],"type":"object"}]}},"additionalProperties":false,"properties":{"l":{"items":{"additionalProperties":false,"properties":{"x":{"$ref":"#/$defs/d"}},"required":["x"],"type":"object"},"type":"array"}},"required":["l"],"type":"object"}`,
	}
	for in, want := range tests {
		got, err := strictSchema(json.RawMessage(in))
		if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", in, err, diff)
		}
	}
}
