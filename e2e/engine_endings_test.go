package e2e

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
)

// notesServer is an MCP server of one tool.
const notesServer = `
const say = (id, result) => process.stdout.write(JSON.stringify({jsonrpc: '2.0', id, result}) + '\n')
require('readline').createInterface({input: process.stdin}).on('line', line => {
  const m = JSON.parse(line)
  switch (m.id === undefined || m.method) {
    case true: return
    case 'initialize': return say(m.id, {protocolVersion: m.params.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: 'notes', version: '1'}})
    case 'tools/list': return say(m.id, {tools: [{name: 'recall', description: 'Recall a note', inputSchema: {type: 'object', properties: {topic: {type: 'string'}}}}]})
    case 'tools/call': return say(m.id, {content: [{type: 'text', text: 'the note says ' + m.params.arguments.topic}]})
  }
  say(m.id, {})
})
`

const (
	livingServer = "mcp-servers: {notes: {command: node, args: [/workspace/mcp.js]}}"
	deadServer   = "mcp-servers: {notes: {command: \"false\"}}"
	wantsVerdict = "output-schema: {type: object, properties: {verdict: {type: string}}, required: [verdict], additionalProperties: false}"
)

// ending is how a step of one engine ends when its model does this.
type ending struct {
	engine, name string
	play         string // script of package fakemodel
	runtime      string // further keys, as in a flow mapping
	step         string // further lines

	cause         event.Cause // empty: it succeeds
	message, hint string      // parts of them
	model         string      // empty: modelOf the engine
	tool          string      // part of its tools' results
	output        string      // name=value
}

func (e ending) job() string { return strings.ReplaceAll(e.engine+" "+e.name, " ", "-") }

// modelOf names one that each vendor's price list has.
func modelOf(engine string) string {
	switch engine {
	case "claude":
		return "claude-sonnet-4-5"
	case "gemini":
		return "gemini-2.5-pro"
	}
	return "gpt-5.6-sol"
}

// flow is a workflow with a job for each of the endings.
func flow(endings []ending) string {
	var b strings.Builder
	b.WriteString("on: workflow_dispatch\ndefaults: {docker: {image: \"" + everyEngine + "\", network: none}, workspace: ro}\njobs:\n")
	for _, e := range endings {
		more := ""
		if e.runtime != "" {
			more = ", " + e.runtime
		}
		fmt.Fprintf(&b, "  %s:\n    steps:\n      - id: ask\n        prompt: Do it. play/%s/%s\n        runtime: {type: cli, engine: %s, model: %s%s}\n%s",
			e.job(), e.play, e.job(), e.engine, cmp.Or(e.model, modelOf(e.engine)), more, e.step)
	}
	return b.String()
}

func (e ending) check(t *testing.T, r result) {
	t.Helper()
	out := r.step(t, e.job(), "ask")
	if out.Cause != e.cause || !strings.Contains(out.Message, e.message) || !strings.Contains(out.Hint, e.hint) || e.cause != "" && out.Hint == "" {
		t.Errorf("%s: %s by %q\nmessage: %s\nhint: %s\nwant %q with %q and a hint at %q", e.job(), out.Outcome, out.Cause, out.Message, out.Hint, e.cause, e.message, e.hint)
	}
	if got := r.toolResults(e.job(), "ask"); !strings.Contains(got, e.tool) {
		t.Errorf("%s: its tools gave %q, want %q", e.job(), got, e.tool)
	}
	if name, value, _ := strings.Cut(e.output, "="); out.Outputs[name] != value {
		t.Errorf("%s: output %s is %q, want %q", e.job(), name, out.Outputs[name], value)
	}
}

