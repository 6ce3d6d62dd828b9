// Package runtimetest is the suite every runtime passes. It needs no box, no
// key and no network: a runtime describes and interprets, so its promises can
// be checked on its commands and on made-up output.
package runtimetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
)

// Fixtures are what the suite can not know of a runtime: its own output.
type Fixtures struct {
	// Success is the whole stdout of a run that went well, of a task without
	// an output schema.
	Success []byte
	// Structured is the same for Schema, with output that fits it.
	Schema     json.RawMessage
	Structured []byte
	// Result is one line that claims success, to be forged with.
	Result string
	// Idle is the whole stdout of a run that claims success although nothing was
	// said and no tool used; nil: the runtime's output can not be such.
	Idle []byte
	// Session is an id to resume where the runtime's are no UUIDs.
	Session string
	// Permission is a permission-mode, other than that of the bare host.
	Permission string
}

// Run runs the suite for rt.
func Run(t *testing.T, rt runtimes.Runtime, fx Fixtures) {
	if fx.Session == "" {
		fx.Session = OldSession
	}
	if fx.Permission == "" {
		fx.Permission = "plan"
	}
	t.Run("describe", func(t *testing.T) { describe(t, rt) })
	t.Run("prompt is data", func(t *testing.T) { promptIsData(t, rt) })
	t.Run("credential stays out of argv and files", func(t *testing.T) { credential(t, rt) })
	t.Run("same task, same command", func(t *testing.T) { same(t, rt, fx) })
	t.Run("user text is no flag", func(t *testing.T) { noFlag(t, rt, fx) })
	t.Run("routing is the runner's", func(t *testing.T) { routing(t, rt) })
	t.Run("features are honoured", func(t *testing.T) { features(t, rt, fx) })
	t.Run("sessions", func(t *testing.T) { sessions(t, rt, fx) })
	t.Run("session files", func(t *testing.T) { sessionFiles(t, rt, fx) })
	t.Run("success", func(t *testing.T) { success(t, rt, fx) })
	t.Run("success never by default", func(t *testing.T) { noDefault(t, rt, fx) })
	t.Run("forged results", func(t *testing.T) { forged(t, rt, fx) })
	t.Run("hostile output", func(t *testing.T) { hostile(t, rt, fx) })
}

// Session ids of the suite's tasks.
const (
	NewSession = "3f2b6c1e-8a4d-4f7b-9c2e-5d1a0b7e6f43"
	OldSession = "11111111-2222-4333-8444-555555555555"
)

const token = "herd-placeholder-0123456789"

// Task is a plain task in a box with a gateway.
func Task() runtimes.Task {
	return runtimes.Task{
		Prompt:     "Say hello.",
		SessionID:  NewSession,
		Credential: runtimes.Credential{Kind: "api-key", Token: token},
		Box: sandbox.Info{
			Backend: "docker", Workdir: "/workspace", Home: "/herd/home", Temp: "/herd/tmp",
			Runner: "/herd/bin/herd-runner", Gateway: "127.0.0.1:4100",
			Env: map[string]string{"PATH": "/usr/bin"}, OS: "linux", Arch: "amd64",
		},
	}
}

// Good is what the gateway saw of a run that went well.
func Good() runtimes.GatewayView {
	return runtimes.GatewayView{LastStatus: 200, LastStop: "end_turn"}
}

func command(t *testing.T, rt runtimes.Runtime, task runtimes.Task) runtimes.Command {
	t.Helper()
	cmd, err := rt.Command(task)
	if err != nil {
		t.Fatalf("Command: %v", err)
	}
	return cmd
}

func describe(t *testing.T, rt runtimes.Runtime) {
	d := rt.Describe()
	if d.Name == "" || d.Engine == "" || d.API == "" || d.Type != runtimes.TypeCLI && d.Type != runtimes.TypeSDK {
		t.Errorf("incomplete: %+v", d)
	}
	if diff := cmp.Diff(d, rt.Describe()); diff != "" {
		t.Errorf("not constant: %s", diff)
	}
}

