package gemini

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/runtimetest"
)

// TestCommand compares whole commands with golden files.
func TestCommand(t *testing.T) {
	tests := map[string]func(*runtimes.Task){
		"plain": func(*runtimes.Task) {},
		"everything": func(task *runtimes.Task) {
			task.Config = runtimes.Config{
				Model: "gemini-2.5-pro", MaxTurns: 7, MaxCostUSD: 1.5,
				SystemPrompt: "You are terse.", AppendSystemPrompt: "Use tabs.",
				AllowedTools: []string{"read_file", "run_shell_command(git)"}, DeniedTools: []string{"web_fetch"},
				MCPServers: json.RawMessage(`{"files":{"command":"files","args":["-v"],"env":{"A":"b"}},
					"far":{"url":"https://mcp.example","headers":{"X-Team":"a"}},"old":{"type":"sse","url":"https://old.example"}}`),
				Env:  map[string]string{"GEMINI_CLI_NO_RELAUNCH": "", "TEAM": "a"},
				Args: []string{"--include-directories", "/other"},
			}
		},
		"resume":          func(task *runtimes.Task) { task.Resume = runtimetest.OldSession },
		"permission-mode": func(task *runtimes.Task) { task.Config.PermissionMode = "plan" },
		"host":            func(task *runtimes.Task) { task.Box.Backend, task.Box.Workdir = "host", "/home/me/project" },
		"no-gateway": func(task *runtimes.Task) {
			task.Box.Gateway, task.Credential, task.Config.BaseURL = "", runtimes.Credential{}, "https://models.example"
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
			compareGolden(t, "command-"+name, got.String())
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	tests := []struct {
		cfg runtimes.Config
		err string
	}{
		{runtimes.Config{Args: []string{"--include-directories", "/x"}}, ""},
		{runtimes.Config{Args: []string{"--output-format", "text"}}, "--output-format is set by the runner"},
		{runtimes.Config{Args: []string{"--yolo"}}, `use the key "permission-mode"`},
		{runtimes.Config{Args: []string{"--screen-reader", "--resume=latest"}}, `use the key "session"`},
		{runtimes.Config{Args: []string{"do something else"}}, "the prompt belongs in"},
		{runtimes.Config{Args: []string{"--screen-reader", "--", "hi"}}, "remove it"},
		{runtimes.Config{PermissionMode: "acceptEdits"}, `permission-mode "acceptEdits": runtime gemini has default, auto_edit, yolo, plan`},
		{runtimes.Config{Env: map[string]string{"GOOGLE_GEMINI_BASE_URL": "http://evil"}}, "env: GOOGLE_GEMINI_BASE_URL is set by the runner"},
		{runtimes.Config{Env: map[string]string{"GEMINI_CLI_TRUST_WORKSPACE": "true"}}, "env: GEMINI_CLI_TRUST_WORKSPACE is set by the runner"},
		{runtimes.Config{OutputSchema: json.RawMessage(`{"type":"object"}`)}, "needs an output schema (output-schema), which runtime gemini lacks"},
		{runtimes.Config{FallbackModel: "x"}, "which runtime gemini lacks"},
		{runtimes.Config{MCPServers: json.RawMessage(`{"a b":{"command":"x"}}`)}, "mcp-servers: a b: "},
	}
	for _, tt := range tests {
		task := runtimetest.Task()
		task.Config = tt.cfg
		_, err := New().Command(task)
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%+v: %v, want %q", tt.cfg, err, tt.err)
		}
	}
}
