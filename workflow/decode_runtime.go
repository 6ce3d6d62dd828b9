package workflow

import (
	"encoding/json"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// DecodeRuntime reads a merged `runtime:` block. nil is the zero Runtime. Errors
// are *EvalError, joined where there are several (see Problems).
func DecodeRuntime(v *Value, eval EvalFunc) (Runtime, error) {
	d := &decoder{eval: eval}
	return d.runtime(v), d.err()
}

// engines lists what may stand in `runtime.engine`, by `runtime.type`.
func engines(typ string) []string {
	cli := []string{"claude", "codex", "gemini", "opencode", "command"}
	sdk := []string{"anthropic", "openai", "gemini"}
	switch typ {
	case "auto":
		return append(cli[:4:4], sdk[:2]...)
	case "cli":
		return cli
	case "sdk":
		return sdk
	}
	return append(cli, sdk[:2]...) // gemini is one of both
}

func (d *decoder) runtime(v *Value) Runtime {
	var out Runtime
	d.each(v, "`runtime`", keyNames("runtime"), func(key string, v *Value) {
		switch key {
		case "type":
			out.Type = d.oneOf(key, v, "auto", "cli", "sdk")
		case "engine":
			out.Engine = d.nonEmpty(key, v)
		case "model":
			out.Model = d.nonEmpty(key, v)
		case "fallback-model":
			out.FallbackModel = d.nonEmpty(key, v)
		case "max-turns":
			out.MaxTurns = int(d.whole(key, v, 1, 100_000))
		case "max-cost-usd":
			out.MaxCostUSD = d.number(key, v, minCostUSD, maxCostUSD)
		case "max-tokens":
			out.MaxTokens = d.whole(key, v, 1, math.MaxInt32)
		case "max-unanswered":
			out.MaxUnanswered = int(d.whole(key, v, 1, 10_000))
		case "stall-minutes":
			out.StallMinutes = d.number(key, v, 0.01, 360)
		case "system-prompt":
			out.SystemPrompt = d.text(v)
		case "append-system-prompt":
			out.AppendSystemPrompt = d.text(v)
		case "allowed-tools":
			out.AllowedTools = d.texts(key, v)
		case "denied-tools":
			out.DeniedTools = d.texts(key, v)
		case "permission-mode":
			out.PermissionMode = d.nonEmpty(key, v)
		case "mcp-servers":
			out.MCPServers = d.json(key, v)
		case "session":
			out.Session = d.session(v)
		case "output-schema":
			out.OutputSchema = d.schema(v)
		case "env":
			out.Env = d.textMap(key, v)
		case "args":
			out.Args = d.texts(key, v)
		case "base-url":
			out.BaseURL = d.url(key, v)
		case "command":
			out.Command = d.texts(key, v)
		case "prompt":
			out.Prompt = d.oneOf(key, v, "stdin", "file")
		case "output":
			out.Output = d.oneOf(key, v, "text", "json-lines")
		case "api":
			out.APIs = d.apis(key, v)
		}
	})
	d.commandEngine(v, out)
	if out.Engine != "" {
		if known := engines(out.Type); !slices.Contains(known, out.Engine) {
			where := ""
			if out.Type != "" {
				where = " of a runtime of type " + out.Type
			}
			d.fail(v.Get("engine"), suggest(out.Engine, known), "unknown engine %q%s", out.Engine, where)
		}
	}
	return out
}

// session takes the step's name, or says whether it is forked.
func (d *decoder) session(v *Value) Session {
	named := func(v *Value, fork bool) Session {
		if v.template() != nil {
			d.fail(v, "write the id of a step", "`session` cannot hold expressions")
			return Session{}
		}
		job, step, both := strings.Cut(d.nonEmpty("session", v), "/")
		if !both {
			job, step = "", job
		}
		return Session{Job: job, Step: step, Fork: fork}
	}
	if v.Kind != Mapping {
		return named(v, false)
	}
	var out Session
	d.each(v, "`session`", keyNames("session"), func(key string, at *Value) {
		if out != (Session{}) {
			d.fail(at, "write one of the two", "a session cannot be resumed and forked")
		}
		out = named(at, key == "fork")
	})
	if len(v.Entries) == 0 {
		d.fail(v, "write `session: STEP` or `session: {fork: STEP}`", "`session` names no step")
	}
	return out
}

func (d *decoder) apis(key string, v *Value) []string {
	known := []string{"anthropic", "openai", "gemini"}
	var apis []string
	for _, it := range d.list(key, v) {
		api, _ := it.x.(string)
		if !slices.Contains(known, api) {
			d.fail(it.at, suggest(api, known), "`%s` cannot be %s", key, kindName(it.x))
			continue
		}
		apis = append(apis, api)
	}
	return apis
}

// commandEngine checks the keys that are there for engine `command` alone.
func (d *decoder) commandEngine(v *Value, r Runtime) {
	if r.Engine != "command" {
		for _, key := range []string{"command", "prompt", "output", "api"} {
			if at := v.Get(key); at != nil {
				d.fail(at, "remove it, or write `engine: command`", "`%s` is for `engine: command`", key)
			}
		}
		return
	}
	if len(r.Command) == 0 && v.Get("command") == nil {
		d.fail(v.Get("engine"), "add `command: [program, argument]`", "`engine: command` does not say which program")
	}
	if len(r.APIs) == 0 && v.Get("api") == nil {
		d.fail(v.Get("engine"), "add `api:` with anthropic, openai or gemini", "`engine: command` does not say which API the program speaks")
	}
	if len(r.Command) == 0 {
		return
	}
	placed := slices.ContainsFunc(r.Command[1:], func(arg string) bool { return strings.Contains(arg, "{0}") })
	switch {
	case strings.TrimSpace(r.Command[0]) == "":
		d.fail(v.Get("command"), "write the program first", "`command` has no program")
	case r.Prompt == "file" && !placed:
		d.fail(v.Get("command"), "write {0} where the program expects the file's name", "`prompt: file`, and no argument of `command` is the file")
	case r.Prompt != "file" && placed:
		d.fail(v.Get("command"), "add `prompt: file`, or take {0} out", "`command` has {0}, and the prompt goes to stdin")
	}
}

func (d *decoder) url(key string, v *Value) string {
	s := d.nonEmpty(key, v)
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		d.fail(v, "write http://… or https://…", "`%s` cannot be %q", key, s)
		return ""
	}
	if u.User != nil {
		d.fail(v, "keep credentials out of the file", "`%s` holds a user name or password", key)
		return ""
	}
	return s
}

