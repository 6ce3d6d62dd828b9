package claude

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/runtimes"
)

// TestCommand compares whole commands with golden files.
func TestCommand(t *testing.T) {
	tests := map[string]func(*runtimes.Task){
		"plain": func(*runtimes.Task) {},
		"everything": func(task *runtimes.Task) {
			task.Config = runtimes.Config{
				Model: "sonnet", FallbackModel: "haiku", MaxTurns: 7, MaxCostUSD: 1.5,
				SystemPrompt: "You are terse.", AppendSystemPrompt: "Use tabs.",
				AllowedTools: []string{"Bash(git *)", "Bash(go test, ./...)", "Read", "mcp__files__read"}, DeniedTools: []string{"WebFetch"},
				MCPServers:   json.RawMessage(`{"files":{"command":"files","args":["-v"]}}`),
				OutputSchema: json.RawMessage(nameSchema),
				Env:          map[string]string{"CLAUDE_CODE_MAX_RETRIES": "2", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "me"},
				Args:         []string{"--add-dir", "/other"},
			}
		},
		"resume":          func(task *runtimes.Task) { task.Resume = "11111111-2222-4333-8444-555555555555" },
		"fork":            func(task *runtimes.Task) { task.Resume, task.Fork = "11111111-2222-4333-8444-555555555555", true },
		"oauth":           func(task *runtimes.Task) { task.Credential.Kind = "oauth" },
		"permission-mode": func(task *runtimes.Task) { task.Config.PermissionMode = "plan" },
		"host":            func(task *runtimes.Task) { task.Box.Backend, task.Box.Workdir = "host", "/home/me/project" },
		"image-env": func(task *runtimes.Task) {
			task.Box.Env = map[string]string{"ANTHROPIC_AUTH_TOKEN": "x", "ANTHROPIC_BASE_URL": "http://evil", "NO_PROXY": "corp.example, 127.0.0.1"}
		},
		"no-gateway": func(task *runtimes.Task) {
			task.Box.Gateway, task.Credential, task.Config.BaseURL = "", runtimes.Credential{}, "https://models.example/v1"
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			task := boxed()
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
			golden := filepath.Join("testdata", "command-"+name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("-want +got (rewrite with -update):\n%s", diff)
			}
		})
	}
}

func TestArgsThatWouldUndoTheRunner(t *testing.T) {
	tests := []struct {
		args []string
		err  string
	}{
		{[]string{"--add-dir", "/x"}, ""},
		{[]string{"--effort=high"}, ""},
		{[]string{"--output-format", "text"}, "--output-format is set by the runner"},
		{[]string{"--setting-sources=user,project"}, "--setting-sources is set by the runner"},
		{[]string{"--add-dir", "/x", "--max-turns=3"}, `use the key "max-turns"`},
		{[]string{"-c"}, `use the key "session"`},
		{[]string{"do something else"}, "the prompt belongs in"},
		{[]string{"--effort=high", "--", "hi"}, "remove it"},
	}
	for _, tt := range tests {
		task := boxed()
		task.Config.Args = tt.args
		_, err := New().Command(task)
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%q: %v, want %q", tt.args, err, tt.err)
		}
	}
}
