package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/session"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// maxPromptFile bounds a prompt-file, in bytes.
const maxPromptFile = 4 << 20

// continuePrompt goes on with a session whose earlier attempt was cut short.
const continuePrompt = "The connection was interrupted. Look at what is already done and go on with the task where you left off."

// agentState is what an agent step remembers over its attempts.
type agentState struct {
	describe runtimes.Description
	model    string
	session  string // of the last attempt, where it can be resumed
	// Of the last attempt: its session, its HOME on this machine, whether it ran
	// on the host, and whether it had the real credential.
	lastSession, home string
	onHost, direct    bool
	usage             *event.Usage // of finished attempts; nil: no model was asked
}

func (a *agentState) add(u event.Usage) {
	if u.Requests == 0 {
		return
	}
	var before event.Usage
	if a.usage != nil {
		before = *a.usage
	}
	sum := before.Add(u)
	a.usage = &sum
}

// runAgent is one attempt of an agent step: its own box, its own gateway
// session, one process of the agent.
func (s *stepRun) runAgent(ctx context.Context) attemptEnd {
	cfg, stall, err := s.runtimeConfig()
	if err != nil {
		return problem(err)
	}
	rt, err := s.Runtime(cfg)
	if err != nil {
		return problem(fmt.Errorf("runtime: %w", err))
	}
	s.agent.describe, s.agent.model = rt.Describe(), cfg.Model
	a, err := s.ask()
	if err != nil {
		return problem(err)
	}
	if end, ok := s.ready(ctx, a); !ok {
		return end
	}
	if s.attempt == 1 && a.place != nil {
		if s.mark, err = a.place.clone.Mark(ctx); err != nil {
			return boxFailed(err)
		}
	}
	prompt, err := s.prompt()
	if err != nil {
		return problem(err)
	}
	if !s.AgentSecrets && s.Masker.Contains(prompt) {
		return problem(&secretError{"the prompt"})
	}
	dir, err := s.workingDirectory(s.step.WorkingDirectory)
	if err != nil {
		return problem(err)
	}
	if err := CheckAuth(a.docker, rt.Describe(), cfg); err != nil {
		return problem(err)
	}
	from, err := s.earlier(rt.Describe(), a.docker.Host)
	if err != nil {
		return problem(err)
	}
	life := newLife(s.Now)
	model, closeModel, err := s.openModel(rt, cfg, a.docker.Auth, life)
	if err != nil {
		return boxFailed(err)
	}
	defer closeModel()
	if Direct(a.docker.Auth) {
		s.tellDirect(a.docker.Auth)
	}

	// What ran in the leg's shared boxes must not meet the agent's work, nor
	// see what comes after it.
	defer s.leg.boxes.drop(ctx, s.run)
	box, users, err := s.startBox(ctx, a, s.id(), model)
	if err != nil {
		return boxFailed(err)
	}
	users.enter(s)
	defer s.closeBox(ctx, box)
	s.ahead.from(ctx, s.node, "")

	info := box.Info()
	if !path.IsAbs(dir) {
		dir = path.Join(info.Workdir, dir)
	}
	info.Workdir = dir
	task := runtimes.Task{Prompt: prompt, Config: cfg, Box: info, Credential: model.Credential(), SessionID: s.NewUUID()}
	if task.Config.BaseURL == "" {
		task.Config.BaseURL = task.Credential.BaseURL
	}
	s.agent.home, s.agent.onHost, s.agent.direct = info.HostHome, a.docker.Host, Direct(a.docker.Auth)
	if err := s.goOn(&task, from, info); err != nil {
		return boxFailed(err)
	}
	cmd, err := rt.Command(task)
	if err != nil {
		return problem(fmt.Errorf("runtime: %w", err))
	}
	end := s.drive(ctx, box, dir, rt, task, cmd, driven{model, closeModel, life, stall})
	view := model.View()
	s.agent.add(view.Usage)
	s.leg.spend(view.Usage)
	return end
}

// driven is what watches over an agent while it runs.
type driven struct {
	model      ModelSession
	closeModel func() error // waits for open exchanges; further calls are fine
	life       *life
	stall      time.Duration // without a sign of life
}

func (s *stepRun) openModel(rt runtimes.Runtime, cfg runtimes.Config, auth string, life *life) (ModelSession, func() error, error) {
	model, done, err := s.OpenModel(AgentRun{
		Job: s.leg.leg.ID, Step: s.id(), Attempt: s.attempt, APIs: rt.Describe().APIsFor(cfg), Config: cfg, Auth: auth,
		Emit: func(c event.ModelCall) { s.emit(event.Event{Type: event.Exchange, Exchange: &c}) },
		Waiting: func(w event.Wait) {
			life.sign() // waiting in line is no stall; the gateway bounds it
			s.emit(event.Event{Type: event.Waiting, Wait: &w})
		},
		Budgets: s.sc.levels(), Deadline: s.bound(),
	})
	if err != nil {
		return nil, nil, err
	}
	return &livelySession{ModelSession: model, life: life}, done, nil
}