// TestEveryEnginesEndings drives the real CLIs through what a model and an MCP
// server can do to them: each ends by the cause that is true, with words for the
// person. What one CLI's own retries would make slow is in its unit tests.
func TestEveryEnginesEndings(t *testing.T) {
	t.Parallel()
	needEveryEngine(t)
	recall := ",input=" + b64(`{"topic":"sheep"}`)
	endings := []ending{
		{engine: "claude", name: "data", play: "do=structured", runtime: wantsVerdict, output: "verdict=sample"},
		{engine: "codex", name: "data", play: "do=text", runtime: wantsVerdict, output: "verdict=sample"},
		{engine: "claude", name: "no data", play: "do=structured,noso=1", runtime: wantsVerdict, cause: event.CauseNoResult, message: "no structured output", hint: "schema"},
		{engine: "codex", name: "no data", play: "do=text,noso=1", runtime: wantsVerdict, cause: event.CauseNoResult, message: "structured output", hint: "schema"},

		{engine: "claude", name: "says nothing", play: "do=text,text=", cause: event.CauseNoResult, message: "without having said or done anything", hint: "again"},
		{engine: "codex", name: "says nothing", play: "do=text,text=", cause: event.CauseNoResult, message: "without having said or done anything", hint: "again"},
		{engine: "gemini", name: "says nothing", play: "do=text,text=", cause: event.CauseInfrastructure, message: "empty response"},
		{engine: "opencode", name: "says nothing", play: "do=text,text=", cause: event.CauseNoResult, message: "without having said or done anything", hint: "again"},

		{engine: "claude", name: "server", play: "do=mcp,steps=2,tool=mcp__notes__recall" + recall, runtime: livingServer, tool: "the note says sheep"},
		{engine: "codex", name: "server", play: "tool=mcp__notes__recall" + recall, runtime: livingServer, tool: "the note says sheep"},
		{engine: "gemini", name: "server", play: "tool=mcp_notes_recall" + recall, runtime: livingServer, tool: "the note says sheep"},
		{engine: "opencode", name: "server", play: "tool=notes_recall" + recall, runtime: livingServer, tool: "the note says sheep"},
		{engine: "claude", name: "dead server", play: "do=text", runtime: deadServer},
		{engine: "codex", name: "dead server", play: "do=text", runtime: deadServer, cause: event.CauseExitCode, message: "notes"},
		{engine: "gemini", name: "dead server", play: "do=text", runtime: deadServer},
		{engine: "opencode", name: "dead server", play: "do=text", runtime: deadServer},

		{engine: "opencode", name: "claude", play: "do=text,text=" + b64("By Claude."), model: "anthropic/claude-sonnet-4-5", output: "result=By Claude."},
		{engine: "opencode", name: "gemini", play: "do=text,text=" + b64("By Gemini."), model: "google/gemini-2.5-pro", output: "result=By Gemini."},

		{engine: "codex", name: "refused key", play: "fail=401", cause: event.CauseAuth, message: "401", hint: "OPENAI_API_KEY"},
		{engine: "gemini", name: "refused key", play: "fail=401", cause: event.CauseAuth, message: "401", hint: "GEMINI_API_KEY"},
		{engine: "opencode", name: "refused key", play: "fail=401", cause: event.CauseAuth, message: "401", hint: "OPENAI_API_KEY"},
		{engine: "gemini", name: "outage", play: "fail=503", cause: event.CauseInfrastructure, message: "503"},
		{engine: "codex", name: "cut off", play: "fail=truncated", cause: event.CauseInfrastructure},
		{engine: "gemini", name: "empty", play: "fail=empty", cause: event.CauseInfrastructure},
		{engine: "opencode", name: "empty", play: "fail=empty", runtime: "max-unanswered: 5", cause: event.CauseNoResult, message: "5 requests in a row", hint: "model"},

		{engine: "codex", name: "declines", play: "do=text,stop=content_filter", cause: event.CauseRefused, hint: "prompt"},
		{engine: "gemini", name: "declines", play: "do=text,stop=SAFETY", cause: event.CauseRefused, hint: "prompt"},
		{engine: "opencode", name: "declines", play: "do=text,stop=content_filter", cause: event.CauseRefused, hint: "prompt"},

		{engine: "claude", name: "hangs", play: "fail=hangstream", runtime: "stall-minutes: 0.3", cause: event.CauseStalled, message: "18s", hint: "stall-minutes"},
		{engine: "codex", name: "hangs", play: "fail=hang", runtime: "stall-minutes: 0.3", cause: event.CauseStalled, message: "18s", hint: "stall-minutes"},
		{engine: "gemini", name: "hangs", play: "fail=hangstream", runtime: "stall-minutes: 0.3", cause: event.CauseStalled, message: "18s", hint: "stall-minutes"},
		{engine: "opencode", name: "hangs", play: "fail=hang", runtime: "stall-minutes: 0.5", cause: event.CauseStalled, message: "30s", hint: "stall-minutes"},

		{engine: "gemini", name: "turns", play: "do=loop", runtime: "max-turns: 2", cause: event.CauseMaxTurns, hint: "max-turns"},
		{engine: "codex", name: "loops", play: "do=loop,in=4000,out=400", runtime: "max-cost-usd: 0.05", cause: event.CauseBudget, message: "$0.0500 allowed", hint: "max-cost-usd"},
		{engine: "gemini", name: "loops", play: "do=loop,in=4000,out=400", runtime: "max-cost-usd: 0.015", cause: event.CauseBudget, message: "$0.0150 allowed", hint: "max-cost-usd"},
		{engine: "gemini", name: "gives up", play: "do=loop", cause: event.CauseNoResult, message: "Loop detected"},
		{engine: "opencode", name: "loops", play: "do=loop", step: "        budget: {max-requests: 3}\n", cause: event.CauseBudget, message: "3 model requests of 3 allowed"},
	}
	model := newModel(t, "")
	m := newMachine(t, "ANTHROPIC_BASE_URL="+model.url, "ANTHROPIC_API_KEY=sk-ant-test", "OPENAI_BASE_URL="+model.url+"/v1", "OPENAI_API_KEY=sk-test",
		"GOOGLE_GEMINI_BASE_URL="+model.url, "GEMINI_API_KEY=g-test")
	dir := newProject(t, map[string]string{"a.txt": "a\n", "mcp.js": notesServer})
	r := m.run(t, dir, flow(endings), "--max-agents", "4").wantCode(t, 3) // some end by an outage
	for _, e := range endings {
		e.check(t, r)
	}
	asked := map[string]int{}
	for _, q := range model.requests() {
		asked[q.Run]++
	}
	for _, e := range endings {
		if asked[e.job()] == 0 && e.job() != "codex-dead-server" {
			t.Errorf("%s: its model was not asked", e.job())
		}
	}
	m.wantNothingLeft(t, dir)
}