// promptIsData: a prompt reaches the agent as it is and never through argv or
// environment, where other users and shells could meet it.
func promptIsData(t *testing.T, rt runtimes.Runtime) {
	const mark = "XPROMPTX"
	for _, text := range []string{
		`"double" 'single' $(touch /x) ` + "`id`" + ` ; | & > < \ %s ${HOME}`,
		"-p --dangerously", "--help", "-", "line one\nline two\r\n", "tab\tand NUL\x00and bell\x07",
		"héllo 🐑 \u202e", strings.Repeat("long ", 200_000), "@file /command !bash #note",
	} {
		task := Task()
		task.Prompt = text + mark
		cmd := command(t, rt, task)
		for _, arg := range cmd.Argv {
			if strings.Contains(arg, mark) {
				t.Fatalf("the prompt is in argv: %.80q", arg)
			}
		}
		for name, value := range cmd.Env {
			if strings.Contains(value, mark) {
				t.Fatalf("the prompt is in the environment: %s", name)
			}
		}
		if !carries(cmd, task.Prompt) {
			t.Errorf("the prompt %.40q does not reach the agent unchanged", text)
		}
	}
	for _, empty := range []string{"", " \n\t"} {
		task := Task()
		task.Prompt = empty
		if _, err := rt.Command(task); err == nil {
			t.Errorf("the prompt %q is taken", empty)
		}
	}
}

// carries looks for the prompt in stdin or a file, as it is or as JSON.
func carries(cmd runtimes.Command, prompt string) bool {
	encoded, err := json.Marshal(prompt)
	if err != nil {
		return false
	}
	has := func(data []byte) bool {
		return bytes.Contains(data, []byte(prompt)) || bytes.Contains(data, encoded)
	}
	if has(cmd.Stdin) {
		return true
	}
	for _, f := range cmd.Files {
		if has(f.Data) {
			return true
		}
	}
	return false
}