// drive runs the agent's process, decodes what it says, and judges how it fared.
func (s *stepRun) drive(ctx context.Context, box sandbox.Box, dir string, rt runtimes.Runtime, task runtimes.Task, cmd runtimes.Command, w driven) attemptEnd {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopWatch := w.life.watch(w.stall, func() time.Time { return newest(box.Info().HostHome) }, func() { cancel(errStalled) })
	defer stopWatch()

	quiet := newQuietEnd(cmd.QuietEnd, func() { cancel(errLingered) })
	defer quiet.stop()
	said, files := newTranscript(rt, task, s.Now, func(m event.Message) { s.emit(event.Event{Type: event.Agent, Message: &m}) })
	dec := rt.Decode(task)
	lines := &session.Lines{Max: runtimes.MaxLine, Line: func(line []byte) {
		messages := dec.Line(line)
		said.output(messages)
		for _, m := range messages {
			quiet.saw(m.Kind == event.MessageResult)
		}
	}}
	stderr := &tail{limit: 64 << 10, next: func(p []byte) {
		s.emit(event.Event{Type: event.Output, Stream: "stderr", Data: p})
	}}
	kill, unguard := s.guard(box.Info())
	defer unguard()
	exit, err := box.Exec(ctx, sandbox.Process{
		Argv: cmd.Argv, Env: s.agentEnv(box.Info(), cmd.Env), Dir: dir,
		Stdin: bytesReader(cmd.Stdin), Files: cmd.Files, Stop: cmd.Stop, Kill: kill,
		Stdout: w.life.writer(lines), Stderr: w.life.writer(stderr),
		Follow: files, Followed: func(f sandbox.Followed) {
			w.life.sign()
			said.followed(f)
		},
	})
	lines.Flush()
	said.end()
	if end, ok := notStarted(err); ok {
		return end
	}
	if err != nil {
		return boxFailed(err)
	}
	recordErr := w.closeModel()
	view := w.model.View()

	cause := context.Cause(ctx)
	if errors.Is(cause, errLingered) {
		exit.Stopped, exit.Code, exit.Signal = false, 0, ""
	}
	res := dec.Finish(runtimes.End{Exit: exit, Stderr: stderr.bytes(), Gateway: view})
	end := attemptEnd{cause: res.Cause, message: res.Message, hint: res.Hint, exit: exit, turns: res.Turns, session: res.SessionID, retryAt: res.RetryAt}
	end.blameLimit()
	if errors.Is(cause, errStalled) {
		end.cause = event.CauseStalled
		end.message = fmt.Sprintf("no output, no model traffic and no file written in HOME for %s", w.stall)
		end.hint = "see the transcript for what it waited for; runtime.stall-minutes gives it longer, retry: {on: [stalled]} tries again"
	}
	if recordErr != nil && end.cause == "" {
		end.cause, end.message = event.CauseInfrastructure, "record: "+recordErr.Error()
	}
	s.agent.session, s.agent.lastSession = "", res.SessionID
	if end.cause != "" && res.SessionID != "" && view.Usage.OutputTokens > 0 {
		s.agent.session = res.SessionID
	}
	s.agentOutputs(res, end, view)
	return end
}

var (
	errStalled  = errors.New("stalled")
	errLingered = errors.New("the process stayed after its result")
)

// agentOutputs are the fixed outputs of an agent step, then the schema's own
// top-level keys.
func (s *stepRun) agentOutputs(res runtimes.Result, end attemptEnd, view runtimes.GatewayView) {
	total := view.Usage
	if s.agent.usage != nil {
		total = total.Add(*s.agent.usage)
	}
	o := expr.NewObject()
	if len(res.Structured) > 0 {
		if v, err := expr.FromJSON(res.Structured); err == nil {
			o.Set("structured", v)
			if obj, ok := v.(*expr.Object); ok {
				for _, k := range obj.Keys() {
					item, _ := obj.Get(k)
					o.Set(k, outputString(item))
				}
			}
		}
	}
	o.Set("result", res.Text)
	o.Set("session-id", res.SessionID)
	cost := ""
	if total.CostKnown || total.CostUSD > 0 {
		cost = expr.String(total.CostUSD)
	}
	o.Set("cost-usd", cost)
	o.Set("input-tokens", expr.String(float64(total.InputTokens)))
	o.Set("output-tokens", expr.String(float64(total.OutputTokens)))
	o.Set("turns", expr.String(float64(res.Turns)))
	o.Set("cause", string(end.cause))
	s.outputs = o
}