// TestALimitOfEveryEngineSaysUntilWhen: a 429 that lasts longer than a request
// can be held ends the step at once, whatever the CLI would have made of it.
func TestALimitOfEveryEngineSaysUntilWhen(t *testing.T) {
	t.Parallel()
	needEveryEngine(t)
	var endings []ending
	for _, engine := range []string{"claude", "codex", "gemini", "opencode"} {
		endings = append(endings, ending{engine: engine, name: "limited", play: "fail=429,ra=3600", cause: event.CauseRateLimited, message: "limit", hint: "retry:"})
	}
	model := newModel(t, "")
	m := newMachine(t, "ANTHROPIC_BASE_URL="+model.url, "ANTHROPIC_API_KEY=sk-ant-test", "OPENAI_BASE_URL="+model.url+"/v1", "OPENAI_API_KEY=sk-test",
		"GOOGLE_GEMINI_BASE_URL="+model.url, "GEMINI_API_KEY=g-test")
	dir := newProject(t, map[string]string{"a.txt": "a\n"})
	r := m.run(t, dir, flow(endings)).wantCode(t, 1)
	for _, e := range endings {
		e.check(t, r)
		if at := r.step(t, e.job(), "ask").RetryAt; time.Until(at) < 50*time.Minute || time.Until(at) > time.Hour {
			t.Errorf("%s: limited until %v, want in an hour", e.job(), at)
		}
	}
	m.wantNothingLeft(t, dir)
}