// agentOutputs are the outputs every agent step has: a schema cannot give
// others of the same names.
func agentOutputs() []string {
	return []string{"result", "structured", "session-id", "cost-usd", "input-tokens", "output-tokens", "turns", "cause", "patch", "branch", "changed-files"}
}

func (d *decoder) schema(v *Value) json.RawMessage {
	raw := d.json("output-schema", v)
	if raw == nil {
		return nil
	}
	parsed, err := expr.FromJSON(raw)
	schema, ok := parsed.(*expr.Object)
	if err != nil || !ok {
		return nil
	}
	if typ, said := schema.Get("type"); !said || typ != "object" {
		at := v
		if t := v.Get("type"); t != nil {
			at = t
		}
		d.fail(at, "write `type: object` with `properties`", "an output schema must describe an object")
		return nil
	}
	properties, _ := schema.Get("properties")
	o, _ := properties.(*expr.Object)
	for _, name := range o.Keys() {
		if !slices.Contains(agentOutputs(), name) {
			continue
		}
		at := v
		for _, e := range entriesOf(v.Get("properties")) {
			if e.Key.Text == name {
				at = e.Key
			}
		}
		d.fail(at, "rename the property", "property %q has the name of an output that every agent step has", name)
	}
	return raw
}

func entriesOf(v *Value) []Entry {
	if v == nil {
		return nil
	}
	return v.Entries
}

