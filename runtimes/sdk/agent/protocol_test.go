package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/runtimetest"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
	"github.com/herd-runner/herd-runner/sandbox"
)

// TestBothSidesOfTheProtocol runs the command that package sdk describes and
// decodes what the loop prints with package sdk's decoder.
func TestBothSidesOfTheProtocol(t *testing.T) {
	task := runtimetest.Task()
	task.Box.Workdir, task.Box.Home = t.TempDir(), t.TempDir()
	task.Prompt = "quotes \" and \x00 and 🐑"
	task.Config.OutputSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
	task.Config.AllowedTools = []string{"Bash"}
	cmd, err := sdk.New(sdk.Anthropic).Command(task)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, calls("bash", `{"command":"echo \"<b>\" 'it'"}`), calls(sdk.StructuredTool, `{"n":3}`))
	environ := []string{"PATH=" + os.Getenv("PATH")}
	for k, v := range cmd.Env {
		if k == sdk.EnvBaseURL {
			v = s.URL
		}
		environ = append(environ, k+"="+v)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var stdout bytes.Buffer
	code := work(ctx, bytes.NewReader(cmd.Stdin), &stdout, environ)
	d := sdk.New(sdk.Anthropic).Decode(task)
	var got []event.Message
	for line := range bytes.Lines(stdout.Bytes()) {
		got = append(got, d.Line(line)...)
	}
	input := json.RawMessage(`{"command":"echo \"<b>\" 'it'"}`)
	want := []event.Message{
		{Kind: event.MessageInit, SessionID: runtimetest.NewSession, Model: (&anthropicAPI{}).modelID("")},
		{Kind: event.MessageToolCall, Tool: "bash", CallID: "toolu_0", Input: got[1].Input},
		{Kind: event.MessageToolResult, CallID: "toolu_0", Text: "<b> it\n"},
		{Kind: event.MessageToolCall, Tool: sdk.StructuredTool, CallID: "toolu_0", Input: json.RawMessage(`{"n":3}`)},
		{Kind: event.MessageToolResult, CallID: "toolu_0", Text: "ok"},
		{Kind: event.MessageResult, Text: `{"n":3}`, SessionID: runtimetest.NewSession},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var a, b any
	if json.Unmarshal(got[1].Input, &a) != nil || json.Unmarshal(input, &b) != nil || !cmp.Equal(a, b) {
		t.Errorf("input: %s", got[1].Input)
	}
	result := d.Finish(runtimes.End{Exit: sandbox.Exit{Code: code}, Gateway: runtimetest.Good()})
	if result.Cause != "" || string(result.Structured) != `{"n":3}` || result.Turns != 2 {
		t.Errorf("%+v", result)
	}
	if !strings.Contains(s.requests[0], `quotes \" and \u0000 and 🐑`) {
		t.Errorf("the prompt is not in the request:\n%s", s.requests[0])
	}
}