// agentEnv: an agent gets the env of workflow, job and step as data, and what
// its runtime needs; command files (GITHUB_OUTPUT …) it does not get.
// Values that hold a secret stay outside unless the policy lets them in.
func (s *stepRun) agentEnv(info sandbox.Info, runtime map[string]string) []string {
	own := maps.Clone(s.sc.view.env)
	maps.Copy(own, s.sc.stepEnv)
	if !s.AgentSecrets {
		maps.DeleteFunc(own, func(_, v string) bool { return s.Masker.Contains(v) })
	}
	env := s.processEnv(info, own)
	if info.Home != "" {
		env.over["HOME"] = info.Home
	}
	maps.Copy(env.over, runtime)
	return env.list()
}

// secretError refuses a secret on its way to an agent.
type secretError struct{ where string }

func (e *secretError) Error() string {
	return e.where + " holds a secret, which agents do not get; --allow agent-secrets would let it in"
}

// PolicyRule names the rule that refused.
func (e *secretError) PolicyRule() string { return "agent-secrets" }

// prompt gives the text of prompt: or of the file of prompt-file:, which must
// lie in the workspace.
func (s *stepRun) prompt() (string, error) {
	if s.step.Prompt != nil {
		text, err := workflow.EvalString(s.step.Prompt, s.sc.env())
		if err != nil {
			return "", fmt.Errorf("prompt: %w", err)
		}
		return text, nil
	}
	name, err := workflow.EvalString(s.step.PromptFile, s.sc.env())
	if err != nil {
		return "", fmt.Errorf("prompt-file: %w", err)
	}
	return ReadPromptFile(s.sc.workRoot(), name)
}

// ReadPromptFile reads a prompt file in the workspace; a path or symbolic link
// out of it is refused.
func ReadPromptFile(root, name string) (string, error) {
	dir, err := os.OpenRoot(root)
	if err != nil {
		return "", fmt.Errorf("prompt-file: %w", err)
	}
	defer dir.Close()
	st, err := dir.Stat(name)
	if err != nil {
		return "", fmt.Errorf("prompt-file %q: %w; the path is relative to the workspace %s", name, errors.Unwrap(err), root)
	}
	if !st.Mode().IsRegular() || st.Size() > maxPromptFile {
		return "", fmt.Errorf("prompt-file %q must be a regular file of at most %d MiB", name, maxPromptFile>>20)
	}
	f, err := dir.Open(name)
	if err != nil {
		return "", fmt.Errorf("prompt-file %q: %w", name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPromptFile))
	if err != nil {
		return "", fmt.Errorf("prompt-file %q: %w", name, err)
	}
	return string(b), nil
}

// runtimeConfig also gives how long the agent may show no sign of life.
func (s *stepRun) runtimeConfig() (runtimes.Config, time.Duration, error) {
	r, err := workflow.DecodeRuntime(s.step.Runtime, s.eval)
	if err != nil {
		return runtimes.Config{}, 0, err
	}
	cfg := RuntimeConfig(r)
	if s.Model != nil {
		cfg.Model, cfg.FallbackModel = s.Model(cfg.Model), s.Model(cfg.FallbackModel)
	}
	stall := s.Stall
	if r.StallMinutes > 0 {
		stall = time.Duration(r.StallMinutes * float64(time.Minute))
	}
	return cfg, stall, nil
}

// RuntimeConfig is what a runtime: block asks of a runtime.
func RuntimeConfig(r workflow.Runtime) runtimes.Config {
	return runtimes.Config{
		Type: r.Type, Engine: r.Engine, Model: r.Model, FallbackModel: r.FallbackModel,
		MaxTurns: r.MaxTurns, MaxCostUSD: r.MaxCostUSD, MaxTokens: r.MaxTokens, MaxUnanswered: r.MaxUnanswered,
		SystemPrompt: r.SystemPrompt, AppendSystemPrompt: r.AppendSystemPrompt,
		AllowedTools: r.AllowedTools, DeniedTools: r.DeniedTools, PermissionMode: r.PermissionMode,
		MCPServers: r.MCPServers, OutputSchema: r.OutputSchema, Env: r.Env, Args: r.Args, BaseURL: r.BaseURL,
		Command: r.Command, Prompt: r.Prompt, Output: r.Output, APIs: r.APIs, Session: sessionUse(r.Session),
	}
}

func sessionUse(s workflow.Session) string {
	switch {
	case s.Step == "":
		return ""
	case s.Fork:
		return runtimes.SessionFork
	}
	return runtimes.SessionResume
}
