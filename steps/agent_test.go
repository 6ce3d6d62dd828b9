package steps_test

import (
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/steps"
)

// scripted is a runtime whose agent is a shell script: each attempt runs the
// next one with the prompt on stdin. A line "result TEXT" is the final record.
type scripted struct {
	mu      sync.Mutex
	scripts []string
	tasks   []runtimes.Task
	quiet   time.Duration
}

func (s *scripted) Describe() runtimes.Description {
	return runtimes.Description{Name: "scripted", Type: "cli", Engine: "scripted", API: "anthropic"}
}

func (s *scripted) Command(task runtimes.Task) (runtimes.Command, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	script := s.scripts[len(s.tasks)]
	s.tasks = append(s.tasks, task)
	return runtimes.Command{
		Argv: []string{"sh", "-c", script}, Stdin: []byte(task.Prompt), QuietEnd: s.quiet,
		Stop: []sandbox.StopStage{{Signal: "TERM", Grace: time.Second}},
	}, nil
}

func (s *scripted) Decode(task runtimes.Task) runtimes.Decoder { return &scriptedDecoder{task: task} }

type scriptedDecoder struct {
	task runtimes.Task
	text string
}

func (d *scriptedDecoder) Line(line []byte) []event.Message {
	if text, ok := strings.CutPrefix(string(line), "result "); ok {
		d.text = text
		return []event.Message{{Kind: event.MessageResult, Text: text}}
	}
	return []event.Message{{Kind: event.MessageText, Text: string(line)}}
}

func (d *scriptedDecoder) Finish(end runtimes.End) runtimes.Result {
	res := runtimes.Result{Text: d.text, SessionID: d.task.SessionID, Turns: 2}
	switch {
	case end.Gateway.LastStatus == 429:
		res.Cause = event.CauseRateLimited
	case end.Exit.Code != 0:
		res.Cause, res.Message = event.CauseExitCode, string(end.Stderr)
	case d.text == "":
		res.Cause = event.CauseNoResult
	case json.Valid([]byte(d.text)):
		res.Structured = json.RawMessage(d.text)
	}
	return res
}

// session is a gateway session that has seen what the test says.
type session struct{ view runtimes.GatewayView }

func (s *session) Credential() runtimes.Credential {
	return runtimes.Credential{Kind: "api-key", Token: "placeholder"}
}
func (s *session) Serve(conn net.Conn)        { conn.Close() }
func (s *session) View() runtimes.GatewayView { return s.view }

// prepareAgent gives an execution whose agent steps are driven by rt; views
// are what the gateway saw, by attempt.
func prepareAgent(t *testing.T, rt *scripted, src string, views ...runtimes.GatewayView) *execution {
	e := prepare(t, src)
	e.options.Runtime = func(runtimes.Config) (runtimes.Runtime, error) { return rt, nil }
	e.options.OpenModel = func(run steps.AgentRun) (steps.ModelSession, func() error, error) {
		view := runtimes.GatewayView{LastStatus: 200, Usage: event.Usage{Requests: 1, InputTokens: 10, OutputTokens: 5, CostUSD: 0.25, CostKnown: true}}
		if run.Attempt <= len(views) {
			view = views[run.Attempt-1]
		}
		return &session{view}, func() error { return nil }, nil
	}
	return e
}

func (e *execution) finished(step string) event.Outcome {
	e.t.Helper()
	for _, ev := range e.events.events {
		if ev.Type == event.StepFinished && ev.Job+"/"+ev.Step == step {
			return *ev.Outcome
		}
	}
	e.t.Fatalf("step %s did not finish", step)
	return event.Outcome{}
}

const oneAgent = `
jobs:
  a:
    outputs: {list: "${{ steps.s.outputs.list }}", n: "${{ steps.s.outputs.structured.n }}"}
    steps:
      - {id: s, prompt: "do $(it) 'now'"}
  b: {needs: a, steps: [{id: s, env: {L: "${{ needs.a.outputs.list }}", N: "${{ needs.a.outputs.n }}"}, run: "echo $L $N"}]}
`

func TestAgentOutputs(t *testing.T) {
	t.Parallel()
	rt := &scripted{scripts: []string{`cat >prompt; echo thinking; echo '::set-output name=result::forged'; echo 'result {"list":["x",1],"n":2}'`}}
	e := prepareAgent(t, rt, oneAgent)
	if out := e.run(); out.Conclusion != "success" || out.Usage.CostUSD != 0.25 {
		t.Fatalf("run: %+v\n%s", out, e.notes())
	}
	got := e.finished("a/s")
	want := map[string]string{
		"structured": `{"list":["x",1],"n":2}`, "list": `["x",1]`, "n": "2", "result": `{"list":["x",1],"n":2}`,
		"session-id": rt.tasks[0].SessionID, "cost-usd": "0.25", "input-tokens": "10", "output-tokens": "5", "turns": "2", "cause": "",
	}
	if diff := cmp.Diff(want, got.Outputs); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	if out := e.output("b/s"); out != "[\"x\",1] 2\n" {
		t.Errorf("the next job saw %q", out)
	}
	if rt.tasks[0].Prompt != "do $(it) 'now'" {
		t.Errorf("prompt: %q", rt.tasks[0].Prompt)
	}
}

