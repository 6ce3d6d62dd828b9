package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

// maxContinuations is how often an answer that was cut at the output limit is
// asked to go on.
const maxContinuations = 3

// maxStructuredTries is how often the model may give structured output that
// does not fit: once, and one repair.
const maxStructuredTries = 2

const (
	continuePrompt   = "Your answer was cut at the output limit. Go on exactly where it stopped."
	structuredPrompt = "Now call the " + sdk.StructuredTool + " tool with your answer."
)

// loop is one conversation: ask, run the tools asked for, ask again.
type loop struct {
	req       sdk.Request
	provider  *provider
	rules     permission
	work      workspace
	tools     []tool
	answer    *structured // nil: free text
	out       *emitter
	session   *session
	sessionID string

	model    string
	system   []string
	messages []message
	turns    int // answers of the model
}

func newLoop(req sdk.Request, env environment, out *emitter) (*loop, error) {
	p, err := newProvider(req.Engine, env)
	if err != nil {
		return nil, err
	}
	rules, err := newPermission(req)
	if err != nil {
		return nil, err
	}
	w := workspace{dir: req.Workdir, env: env.tools, net: newNetwork(env), background: &background{}}
	l := &loop{
		req:      req,
		provider: p,
		rules:    rules,
		work:     w,
		tools:    permitted(ownTools(w), rules),
		out:      out,
		model:    p.modelID(req.Model),
		system:   systemPrompt(req),
	}
	if req.OutputSchema != nil {
		if l.answer, err = newStructured(req.OutputSchema); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// run goes on until the model is done or something ends it. An error that is
// no *failure and comes with a live ctx is a bug or a broken machine.
func (l *loop) run(ctx context.Context) (sdk.Record, error) {
	if err := l.open(); err != nil {
		return sdk.Record{}, err
	}
	servers, err := l.connect(ctx)
	if err != nil {
		return sdk.Record{}, err
	}
	defer servers.stop()
	defer l.work.background.stop()
	var said strings.Builder // the final answer, over continuations
	continued, tries, nudged := 0, 0, false
	for {
		if l.out.err != nil {
			return sdk.Record{}, fmt.Errorf("write to stdout: %w", l.out.err)
		}
		if l.req.MaxTurns > 0 && l.turns >= l.req.MaxTurns {
			return sdk.Record{}, &failure{event.CauseMaxTurns, fmt.Sprintf("reached the limit of %d turns", l.req.MaxTurns),
				"raise max-turns, or give the step less to do; `session:` can go on from where it stopped"}
		}
		answer, err := l.ask(ctx, nudged)
		if err != nil {
			return sdk.Record{}, err
		}
		l.turns++
		text, calls := l.heard(answer.message)
		switch answer.stop {
		case stopRefused:
			return sdk.Record{}, &failure{event.CauseRefused, strings.TrimSpace("the model declined the request: " + text), "change the prompt or the model"}
		case stopWindow:
			return sdk.Record{}, &failure{event.CauseExitCode, "the conversation has filled the model's context window",
				"shorten the prompt, or split the step"}
		case stopPaused:
			continue
		case stopLimit:
			if continued++; continued > maxContinuations {
				return sdk.Record{}, &failure{event.CauseNoResult, "the answer was cut at the model's output limit again and again",
					"ask for a shorter answer, or for a file written in parts"}
			}
			said.WriteString(text)
			l.goOn(calls)
			continue
		}
		if len(calls) == 0 {
			said.WriteString(text)
			if l.answer == nil {
				return sdk.Record{Text: said.String()}, nil
			}
			if nudged {
				return sdk.Record{}, noStructured("it answered in words instead")
			}
			nudged = true
			l.say(textPart(structuredPrompt))
			continue
		}
		said.Reset()
		continued = 0
		last := l.req.MaxTurns > 0 && l.turns >= l.req.MaxTurns
		if last && !slices.ContainsFunc(calls, isStructured) {
			continue // the limit above ends it; tools whose result nobody reads are not run
		}
		value, err := l.answerCalls(ctx, calls)
		if ctx.Err() != nil {
			return sdk.Record{}, ctx.Err()
		}
		if value != nil {
			return sdk.Record{Text: string(value), Structured: value}, nil
		}
		if err != nil {
			if tries++; tries >= maxStructuredTries {
				return sdk.Record{}, noStructured(err.Error())
			}
		}
	}
}

func noStructured(why string) *failure {
	return &failure{event.CauseNoResult, "the agent gave no structured output that fits output-schema: " + why,
		"make the schema simpler or say in the prompt what goes where"}
}

// open begins or resumes the session and adds the prompt.
func (l *loop) open() error {
	s, messages, err := openSession(l.req)
	if err != nil {
		return err
	}
	l.session, l.sessionID, l.messages = s, s.id, messages
	if s.warning != "" {
		l.out.warn(s.warning)
	}
	l.out.emit(sdk.Record{Type: event.MessageInit, SessionID: s.id, Model: l.model})
	l.say(append(interrupted(messages), textPart(l.req.Prompt))...)
	return nil
}

// connect starts the MCP servers and takes up their tools.
func (l *loop) connect(ctx context.Context) (*mcpServers, error) {
	servers, err := startMCP(ctx, l.req.MCPServers, l.work, mcpStart)
	if err != nil {
		return nil, err
	}
	for _, text := range servers.warnings {
		l.out.warn(text)
	}
	for _, r := range append(slices.Clone(l.rules.allowed), l.rules.denied...) {
		if strings.HasPrefix(r.Tool, sdk.MCPPrefix) && !slices.ContainsFunc(servers.tools, func(t tool) bool { return glob(r.Tool, t.name) }) {
			l.out.warn(fmt.Sprintf("%s in allowed-tools or denied-tools is no tool of the MCP servers", r))
		}
	}
	l.tools = append(l.tools, permitted(servers.tools, l.rules)...)
	l.system = append(l.system, servers.instructions...)
	return servers, nil
}

// say adds a user message.
func (l *loop) say(parts ...part) {
	l.add(message{Role: roleUser, Parts: parts})
}

func (l *loop) add(m message) {
	l.messages = append(l.messages, m)
	if err := l.session.append(m); err != nil {
		l.out.warn("the session is not saved: " + err.Error())
	}
}

// goOn asks for the rest of a cut answer. A call that was cut gets an error as
// its result, because every call needs one.
func (l *loop) goOn(calls []call) {
	var parts []part
	for _, c := range calls {
		parts = append(parts, resultPart(c, toolOutput{text: "not run: the call was cut at the output limit; make it smaller, for example write the file in parts", isError: true}))
	}
	l.say(append(parts, textPart(continuePrompt))...)
}

// ask sends the conversation, with the fallback model where the first is
// overloaded or unknown. forced makes the model give its structured output.
func (l *loop) ask(ctx context.Context, forced bool) (response, error) {
	fallback := l.provider.modelID(l.req.FallbackModel)
	if l.req.FallbackModel == "" || fallback == l.model {
		return l.provider.complete(ctx, l.question(forced), maxAttempts, l.retrying)
	}
	answer, err := l.provider.complete(ctx, l.question(forced), attemptsBeforeFallback, l.retrying)
	if err == nil || !overloaded(err) {
		return answer, err
	}
	l.out.warn(fmt.Sprintf("model %s is not available: going on with %s", l.model, fallback))
	l.model = fallback
	return l.provider.complete(ctx, l.question(forced), maxAttempts, l.retrying)
}

func (l *loop) retrying(text string) {
	l.out.emit(sdk.Record{Type: event.MessageRetry, Text: text})
}

func (l *loop) question(forced bool) question {
	return question{model: l.model, system: l.system, messages: l.messages, tools: l.tools, answer: l.answer, forced: forced}
}

// heard keeps the model's message and prints it; it returns its text and its
// tool calls.
func (l *loop) heard(m message) (string, []call) {
	var text strings.Builder
	for _, p := range m.Parts {
		switch p.Kind {
		case partText:
			text.WriteString(p.Text)
			l.out.emit(sdk.Record{Type: event.MessageText, Text: p.Text})
		case partThinking:
			if p.Text != "" {
				l.out.emit(sdk.Record{Type: event.MessageThinking, Text: p.Text})
			}
		case partCall:
			l.out.emit(sdk.Record{Type: event.MessageToolCall, CallID: p.ID, Tool: p.Tool, Input: p.Input})
		}
	}
	if len(m.Parts) > 0 {
		l.add(m)
	}
	return text.String(), m.calls()
}

// answerCalls runs the calls and answers them. value is the structured output where
// one was given and fits; err is why one does not.
func (l *loop) answerCalls(ctx context.Context, calls []call) (value []byte, err error) {
	results := runCalls(ctx, l.tools, calls)
	if ctx.Err() != nil {
		return nil, ctx.Err() // the session ends with the calls; resuming answers them
	}
	var parts []part
	for i, c := range calls {
		r := results[i]
		if isStructured(c) && l.answer != nil {
			v, checkErr := l.answer.check(c.input)
			if checkErr != nil {
				err = checkErr
				r = toolOutput{text: "this does not fit the schema: " + checkErr.Error() + ". Correct it and call the tool again.", isError: true}
			} else {
				value = v
				r = toolOutput{text: "ok"}
			}
		}
		l.out.emit(sdk.Record{Type: event.MessageToolResult, CallID: c.id, Text: r.text, IsError: r.isError})
		if strings.TrimSpace(r.text) == "" {
			r.text = "(no output)" // Anthropic's API refuses empty text
		}
		parts = append(parts, resultPart(c, r))
	}
	l.say(parts...)
	return value, err
}

func isStructured(c call) bool { return c.name == sdk.StructuredTool }
