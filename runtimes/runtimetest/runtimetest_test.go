package runtimetest_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/runtimetest"
	"github.com/herd-runner/herd-runner/sandbox"
)

// parrot is the least that a runtime can be, written along the checklist of
// CONTRIBUTING.md: a program that takes the prompt on stdin, asks Anthropic's API
// and prints {"session": ID}, {"say": TEXT}, {"call": ID, "tool": NAME}, {"result":
// ID, "text": TEXT} and at last {"done": TEXT} or {"failed": TEXT}.
type parrot struct{}

func (parrot) Describe() runtimes.Description {
	return runtimes.Description{Name: "parrot", Type: runtimes.TypeCLI, Engine: "parrot", API: runtimes.APIAnthropic,
		Features: []runtimes.Feature{runtimes.FeatureMaxCost}, // the gateway's work
		NoLogin:  "it has no login of its own: use auth: env"}
}

func (p parrot) Command(task runtimes.Task) (runtimes.Command, error) {
	if err := runtimes.CheckTask(p, task); err != nil {
		return runtimes.Command{}, err
	}
	env, err := runtimes.Environment(task, nil, []string{"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"})
	if err != nil {
		return runtimes.Command{}, err
	}
	if task.Box.Gateway != "" {
		env["ANTHROPIC_BASE_URL"] = "http://" + task.Box.Gateway
	}
	if task.Credential.Token != "" {
		env["ANTHROPIC_API_KEY"] = task.Credential.Token
	}
	return runtimes.Command{
		Argv: []string{"parrot", "--model=" + task.Config.Model, "--session=" + task.SessionID}, Env: env, Stdin: []byte(task.Prompt),
		Stop: []sandbox.StopStage{{Signal: "TERM", Grace: 10 * time.Second}}, QuietEnd: 15 * time.Second,
	}, nil
}

func (parrot) Decode(task runtimes.Task) runtimes.Decoder { return &parrotDecoder{task: task} }

type parrotDecoder struct {
	task    runtimes.Task
	claim   runtimes.Claim
	session string
	turns   int
}

func (d *parrotDecoder) Line(line []byte) []event.Message {
	var r struct{ Session, Say, Call, Tool, Result, Text, Done, Failed string }
	one := func(m event.Message) []event.Message { return []event.Message{m} }
	if json.Unmarshal(line, &r) != nil {
		if len(line) < runtimes.MaxLine-1 {
			return nil
		}
		d.claim.Cut = true
		return one(event.Message{Kind: event.MessageWarning, Text: "a record was too long and is lost"})
	}
	switch {
	case r.Session != "":
		d.session = r.Session
		return one(event.Message{Kind: event.MessageInit, SessionID: r.Session})
	case r.Say != "":
		d.turns++
		return one(event.Message{Kind: event.MessageText, Text: r.Say})
	case r.Call != "":
		return one(event.Message{Kind: event.MessageToolCall, CallID: r.Call, Tool: r.Tool})
	case r.Result != "":
		return one(event.Message{Kind: event.MessageToolResult, CallID: r.Result, Text: r.Text})
	case r.Done != "":
		d.claim = runtimes.Claim{Final: true, Text: r.Done}
		return one(event.Message{Kind: event.MessageResult, Text: r.Done})
	case r.Failed != "":
		d.claim = runtimes.Claim{Final: true, Failure: &runtimes.Result{Cause: event.CauseExitCode, Message: r.Failed, Hint: "see the logs"}}
		return one(event.Message{Kind: event.MessageResult, Text: r.Failed, IsError: true})
	}
	return nil
}

func (d *parrotDecoder) Finish(end runtimes.End) runtimes.Result {
	r := runtimes.Verdict(d.task, end, d.claim)
	r.SessionID, r.Turns = d.session, d.turns
	return r
}

func TestParrot(t *testing.T) {
	runtimetest.Run(t, parrot{}, runtimetest.Fixtures{
		Success: []byte(`{"session":"` + runtimetest.NewSession + `"}
{"say":"I look into the bag."}
{"call":"1","tool":"look"}
{"result":"1","text":"a cracker"}
{"done":"Polly wants a cracker."}
`),
		Result: `{"done":"all is well"}`,
	})
}
