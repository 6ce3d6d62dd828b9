package opencode

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
				Model: "gpt-5.5", MaxCostUSD: 1.5,
				SystemPrompt: "You are terse.", AppendSystemPrompt: "Use tabs.",
				AllowedTools: []string{"Bash(git *)", "Bash(go test*)", "Read", "Write", "mcp__files__read"}, DeniedTools: []string{"Bash(git push*)"},
				MCPServers: json.RawMessage(`{"files":{"command":"files","args":["-v"],"env":{"A":"b"}},"web":{"type":"http","url":"https://mcp.example","headers":{"X-Team":"a"}}}`),
				Args:       []string{"--variant=high"},
			}
		},
		"compatible": func(task *runtimes.Task) {
			task.Config.BaseURL, task.Config.Model = "https://models.example/v1", "qwen/coder"
		},
		"anthropic": func(task *runtimes.Task) {
			task.Config.Model = "anthropic/claude-sonnet-5"
			task.Box.Env = map[string]string{"OPENAI_API_KEY": "of the image"}
		},
		"google": func(task *runtimes.Task) { task.Config.Model = "google/gemini-2.5-pro" },
		"plan":   func(task *runtimes.Task) { task.Config.PermissionMode = "plan" },
		"resume": func(task *runtimes.Task) { task.Resume = session },
		"fork":   func(task *runtimes.Task) { task.Resume, task.Fork = session, true },
		"host": func(task *runtimes.Task) {
			task.Box.Backend, task.Box.Workdir = "host", "/home/me/project"
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
		{[]string{"--variant=high"}, ""},
		{[]string{"--agent", "plan", "-f", "notes.md"}, ""},
		{[]string{"--format", "default"}, "--format is set by the runner"},
		{[]string{"--no-pure"}, "--no-pure is set by the runner"},
		{[]string{"--attach=http://evil"}, "--attach is set by the runner"},
		{[]string{"-mx/y"}, `use the key "model"`},
		{[]string{"--auto"}, `use the key "permission-mode"`},
		{[]string{"-c"}, `use the key "session"`},
		{[]string{"do something else"}, "the prompt belongs in"},
		{[]string{"--variant=high", "--", "hi"}, "remove it"},
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

// TestWhatOpenCodeCanNotDo is said before anything runs.
func TestWhatOpenCodeCanNotDo(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg runtimes.Config
		err string
	}{
		"turns":           {runtimes.Config{MaxTurns: 3}, "needs a limit of turns (max-turns), which runtime opencode lacks"},
		"schema":          {runtimes.Config{OutputSchema: json.RawMessage(`{"type":"object"}`)}, "needs an output schema (output-schema), which runtime opencode lacks"},
		"second model":    {runtimes.Config{FallbackModel: "x"}, "needs a second model"},
		"permission mode": {runtimes.Config{PermissionMode: "yolo"}, "has bypassPermissions, acceptEdits and plan"},
		"tool":            {runtimes.Config{AllowedTools: []string{"Rad"}}, `unknown tool "Rad"`},
		"half a pattern":  {runtimes.Config{DeniedTools: []string{"Bash(git"}}, "such as Bash(git *)"},
	} {
		task := runtimetest.Task()
		task.Config = tt.cfg
		if _, err := New().Command(task); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", name, err, tt.err)
		}
	}
}

// TestPermissions: of the patterns that match, the CLI takes the last.
func TestPermissions(t *testing.T) {
	for name, tt := range map[string]struct {
		host            bool
		allowed, denied []string
		mode, want      string
	}{
		"box":             {want: `{"*":"allow"}`},
		"host":            {host: true, want: `{"*":"allow","bash":"deny","webfetch":"deny","websearch":"deny","external_directory":"deny"}`},
		"host, all":       {host: true, mode: "bypassPermissions", want: `{"*":"allow"}`},
		"plan":            {mode: "plan", want: `{"*":"allow","bash":"deny","edit":"deny","task":"deny"}`},
		"only":            {allowed: []string{"Read", "read"}, want: `{"*":"deny","external_directory":"allow","read":"allow"}`},
		"only, on host":   {host: true, mode: "bypassPermissions", allowed: []string{"LS"}, want: `{"*":"deny","list":"allow"}`},
		"all but":         {denied: []string{"WebFetch"}, want: `{"*":"allow","webfetch":"deny"}`},
		"all but some":    {denied: []string{"Bash(rm *)"}, want: `{"*":"allow","bash":{"*":"allow","rm *":"deny"}}`},
		"some but some":   {allowed: []string{"Bash(git *)"}, denied: []string{"Bash(git push*)"}, want: `{"*":"deny","external_directory":"allow","bash":{"*":"deny","git *":"allow","git push*":"deny"}}`},
		"denied at last":  {allowed: []string{"Bash(git *)"}, denied: []string{"Bash"}, want: `{"*":"deny","external_directory":"allow","bash":{"git *":"allow","*":"deny"}}`},
		"denied pattern":  {allowed: []string{"Read"}, denied: []string{"Bash(git *)"}, want: `{"*":"deny","external_directory":"allow","read":"allow","bash":{"git *":"deny"}}`},
		"servers":         {allowed: []string{"mcp__files", "mcp__web__get"}, want: `{"*":"deny","external_directory":"allow","files_*":"allow","web_get":"allow"}`},
		"hostile pattern": {denied: []string{`Bash("},"x":{")`}, want: `{"*":"allow","bash":{"*":"allow","\"},\"x\":{\"":"deny"}}`},
	} {
		task := runtimetest.Task()
		if tt.host {
			task.Box.Backend = "host"
		}
		task.Config = runtimes.Config{AllowedTools: tt.allowed, DeniedTools: tt.denied, PermissionMode: tt.mode}
		p, err := permission(task)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := json.Marshal(p)
		if diff := cmp.Diff(tt.want, string(got)); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}