// THREATS 19: exit 0 with no result record is no success.
func TestAgentWithoutResult(t *testing.T) {
	t.Parallel()
	e := prepareAgent(t, &scripted{scripts: []string{"true"}}, oneAgent)
	e.run()
	if got := e.finished("a/s"); got.Cause != event.CauseNoResult {
		t.Errorf("cause: %q", got.Cause)
	}
}

// THREATS 19: a process that lives after its result is ended and judged by it.
func TestAgentLingers(t *testing.T) {
	t.Parallel()
	e := prepareAgent(t, &scripted{scripts: []string{"echo result done; sleep 60"}, quiet: 50 * time.Millisecond}, oneAgent)
	if out := e.run(); out.Conclusion != "success" {
		t.Errorf("got %+v\n%s", e.finished("a/s"), e.notes())
	}
}

// FR-012: a silent agent is ended with cause stalled.
// THREATS 19.
func TestAgentStalls(t *testing.T) {
	t.Parallel()
	e := prepareAgent(t, &scripted{scripts: []string{"echo hello; sleep 60"}}, oneAgent)
	e.options.Stall = 200 * time.Millisecond
	e.run()
	if got := e.finished("a/s"); got.Cause != event.CauseStalled {
		t.Errorf("cause: %q", got.Cause)
	}
}

// FR-012: its own time, and files in HOME as signs of life.
func TestStallMinutes(t *testing.T) {
	t.Parallel()
	e := prepareAgent(t, &scripted{scripts: []string{"i=0; while [ $i -lt 12 ]; do echo $i >$HOME/session.jsonl; sleep 0.1; i=$((i+1)); done; sleep 60"}}, `
jobs:
  a: {steps: [{id: s, prompt: x, runtime: {stall-minutes: 0.01}}]}
`)
	e.options.Stall = time.Hour
	start := time.Now()
	e.run()
	if got := e.finished("a/s"); got.Cause != event.CauseStalled || time.Since(start) < time.Second || !strings.Contains(got.Message, "600ms") {
		t.Errorf("got %+v after %s", got, time.Since(start))
	}
}

func TestAgentTimeout(t *testing.T) {
	t.Parallel()
	e := prepareAgent(t, &scripted{scripts: []string{"sleep 60"}}, `
jobs:
  a: {steps: [{id: s, prompt: x, timeout-minutes: 0.005}]}
`)
	e.run()
	if got := e.finished("a/s"); got.Cause != event.CauseTimeout || got.Outcome != "failure" {
		t.Errorf("outcome: %+v", got)
	}
}

// A retry resumes the session that got somewhere, and starts anew one that
// never reached the model.
func TestAgentRetry(t *testing.T) {
	t.Parallel()
	limited := runtimes.GatewayView{LastStatus: 429, Usage: event.Usage{Requests: 2, OutputTokens: 7, CostUSD: 1, CostKnown: true}}
	for _, tt := range []struct {
		name    string
		first   runtimes.GatewayView
		resumed bool
	}{
		{"after work", limited, true},
		{"before any answer", runtimes.GatewayView{LastStatus: 429, Usage: event.Usage{Requests: 1, CostKnown: true}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rt := &scripted{scripts: []string{"exit 1", "echo result ok"}}
			e := prepareAgent(t, rt, `
jobs:
  a: {steps: [{id: s, prompt: original, retry: {max: 1, on: [rate_limited]}}]}
`, tt.first)
			if out := e.run(); out.Conclusion != "success" {
				t.Fatalf("got %+v\n%s", e.finished("a/s"), e.notes())
			}
			if got := rt.tasks[1]; (got.Resume == rt.tasks[0].SessionID) != tt.resumed || (got.Prompt == "original") == tt.resumed {
				t.Errorf("second task: %+v", got)
			}
			if got, want := e.finished("a/s").Usage.Requests, tt.first.Usage.Requests+1; got != want {
				t.Errorf("requests of all attempts: got %d, want %d", got, want)
			}
		})
	}
}

// Agents do not get secrets: neither in the prompt nor by inherited env.
func TestAgentGetsNoSecret(t *testing.T) {
	t.Parallel()
	rt := &scripted{scripts: []string{"echo result [$T]$U"}}
	e := prepareAgent(t, rt, `
env: {T: "s3cr3t-value", U: plain}
jobs:
  a: {steps: [{run: "echo ::add-mask::s3cr3t-value"}, {id: s, prompt: x}]}
  b: {needs: a, steps: [{id: s, prompt: "tell s3cr3t-value"}]}
`)
	e.run()
	if got := e.finished("a/s").Outputs["result"]; got != "[]plain" {
		t.Errorf("env of the agent: %q", got)
	}
	if got := e.finished("b/s"); got.Cause != event.CausePolicyDenied {
		t.Errorf("prompt with a secret: %+v", got)
	}
}