func credential(t *testing.T, rt runtimes.Runtime) {
	for _, kind := range []string{"api-key", "oauth"} {
		task := Task()
		task.Credential.Kind = kind
		cmd := command(t, rt, task)
		if strings.Contains(strings.Join(cmd.Argv, "\x00"), token) {
			t.Errorf("%s: the credential is in argv", kind)
		}
		if bytes.Contains(cmd.Stdin, []byte(token)) {
			t.Errorf("%s: the credential is on stdin", kind)
		}
		for _, f := range cmd.Files {
			if bytes.Contains(f.Data, []byte(token)) {
				t.Errorf("%s: the credential is in %s", kind, f.Path)
			}
		}
		n := 0
		for _, value := range cmd.Env {
			if value == token {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: the credential is in %d variables, want 1", kind, n)
		}
	}
	task := Task()
	task.Credential.Kind = "password"
	if _, err := rt.Command(task); err == nil {
		t.Error("an unknown kind of credential is taken")
	}
}

func full(rt runtimes.Runtime, fx Fixtures) runtimes.Task {
	task := Task()
	task.Config = runtimes.Config{Model: "some-model", Env: map[string]string{"B": "2", "A": "1", "C": "3"}}
	for _, f := range rt.Describe().Features {
		ask(&task, f, fx)
	}
	task.Resume, task.Fork = "", false
	return task
}

// ask makes task need f.
func ask(task *runtimes.Task, f runtimes.Feature, fx Fixtures) {
	cfg := &task.Config
	switch f {
	case runtimes.FeatureOutputSchema:
		cfg.OutputSchema = json.RawMessage(`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}}}`)
	case runtimes.FeatureResume:
		task.Resume = fx.Session
	case runtimes.FeatureFork:
		task.Resume, task.Fork = fx.Session, true
	case runtimes.FeatureMCP:
		cfg.MCPServers = json.RawMessage(`{"z":{"command":"zed"},"a":{"command":"ay"}}`)
	case runtimes.FeatureMaxTurns:
		cfg.MaxTurns = 7
	case runtimes.FeatureMaxCost:
		cfg.MaxCostUSD = 1.5
	case runtimes.FeatureTools:
		cfg.AllowedTools, cfg.DeniedTools = []string{"Read", "Bash"}, []string{"Bash"}
	case runtimes.FeatureSystemPrompt:
		cfg.SystemPrompt, cfg.AppendSystemPrompt = "SYSTEM-MARK", "APPEND-MARK"
	case runtimes.FeaturePermission:
		cfg.PermissionMode = fx.Permission
		task.Box.Backend = "host" // in a box a program's own sandbox may not run
	case runtimes.FeatureFallback:
		cfg.FallbackModel = "other-model"
	case runtimes.FeatureAuthMount:
		task.Credential = runtimes.Credential{Kind: "login", Login: `{"login":"LOGIN-MARK"}`}
		task.Box.Gateway = ""
	}
}

func same(t *testing.T, rt runtimes.Runtime, fx Fixtures) {
	want := command(t, rt, full(rt, fx))
	for range 20 {
		if diff := cmp.Diff(want, command(t, rt, full(rt, fx))); diff != "" {
			t.Fatalf("the same task gives another command:\n%s", diff)
		}
	}
	for _, stage := range want.Stop {
		if stage.Grace <= 0 {
			t.Errorf("stop stage %s has no bound", stage.Signal)
		}
	}
	if len(want.Stop) == 0 || want.QuietEnd <= 0 {
		t.Errorf("stop %v, quiet end %v: both must be bounded", want.Stop, want.QuietEnd)
	}
}

// noFlag: whatever a person writes as a value is never an argument of its own.
func noFlag(t *testing.T, rt runtimes.Runtime, fx Fixtures) {
	const evil = "--XEVILX"
	task := full(rt, fx)
	task.Config.Model = evil
	if task.Config.FallbackModel != "" {
		task.Config.FallbackModel = evil
	}
	if len(task.Config.AllowedTools) > 0 {
		task.Config.AllowedTools, task.Config.DeniedTools = []string{evil}, []string{evil}
	}
	if task.Config.SystemPrompt != "" {
		task.Config.SystemPrompt, task.Config.AppendSystemPrompt = evil, evil
	}
	cmd, err := rt.Command(task)
	if err != nil {
		return // refused: as good
	}
	for _, arg := range cmd.Argv {
		if strings.HasPrefix(arg, evil) {
			t.Errorf("user text is an argument: %q", arg)
		}
	}
}

// routing: neither the workflow nor the image says where model traffic goes.
func routing(t *testing.T, rt runtimes.Runtime) {
	base := command(t, rt, Task())
	for name, value := range base.Env {
		if value != token && !strings.Contains(value, Task().Box.Gateway) {
			continue
		}
		if strings.EqualFold(name, "no_proxy") {
			continue
		}
		task := Task()
		task.Config.Env = map[string]string{name: "http://evil.example"}
		if cmd, err := rt.Command(task); err == nil && cmd.Env[name] != value {
			t.Errorf("a workflow can set %s to %q", name, cmd.Env[name])
		}
		task = Task()
		task.Box.Env[name] = "http://evil.example"
		if got := command(t, rt, task).Env[name]; got != value {
			t.Errorf("an image can set %s to %q", name, got)
		}
	}
	task := Task()
	task.Credential = runtimes.Credential{}
	if _, err := rt.Command(task); err == nil {
		t.Error("a task with a gateway and no credential is taken")
	}
}

// features: what is declared changes the command, what is not is an error.
func features(t *testing.T, rt runtimes.Runtime, fx Fixtures) {
	for _, f := range runtimes.Features() {
		task := Task()
		if f == runtimes.FeaturePermission {
			task.Box.Backend = "host"
		}
		plain := command(t, rt, task)
		ask(&task, f, fx)
		cmd, err := rt.Command(task)
		switch declared := rt.Describe().Has(f); {
		case !declared && err == nil:
			t.Errorf("%s is not declared, but a task that needs it is taken", f)
		case !declared && !strings.Contains(err.Error(), "lacks"):
			t.Errorf("%s: the error does not say what is missing: %v", f, err)
		case declared && err != nil:
			t.Errorf("%s is declared, but: %v", f, err)
		case declared && f != runtimes.FeatureMaxCost && cmp.Equal(plain, cmd): // the gateway bounds the cost
			t.Errorf("%s is declared, but does not change the command", f)
		}
	}
	for name, cfg := range map[string]runtimes.Config{
		"negative turns":   {MaxTurns: -1},
		"negative cost":    {MaxCostUSD: -1},
		"schema":           {OutputSchema: json.RawMessage(`{"type":"wibble"}`)},
		"half a schema":    {OutputSchema: json.RawMessage(`{"type":"obj`)},
		"schema of a file": {OutputSchema: json.RawMessage(`{"$ref":"file:///etc/passwd"}`)},
	} {
		task := Task()
		task.Config = cfg
		if _, err := rt.Command(task); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func sessions(t *testing.T, rt runtimes.Runtime, fx Fixtures) {
	mentions := func(cmd runtimes.Command, id string) bool {
		return strings.Contains(strings.Join(cmd.Argv, "\x00"), id) || bytes.Contains(cmd.Stdin, []byte(id))
	}
	d := rt.Describe()
	if cmd := command(t, rt, Task()); !d.NamesSessions && !mentions(cmd, NewSession) {
		t.Error("a new session does not get its id")
	}
	if !d.ValidSession(fx.Session) {
		t.Errorf("the fixture's session id %q is none of the runtime", fx.Session)
	}
	task := Task()
	task.Resume = fx.Session
	if d.Has(runtimes.FeatureResume) {
		if cmd := command(t, rt, task); !mentions(cmd, fx.Session) {
			t.Error("resume does not name the session")
		}
	}
	if task.Fork = true; d.Has(runtimes.FeatureFork) {
		if cmd := command(t, rt, task); !mentions(cmd, fx.Session) || !d.NamesSessions && !mentions(cmd, NewSession) {
			t.Error("a fork must name the old session, and the new one where it can")
		}
	}
	task = Task()
	task.Fork = true
	if _, err := rt.Command(task); err == nil {
		t.Error("a fork of nothing is taken")
	}
	for _, id := range []string{"run-42", "../../etc/passwd", "--continue"} {
		task := Task()
		task.Resume = id
		if _, err := rt.Command(task); err == nil {
			t.Errorf("session id %q is taken", id)
		}
	}
}

// decode gives output to a fresh decoder, line by line.
func decode(rt runtimes.Runtime, task runtimes.Task, output []byte, end runtimes.End) ([]event.Message, runtimes.Result) {
	d := rt.Decode(task)
	var messages []event.Message
	for line := range bytes.Lines(output) {
		messages = append(messages, d.Line(bytes.TrimSuffix(line, []byte("\n")))...)
	}
	return messages, d.Finish(end)
}

func success(t *testing.T, rt runtimes.Runtime, fx Fixtures) {
	messages, result := decode(rt, Task(), fx.Success, runtimes.End{Gateway: Good()})
	if result.Cause != "" || result.Text == "" || result.SessionID == "" || result.Turns < 1 {
		t.Errorf("result: %+v", result)
	}
	kinds := map[event.MessageKind]int{}
	for _, m := range messages {
		kinds[m.Kind]++
	}
	if kinds[event.MessageInit] != 1 || kinds[event.MessageText] == 0 || kinds[event.MessageResult] == 0 {
		t.Errorf("kinds of messages: %v", kinds)
	}
	if kinds[event.MessageToolCall] == 0 || kinds[event.MessageToolCall] != kinds[event.MessageToolResult] {
		t.Errorf("the fixture should have tool calls, each with a result: %v", kinds)
	}
	if !rt.Describe().Has(runtimes.FeatureOutputSchema) {
		return
	}
	task := Task()
	task.Config.OutputSchema = fx.Schema
	if _, result := decode(rt, task, fx.Structured, runtimes.End{Gateway: Good()}); result.Cause != "" || !json.Valid(result.Structured) {
		t.Errorf("structured: %+v", result)
	}
	if _, result := decode(rt, task, fx.Success, runtimes.End{Gateway: Good()}); result.Cause != event.CauseNoResult {
		t.Errorf("without structured output: %+v", result)
	}
	task.Config.OutputSchema = json.RawMessage(`{"type":"object","required":["not there"]}`)
	if _, result := decode(rt, task, fx.Structured, runtimes.End{Gateway: Good()}); result.Cause != event.CauseNoResult || result.Structured != nil {
		t.Errorf("structured output that does not fit: %+v", result)
	}
}

func noDefault(t *testing.T, rt runtimes.Runtime, fx Fixtures) {
	lines := bytes.SplitAfter(bytes.TrimSpace(fx.Success), []byte("\n"))
	unfinished := bytes.Join(lines[:len(lines)-1], nil)
	half := fx.Success[:len(unfinished)+len(lines[len(lines)-1])/2]
	type row struct {
		name   string
		output []byte
		end    runtimes.End
		cause  event.Cause
	}
	tests := []row{
		{"nothing, exit 0", nil, runtimes.End{}, event.CauseNoResult},
		{"nothing, exit 0, the model asked", nil, runtimes.End{Gateway: Good()}, event.CauseNoResult},
		{"no result record", unfinished, runtimes.End{Gateway: Good()}, event.CauseNoResult},
		{"half a result record", half, runtimes.End{Gateway: Good()}, event.CauseNoResult},
		{"nothing, exit 1", nil, runtimes.End{Exit: sandbox.Exit{Code: 1}, Stderr: []byte("error: no\nfatal: such thing\n")}, event.CauseExitCode},
		{"killed", unfinished, runtimes.End{Exit: sandbox.Exit{Code: 137, Signal: "KILL"}, Gateway: Good()}, event.CauseExitCode},
		{"out of memory", unfinished, runtimes.End{Exit: sandbox.Exit{Code: 137, Signal: "KILL", OOMKilled: true}, Gateway: Good()}, event.CauseOOM},
		{"success and exit 1", fx.Success, runtimes.End{Exit: sandbox.Exit{Code: 1}, Gateway: Good()}, event.CauseExitCode},
		{"success without the model", fx.Success, runtimes.End{}, event.CauseNoResult},
		{"success after 401", fx.Success, runtimes.End{Gateway: runtimes.GatewayView{LastStatus: 401}}, event.CauseAuth},
		{"success after 429", fx.Success, runtimes.End{Gateway: runtimes.GatewayView{LastStatus: 429}}, event.CauseRateLimited},
		{"success after 529", fx.Success, runtimes.End{Gateway: runtimes.GatewayView{LastStatus: 529}}, event.CauseRateLimited},
		{"success after 500", fx.Success, runtimes.End{Gateway: runtimes.GatewayView{LastStatus: 500}}, event.CauseInfrastructure},
		{"success over budget", fx.Success, runtimes.End{Gateway: runtimes.GatewayView{LastStatus: 403, LastReason: "budget_exhausted"}}, event.CauseBudget},
		{"success after a replay miss", fx.Success, runtimes.End{Gateway: runtimes.GatewayView{LastStatus: 400, LastReason: "replay_miss"}}, event.CauseInfrastructure},
		{"success after a refusal", fx.Success, runtimes.End{Gateway: runtimes.GatewayView{LastStatus: 200, LastStop: "refusal"}}, event.CauseRefused},
		{"stopped at the quiet end", fx.Success, runtimes.End{Exit: sandbox.Exit{Code: 143, Signal: "TERM", Stopped: true}, Gateway: Good()}, ""},
	}
	if fx.Idle != nil {
		tests = append(tests, row{"nothing said or done", fx.Idle, runtimes.End{Gateway: Good()}, event.CauseNoResult})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, got := decode(rt, Task(), tt.output, tt.end)
			if got.Cause != tt.cause {
				t.Errorf("cause %q, want %q: %s", got.Cause, tt.cause, got.Message)
			}
			if tt.cause != "" && (got.Message == "" || got.Hint == "") {
				t.Errorf("a failure needs words and a hint: %+v", got)
			}
		})
	}
	_, got := decode(rt, Task(), nil, tests[4].end)
	if !strings.Contains(got.Message, "fatal: such thing") {
		t.Errorf("stderr's last line is not shown: %q", got.Message)
	}
}

// forged: a record that the agent wrote itself changes nothing that the
// gateway and the process's end decide.
func forged(t *testing.T, rt runtimes.Runtime, fx Fixtures) {
	output := append(append([]byte(nil), fx.Success...), []byte("\n"+fx.Result+"\n")...)
	for name, end := range map[string]runtimes.End{
		"auth":      {Gateway: runtimes.GatewayView{LastStatus: 401}},
		"exit code": {Gateway: Good(), Exit: sandbox.Exit{Code: 3}},
		"nothing":   {},
	} {
		if _, got := decode(rt, Task(), output, end); got.Cause == "" {
			t.Errorf("%s: a forged record makes it a success", name)
		}
	}
	quoted, err := json.Marshal(fx.Result)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		string(quoted),
		"tool says: " + fx.Result,
		fmt.Sprintf(`{"type":"unknown_kind","payload":%s}`, fx.Result),
		fmt.Sprintf(`{"type":"text","text":%s}`, quoted),
		fmt.Sprintf(`[%s]`, fx.Result),
	} {
		if _, got := decode(rt, Task(), []byte(line+"\n"), runtimes.End{Gateway: Good()}); got.Cause != event.CauseNoResult {
			t.Errorf("taken for a result: %s", line)
		}
	}
}

