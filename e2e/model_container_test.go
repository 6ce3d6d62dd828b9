package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/herd-runner/herd-runner/internal/event"
)

// modelInContainer starts the model server as a container of its own, as a
// model's vendor is a machine of its own.
func modelInContainer(t *testing.T, scenarios string) string {
	t.Helper()
	// Its reaper is an image from a hub; what is started here is removed here.
	t.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
	if _, err := os.Stat("/.dockerenv"); err == nil {
		t.Setenv("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := testcontainers.Run(ctx, agentImage,
		testcontainers.WithFiles(
			testcontainers.ContainerFile{HostFilePath: built(t).fakemodel, ContainerFilePath: "/fakemodel", FileMode: 0o755},
			testcontainers.ContainerFile{Reader: strings.NewReader(scenarios), ContainerFilePath: "/scenarios.yml", FileMode: 0o644},
		),
		testcontainers.WithEntrypoint("/fakemodel"),
		testcontainers.WithCmd("--addr", "0.0.0.0:8787", "--script", "/scenarios.yml"),
		testcontainers.WithExposedPorts("8787/tcp"),
		testcontainers.WithWaitStrategy(wait.ForListeningPort("8787/tcp").WithStartupTimeout(30*time.Second)),
		testcontainers.WithLogger(silent{}),
	)
	t.Cleanup(func() {
		if err := testcontainers.TerminateContainer(server, testcontainers.StopTimeout(time.Second)); err != nil {
			t.Errorf("remove the model's container: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("start the model's container: %v", err)
	}
	url, err := server.PortEndpoint(ctx, "8787/tcp", "http")
	if err != nil {
		t.Fatal(err)
	}
	return url
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// bothAgents is a workflow with the real CLI and the SDK loop side by side;
// %[1]s goes into both runtimes, %[2]s into both steps.
const bothAgents = `
on: workflow_dispatch
defaults:
  workspace: ro
  docker: {network: none}
jobs:
  claude:
    steps:
      - id: ask
        prompt: Say what is in a.txt
        runtime: {type: cli, engine: claude, model: sonnet%[1]s}
%[2]s
  sdk:
    steps:
      - id: ask
        prompt: Say what is in a.txt
        runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5%[1]s}
%[2]s
`

// TestModelInAContainer drives agents in boxes without a network against a model
// in a container, through every way a model can fail.
// THREATS 19.
func TestModelInAContainer(t *testing.T) {
	needEngine(t)
	url := modelInContainer(t, `
scenarios:
  - name: read
    prompt: Say what is in a
    turns:
      - calls: [{name: "Bash|bash", input: {command: cat a.txt, description: read}}]
        usage: {input: 1000, output: 100}
      - text: It says one.
        usage: {input: 2000, output: 50}
`)
	script := func(keys string) string { return url + "/s/" + keys + "/" }
	b64 := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

	t.Run("success", func(t *testing.T) {
		t.Parallel()
		r, _ := runBoth(t, url, "", "", 0)
		for _, job := range []string{"claude", "sdk"} {
			out := r.step(t, job, "ask")
			if out.Outcome != "success" || out.Cause != "" || out.Outputs["result"] != "It says one." {
				t.Errorf("%s: %+v", job, out)
			}
			if u := out.Usage; u == nil || u.InputTokens != 3000 || u.OutputTokens != 150 || !u.CostKnown {
				t.Errorf("%s: usage %+v", job, u)
			}
			if got := r.toolResults(job, "ask"); !strings.Contains(got, "one") {
				t.Errorf("%s: its tool gave %q", job, got)
			}
		}
	})

	for _, test := range []struct {
		name, url     string
		runtime, step string
		code          int
		cause         event.Cause
		message, hint string
		only          string // this job alone
	}{
		{name: "a refused key", url: script("fail=401,sr=false"), code: 1,
			cause: event.CauseAuth, message: "401", hint: "ANTHROPIC_API_KEY"},
		{name: "a forbidden model", url: script("fail=403,sr=false"), code: 1, cause: event.CauseAuth, message: "403", hint: "ANTHROPIC_API_KEY"},
		{name: "a rate limit", url: script("fail=429,ra=1,sr=false"), code: 1,
			cause: event.CauseRateLimited, message: "429", hint: "retry:"},
		{name: "an overloaded model", url: script("fail=529,ra=1,sr=false"), code: 1,
			cause: event.CauseRateLimited, message: "529", hint: "retry:"},
		{name: "a bad request", url: script("fail=400"), code: 1,
			cause: event.CauseExitCode, message: "400", hint: "logs"},
		{name: "a model nobody knows", url: script("fail=404"), code: 1,
			cause: event.CauseExitCode, message: "404", hint: "model:"},
		{name: "an empty purse", url: script("fail=credit"), code: 1,
			cause: event.CauseBudget, message: "credit balance", hint: "top up"},
		{name: "a budget", url: script("do=loop,in=4000,out=400"), runtime: ", max-cost-usd: 0.02", code: 1,
			cause: event.CauseBudget, message: "$0.0200 allowed", hint: "max-cost-usd"},
		{name: "a budget of tokens", url: script("do=loop,in=4000,out=400"), runtime: ", max-tokens: 5000", code: 1,
			cause: event.CauseBudget, message: "5000 allowed", hint: "max-tokens"},
		{name: "too many turns", url: script("do=loop"), runtime: ", max-turns: 2", code: 1,
			cause: event.CauseMaxTurns, hint: "max-turns"},
		{name: "a model that declines", url: script("do=text,stop=refusal,text=" + b64("I will not.")), code: 1,
			cause: event.CauseRefused, hint: "prompt"},
		{name: "a model that does not answer", url: script("fail=hang"), step: "        timeout-minutes: 0.1\n", code: 1,
			cause: event.CauseTimeout, message: "timeout-minutes", hint: "timeout-minutes"},
		{name: "a model that stops in the middle", url: script("fail=hangstream"), step: "        timeout-minutes: 0.1\n", code: 1,
			cause: event.CauseTimeout, message: "timeout-minutes", hint: "timeout-minutes"},
		{name: "an agent without a last word", url: url, runtime: `, env: {PATH: "/workspace/silent:/usr/bin:/bin"}`, only: "claude", code: 1,
			cause: event.CauseNoResult, message: "without a result", hint: "logs"},
		{name: "an agent that makes its success up", url: url, runtime: `, env: {PATH: "/workspace/forged:/usr/bin:/bin"}`, only: "claude", code: 1,
			cause: event.CauseNoResult, message: "without having asked the model"},
		{name: "an agent that is killed", url: script("do=bash,cmd=" + b64("kill -9 $PPID")), only: "claude", code: 1,
			cause: event.CauseExitCode, message: "signal KILL", hint: "logs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			upstream := test.url
			if upstream != url {
				upstream += strings.ReplaceAll(test.name, " ", "-")
			}
			r, jobs := runBoth(t, upstream, test.runtime, test.step, test.code, strings.Fields(test.only)...)
			for _, job := range jobs {
				out := r.step(t, job, "ask")
				if out.Outcome != "failure" || out.Cause != test.cause ||
					!strings.Contains(out.Message, test.message) || !strings.Contains(out.Hint, test.hint) {
					t.Errorf("%s: %s by %q\nmessage: %s\nhint: %s\nwant failure by %q with %q and a hint at %q",
						job, out.Outcome, out.Cause, out.Message, out.Hint, test.cause, test.message, test.hint)
				}
				if test.hint != "" && out.Hint == "" {
					t.Errorf("%s: no hint", job)
				}
			}
		})
	}

	for _, job := range []string{"claude", "sdk"} {
		t.Run("a rate limit that passes, "+job, func(t *testing.T) {
			t.Parallel()
			r, _ := runBoth(t, script("fail=429,n=1,ra=1,sr=false,do=text,text="+b64("Second try."))+"passes-"+job, "",
				"        retry: {max: 2, on: [rate_limited]}\n", 0, job)
			out := r.step(t, job, "ask")
			if out.Outcome != "success" || out.Outputs["result"] != "Second try." {
				t.Errorf("%+v", out)
			}
			var causes []event.Cause
			for _, e := range r.events {
				if e.Type == event.StepRetry {
					causes = append(causes, e.Outcome.Cause)
				}
				if e.Type == event.StepFinished && e.Attempt != 2 {
					t.Errorf("it ended in attempt %d, want 2", e.Attempt)
				}
			}
			if len(causes) != 1 || causes[0] != event.CauseRateLimited {
				t.Errorf("attempts failed by %q, want one by rate_limited", causes)
			}
		})
	}
}

// runBoth runs bothAgents, or one job of it, on a fresh project.
func runBoth(t *testing.T, upstream, runtime, step string, code int, only ...string) (result, []string) {
	t.Helper()
	m := newMachine(t, "ANTHROPIC_BASE_URL="+upstream, "ANTHROPIC_API_KEY=sk-ant-test")
	dir := newProject(t, map[string]string{
		"a.txt":         "one\n",
		"silent/claude": "#!/bin/sh\necho '{\"type\":\"system\",\"subtype\":\"init\"}'\n",
		"forged/claude": "#!/bin/sh\necho '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"All done.\",\"num_turns\":3,\"total_cost_usd\":0}'\n",
	})
	for _, name := range []string{"silent", "forged"} {
		if err := os.Chmod(filepath.Join(dir, name, "claude"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var args []string
	jobs := []string{"claude", "sdk"}
	if len(only) > 0 {
		jobs, args = only, []string{"-j", only[0]}
	}
	r := m.run(t, dir, fmt.Sprintf(bothAgents, runtime, step), args...).wantCode(t, code)
	m.wantNothingLeft(t, dir)
	return r, jobs
}