func retryCauses() []string {
	return []string{"exit_code", "timeout", "oom", "resource_limit", "stalled", "rate_limited", "auth", "budget_exhausted",
		"max_turns", "refused", "no_result", "infrastructure"}
}

const maxRetries = 100

// DecodeRetry reads a step's `retry:`; nil is no retry.
func DecodeRetry(v *Value, eval EvalFunc) (Retry, error) {
	d := &decoder{eval: eval}
	return d.retry(v), d.err()
}

func (d *decoder) retry(v *Value) Retry {
	var out Retry
	if v == nil {
		return out
	}
	d.each(v, "`retry`", keyNames("retry"), func(key string, v *Value) {
		if key == "max" {
			out.Max = int(d.whole("retry.max", v, 0, maxRetries))
			return
		}
		for _, it := range d.list("retry.on", v) {
			cause, _ := it.x.(string)
			if !slices.Contains(retryCauses(), cause) {
				d.fail(it.at, suggest(cause, retryCauses()), "unknown cause %s", kindName(it.x))
				continue
			}
			out.On = append(out.On, cause)
		}
	})
	if v.Get("max") == nil {
		d.fail(v, "add `max: 2`", "`retry` does not say how often")
	}
	return out
}

// Workspaces of a step.
const (
	WorkspaceShared   = "shared"
	WorkspaceRO       = "ro"
	WorkspaceIsolated = "isolated"
	WorkspaceCopy     = "copy"
)

// Workspace is an evaluated `workspace:`.
type Workspace struct {
	Mode string
	// Merge are the jobs whose work an isolated workspace holds.
	Merge []string
	// Push is the remote that an isolated workspace's branch goes to; empty: none.
	Push string
}

// Apart says whether the steps work in a clone and not in the project.
func (w Workspace) Apart() bool { return w.Mode == WorkspaceIsolated || w.Mode == WorkspaceCopy }

// remoteName is a name and no URL: where a push goes is for the person's own
// git configuration to say.
var remoteName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./-]*$`)

// DecodeWorkspace reads a merged `workspace:`; nil is "shared".
func DecodeWorkspace(v *Value, eval EvalFunc) (Workspace, error) {
	d := &decoder{eval: eval}
	return d.workspace(v), d.err()
}

func (d *decoder) workspace(v *Value) Workspace {
	mode := func(v *Value) string {
		return d.oneOf("workspace", v, WorkspaceShared, WorkspaceRO, WorkspaceIsolated, WorkspaceCopy)
	}
	switch {
	case v == nil:
		return Workspace{Mode: WorkspaceShared}
	case v.Kind != Mapping:
		return Workspace{Mode: mode(v)}
	case v.Get("mode") == nil:
		d.fail(v, "add `mode: isolated`", "`workspace` does not say its mode")
		return Workspace{}
	}
	var out Workspace
	d.each(v, "`workspace`", keyNames("workspace"), func(key string, v *Value) {
		switch key {
		case "mode":
			out.Mode = mode(v)
		case "merge":
			out.Merge = d.texts("workspace.merge", v)
		case "push":
			out.Push = d.nonEmpty("workspace.push", v)
			if out.Push != "" && !remoteName.MatchString(out.Push) {
				d.fail(v, "`git remote` lists them", "`workspace.push` is the name of a remote such as origin, got %q", out.Push)
			}
		}
	})
	for _, key := range []string{"merge", "push"} {
		if at := v.Get(key); at != nil && out.Mode != "" && out.Mode != WorkspaceIsolated {
			d.fail(at, "write `mode: isolated`", "only an isolated workspace can %s, this one is %s", key, out.Mode)
		}
	}
	return out
}
