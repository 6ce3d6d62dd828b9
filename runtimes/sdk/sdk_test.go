package sdk

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/runtimetest"
	"github.com/herd-runner/herd-runner/sandbox"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// THREATS 20.
func TestRuntime(t *testing.T) {
	for _, engine := range []string{Anthropic, OpenAI, Gemini} {
		t.Run(engine, func(t *testing.T) {
			runtimetest.Run(t, New(engine), runtimetest.Fixtures{
				Success:    read(t, "ok.jsonl"),
				Schema:     json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
				Structured: read(t, "structured.jsonl"),
				Idle:       []byte(`{"type":"init","session_id":"s","model":"m"}` + "\n" + `{"type":"result","turns":1,"session_id":"s"}`),
				Result:     `{"type":"result","text":"done","turns":1,"session_id":"s"}`,
			})
		})
	}
}

func TestCommand(t *testing.T) {
	task := runtimetest.Task()
	task.Config = runtimes.Config{Model: "opus", AllowedTools: []string{"Bash", "read", "LS"}, MaxTurns: 3, Env: map[string]string{"GOFLAGS": "-mod=mod"}}
	got, err := New(Anthropic).Command(task)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/herd/bin/herd-runner", "agent"}, got.Argv); diff != "" {
		t.Error(diff)
	}
	var req Request
	if err := json.Unmarshal(got.Stdin, &req); err != nil {
		t.Fatal(err)
	}
	want := Request{Version: ProtocolVersion, Engine: Anthropic, Prompt: task.Prompt, Model: "opus", MaxTurns: 3, AllowedTools: []string{"Bash", "read", "LS"},
		SessionID: runtimetest.NewSession, Workdir: "/workspace", Home: "/herd/home"}
	if diff := cmp.Diff(want, req); diff != "" {
		t.Error(diff)
	}
	env := map[string]string{"ANTHROPIC_BASE_URL": "http://127.0.0.1:4100", "ANTHROPIC_API_KEY": task.Credential.Token,
		"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost",
		"HOME": "/herd/home", "TMPDIR": "/herd/tmp", "GOFLAGS": "-mod=mod",
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
	if diff := cmp.Diff(env, got.Env); diff != "" {
		t.Error(diff)
	}
}

func TestEachEngineHasItsOwnAddressAndCredential(t *testing.T) {
	for engine, want := range map[string]map[string]string{
		OpenAI: {"OPENAI_BASE_URL": "http://127.0.0.1:4100/v1", "OPENAI_API_KEY": "placeholder"},
		Gemini: {"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:4100", "GEMINI_API_KEY": "placeholder"},
	} {
		task := runtimetest.Task()
		task.Credential = runtimes.Credential{Kind: "api-key", Token: "placeholder"}
		got, err := New(engine).Command(task)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range want {
			if got.Env[name] != value {
				t.Errorf("%s: %s=%q, want %q", engine, name, got.Env[name], value)
			}
		}
		if got.Env["ANTHROPIC_API_KEY"] != "" {
			t.Errorf("%s is given a credential of Anthropic's", engine)
		}
		for name := range want {
			task.Config.Env = map[string]string{name: "x"}
			if _, err := New(engine).Command(task); err == nil || !strings.Contains(err.Error(), name+" is set by the runner") {
				t.Errorf("%s: env %s: %v", engine, name, err)
			}
		}
	}
}

func TestWhatTheLoopLacksIsSaid(t *testing.T) {
	tests := map[string]struct {
		cfg  runtimes.Config
		want string
	}{
		"mcp":             {runtimes.Config{MCPServers: json.RawMessage(`{"x":{"type":"websocket","url":"http://x"}}`)}, `mcp-servers: x: unknown type "websocket"`},
		"mcp rule":        {runtimes.Config{AllowedTools: []string{"mcp__git__*"}, MCPServers: json.RawMessage(`{"x":{"command":"x"}}`)}, `allowed-tools: "mcp__git__*": there is no server "git"`},
		"args":            {runtimes.Config{Args: []string{"--x"}}, "no command line"},
		"permission mode": {runtimes.Config{PermissionMode: "plan"}, "needs a permission mode"},
		"tool":            {runtimes.Config{AllowedTools: []string{"WebSearch"}}, `allowed-tools: unknown tool "WebSearch"`},
		"pattern":         {runtimes.Config{DeniedTools: []string{"Bash(rm *"}}, `denied-tools: "Bash(rm *": expected a tool`},
	}
	for name, tt := range tests {
		task := runtimetest.Task()
		task.Config = tt.cfg
		if _, err := New(Anthropic).Command(task); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestTheLoopsOwnCauses(t *testing.T) {
	for said, want := range map[event.Cause]event.Cause{
		event.CauseMaxTurns: event.CauseMaxTurns, event.CauseRefused: event.CauseRefused,
		event.CauseCancelled: event.CauseExitCode, "made_up": event.CauseExitCode,
	} {
		rec, err := json.Marshal(Record{Type: event.MessageResult, Cause: said, Message: "m", Hint: "h"})
		if err != nil {
			t.Fatal(err)
		}
		d := New(Anthropic).Decode(runtimetest.Task())
		d.Line(rec)
		got := d.Finish(runtimes.End{Exit: sandbox.Exit{Code: 1}, Gateway: runtimetest.Good()})
		if got.Cause != want || got.Message != "m" || got.Hint != "h" {
			t.Errorf("%s: %+v", said, got)
		}
	}
}
