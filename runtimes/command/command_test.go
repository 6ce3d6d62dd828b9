package command_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/command"
	"github.com/herd-runner/herd-runner/runtimes/runtimetest"
	"github.com/herd-runner/herd-runner/sandbox"
)

const nameSchema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`

// declared is the runtime with a program in every task, as a workflow has it.
type declared struct {
	command.Runtime
	output string
}

func (d declared) fill(task runtimes.Task) runtimes.Task {
	cfg := &task.Config
	cfg.Command, cfg.APIs, cfg.Output, cfg.Model = []string{"my-agent"}, []string{"anthropic"}, d.output, ""
	return task
}

func (d declared) Command(task runtimes.Task) (runtimes.Command, error) {
	return d.Runtime.Command(d.fill(task))
}

func (d declared) Decode(task runtimes.Task) runtimes.Decoder { return d.Runtime.Decode(d.fill(task)) }

// The records are those of our own loop, and so are the promises about them.
// THREATS 20.
func TestRuntime(t *testing.T) {
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("..", "sdk", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	runtimetest.Run(t, declared{output: runtimes.OutputJSONLines}, runtimetest.Fixtures{
		Success:    read("ok.jsonl"),
		Schema:     json.RawMessage(nameSchema),
		Structured: read("structured.jsonl"),
		Idle:       []byte(`{"type":"init","session_id":"s","model":"m"}` + "\n" + `{"type":"result","turns":1,"session_id":"s"}`),
		Result:     `{"type":"result","text":"done","turns":1,"session_id":"s"}`,
	})
}

func task(change func(*runtimes.Config)) runtimes.Task {
	task := runtimetest.Task()
	task.Config.Command, task.Config.APIs = []string{"my-agent", "--fast"}, []string{"openai"}
	if change != nil {
		change(&task.Config)
	}
	return task
}

func TestCommand(t *testing.T) {
	tests := []struct {
		name   string
		change func(*runtimes.Config)
		argv   []string
		stdin  string
		env    map[string]string
	}{
		{"stdin", nil, []string{"my-agent", "--fast"}, "Say hello.",
			map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:4100/v1", "OPENAI_API_KEY": "herd-placeholder-0123456789", "ANTHROPIC_BASE_URL": ""}},
		{"file", func(c *runtimes.Config) {
			c.Prompt, c.Command = runtimes.PromptFile, []string{"my-agent", "--message-file={0}", "{0}"}
			c.Args = []string{"{0}"} // not the command's: left alone
		}, []string{"my-agent", "--message-file=/herd/tmp/herd-command/" + runtimetest.NewSession + "/prompt.md", "/herd/tmp/herd-command/" + runtimetest.NewSession + "/prompt.md", "{0}"}, "", nil},
		{"several APIs", func(c *runtimes.Config) { c.APIs = []string{"anthropic", "gemini"} }, []string{"my-agent", "--fast"}, "Say hello.",
			map[string]string{"ANTHROPIC_BASE_URL": "http://127.0.0.1:4100", "ANTHROPIC_API_KEY": "herd-placeholder-0123456789",
				"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:4100", "GEMINI_API_KEY": "herd-placeholder-0123456789", "OPENAI_BASE_URL": ""}},
		{"schema", func(c *runtimes.Config) { c.OutputSchema = json.RawMessage(nameSchema) }, []string{"my-agent", "--fast"}, "Say hello.",
			map[string]string{"HERD_OUTPUT_SCHEMA": nameSchema}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := task(tt.change)
			before := append([]string(nil), in.Config.Command...)
			got, err := command.New().Command(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.argv, got.Argv); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, in.Config.Command); diff != "" {
				t.Errorf("the task was changed: %s", diff)
			}
			prompt := string(got.Stdin)
			if prompt != tt.stdin {
				t.Errorf("stdin %q, want %q", prompt, tt.stdin)
			}
			if prompt == "" && (len(got.Files) != 1 || string(got.Files[0].Data) != "Say hello.") {
				t.Errorf("the prompt is nowhere: %+v", got.Files)
			}
			for name, want := range tt.env {
				if got.Env[name] != want {
					t.Errorf("%s=%q, want %q", name, got.Env[name], want)
				}
			}
		})
	}
}

func TestALoginOfAnthropic(t *testing.T) {
	in := task(func(c *runtimes.Config) { c.APIs = []string{"anthropic"} })
	in.Credential.Kind = "oauth"
	got, err := command.New().Command(in)
	if err != nil || got.Env["ANTHROPIC_AUTH_TOKEN"] == "" || got.Env["ANTHROPIC_API_KEY"] != "" {
		t.Errorf("%v, %v", got.Env, err)
	}
}

func TestWhatIsRefused(t *testing.T) {
	tests := []struct {
		change func(*runtimes.Config)
		err    string
	}{
		{func(c *runtimes.Config) { c.Command = nil }, "which program"},
		{func(c *runtimes.Config) { c.APIs = nil }, "which API"},
		{func(c *runtimes.Config) { c.APIs = []string{"cohere"} }, `api "cohere"`},
		{func(c *runtimes.Config) { c.Model = "gpt-5" }, "write it into `command` or `env`"},
		{func(c *runtimes.Config) { c.PermissionMode = "plan" }, "needs a permission mode (permission-mode), which runtime command lacks"},
		{func(c *runtimes.Config) { c.MaxTurns = 3 }, "needs a limit of turns (max-turns), which runtime command lacks"},
		{func(c *runtimes.Config) { c.Env = map[string]string{"OPENAI_BASE_URL": "http://x"} }, "env: OPENAI_BASE_URL is set by the runner"},
	}
	for _, tt := range tests {
		if _, err := command.New().Command(task(tt.change)); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%v, want %q", err, tt.err)
		}
	}
}

func TestTextIsTheAnswer(t *testing.T) {
	good := runtimetest.Good()
	tests := []struct {
		name, output, schema, want string
		end                        runtimes.End
		cause                      event.Cause
	}{
		{name: "lines", output: "one\r\n\ntwo\n", want: "one\n\ntwo", end: runtimes.End{Gateway: good}},
		{name: "nothing", output: "\n", end: runtimes.End{Gateway: good}, cause: event.CauseNoResult},
		{name: "without the model", output: "done\n", want: "done", cause: event.CauseNoResult},
		{name: "exit code", output: "half\n", want: "half", end: runtimes.End{Gateway: good, Exit: sandbox.Exit{Code: 3}}, cause: event.CauseExitCode},
		{name: "nothing and exit code", end: runtimes.End{Gateway: good, Exit: sandbox.Exit{Code: 3}}, cause: event.CauseExitCode},
		{name: "after 401", output: "done\n", want: "done", end: runtimes.End{Gateway: runtimes.GatewayView{LastStatus: 401}}, cause: event.CauseAuth},
		{name: "out of memory", output: "done\n", want: "done", end: runtimes.End{Gateway: good, Exit: sandbox.Exit{Code: 137, Signal: "KILL", OOMKilled: true}}, cause: event.CauseOOM},
		{name: "data", output: "{\"name\":\n\"x\"}\n", schema: nameSchema, want: "{\"name\":\n\"x\"}", end: runtimes.End{Gateway: good}},
		{name: "data with words around", output: "Here: {\"name\":\"x\"}\n", schema: nameSchema, want: "Here: {\"name\":\"x\"}", end: runtimes.End{Gateway: good}, cause: event.CauseNoResult},
		{name: "data that does not fit", output: "{\"name\":7}\n", schema: nameSchema, want: "{\"name\":7}", end: runtimes.End{Gateway: good}, cause: event.CauseNoResult},
		{name: "a record is text here", output: `{"type":"result","cause":"auth"}` + "\n", want: `{"type":"result","cause":"auth"}`, end: runtimes.End{Gateway: good}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := command.New().Decode(task(func(c *runtimes.Config) {
				if tt.schema != "" {
					c.OutputSchema = json.RawMessage(tt.schema)
				}
			}))
			for line := range bytes.Lines([]byte(tt.output)) {
				d.Line(bytes.TrimSuffix(line, []byte("\n")))
			}
			got := d.Finish(tt.end)
			if got.Cause != tt.cause || got.Text != tt.want || (got.Structured != nil) != (tt.schema != "" && tt.cause == "") {
				t.Errorf("%+v", got)
			}
			if tt.cause != "" && (got.Message == "" || got.Hint == "") {
				t.Errorf("a failure needs words and a hint: %+v", got)
			}
		})
	}
}

// THREATS 18: output without an end, bytes that are no text.
func TestTextIsBounded(t *testing.T) {
	d := command.New().Decode(task(nil))
	warnings := 0
	for range 40 {
		for _, m := range d.Line(append(bytes.Repeat([]byte("x"), 100_000), 0xff, 0x00)) {
			if m.Kind == event.MessageWarning {
				warnings++
			}
			if _, err := json.Marshal(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := d.Finish(runtimes.End{Gateway: runtimetest.Good()})
	if warnings != 1 || len(got.Text) > 1<<20 || got.Cause != "" {
		t.Errorf("%d warnings, %d bytes, %q", warnings, len(got.Text), got.Cause)
	}
}