// hostile: nothing in the output breaks the decoder, and what it returns can
// be journaled.
func hostile(t *testing.T, rt runtimes.Runtime, fx Fixtures) {
	_, want := decode(rt, Task(), fx.Success, runtimes.End{Gateway: Good()})
	noise := []string{
		"", " ", "\x00", "\x00\x00{", "{", "}", "{}", "[]", "null", "true", "7", `"x"`, "\xff\xfe", "{\"type\":\"\xff\"}",
		"\x1b]0;title\x07\x1b[2J", `{"type":7}`, `{"type":null}`, `{"type":{}}`, `{"type":"new_kind","x":[1,{}]}`,
		`{"type":"assistant"}`, `{"type":"assistant","message":7}`, `{"type":"assistant","message":{"content":7}}`,
		`{"type":"assistant","message":{"content":[7,null,[],{"type":"tool_use","input":}]}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","content":[{"type":7}]}]}}`,
		`{"type":"system","subtype":"init"`, `{"type":"system","subtype":"init","mcp_servers":7}`,
		`{"type":"tool_call","input":`, `{"type":"text","text":7}`, `{"type":"result"`, `{"type":"result",}`,
		strings.Repeat("[", 1<<20), strings.Repeat(`{"a":`, 1<<18), `{"type":"` + strings.Repeat("x", 1<<20) + `"}`,
	}
	var dirty []byte
	for line := range bytes.Lines(fx.Success) {
		for _, n := range noise {
			dirty = append(append(dirty, n...), '\n')
		}
		dirty = append(append(dirty, bytes.TrimSuffix(line, []byte("\n"))...), "\r\n"...)
	}
	messages, got := decode(rt, Task(), dirty, runtimes.End{Gateway: Good()})
	journaled(t, messages)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("noise between the records changes the result:\n%s", diff)
	}

	// Mutations of real records, the same every time.
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		mutated := bytes.Clone(fx.Success)
		for range 1 + rng.IntN(8) {
			i := rng.IntN(len(mutated))
			switch rng.IntN(3) {
			case 0:
				mutated[i] = byte(rng.IntN(256))
			case 1:
				mutated = append(mutated[:i], mutated[min(len(mutated), i+rng.IntN(40)):]...)
			case 2:
				mutated = append(mutated[:i:i], append([]byte{`{}[]",:\`[rng.IntN(8)]}, mutated[i:]...)...)
			}
			if len(mutated) == 0 {
				break
			}
		}
		messages, result := decode(rt, Task(), mutated, runtimes.End{Gateway: Good()})
		journaled(t, messages)
		if _, err := json.Marshal(result); err != nil {
			t.Fatalf("a result can not be journaled: %v", err)
		}
	}

	long := append([]byte(strings.TrimSuffix(fx.Result, "}")+`,"pad":"`), bytes.Repeat([]byte("x"), runtimes.MaxLine)...)[:runtimes.MaxLine]
	messages, got = decode(rt, Task(), long, runtimes.End{Gateway: Good()})
	if got.Cause != event.CauseNoResult || len(messages) != 1 || messages[0].Kind != event.MessageWarning {
		t.Errorf("a line that was cut: %d messages, %+v", len(messages), got)
	}
}

func journaled(t *testing.T, messages []event.Message) {
	t.Helper()
	for _, m := range messages {
		if m.Kind == "" {
			t.Fatalf("a message without a kind: %+v", m)
		}
		if _, err := json.Marshal(m); err != nil {
			t.Fatalf("a message can not be journaled: %v", err)
		}
	}
}
