package claude

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
)

// quietEnd is how long the CLI may live after its result record; it normally
// takes a few hundred milliseconds.
const quietEnd = 15 * time.Second

// stopGrace is how long the CLI has after TERM. It takes 0.2 s; INT is never
// sent, because Claude Code exits 0 on it.
const stopGrace = 10 * time.Second

// Command is `claude -p` with the prompt on stdin and everything long, secret
// or free-form in files, environment or after a "=", where it can not be taken
// for a flag.
func (r Runtime) Command(task runtimes.Task) (runtimes.Command, error) {
	if err := runtimes.CheckTask(r, task); err != nil {
		return runtimes.Command{}, err
	}
	cfg := task.Config
	if err := checkArgs(cfg.Args); err != nil {
		return runtimes.Command{}, err
	}
	if mode := cfg.PermissionMode; mode != "" && !slices.Contains(permissionModes(), mode) {
		return runtimes.Command{}, runtimes.Refuse("permission-mode", "", "permission-mode %q: runtime claude has %s", mode, strings.Join(permissionModes(), ", "))
	}
	env, err := environment(task)
	if err != nil {
		return runtimes.Command{}, err
	}
	argv := []string{
		"claude", "-p", "--output-format=stream-json", "--verbose",
		// A project's settings may redirect the model traffic and run hooks,
		// and its .mcp.json may start programs: neither is asked in -p.
		"--setting-sources=user", "--strict-mcp-config",
	}
	flag := func(name, value string) {
		if value != "" {
			argv = append(argv, "--"+name+"="+value)
		}
	}
	argv = append(argv, session(task)...)
	flag("model", cfg.Model)
	flag("fallback-model", cfg.FallbackModel)
	if cfg.MaxTurns > 0 {
		flag("max-turns", strconv.Itoa(cfg.MaxTurns))
	}
	argv = append(argv, permissions(task)...)

	files := []sandbox.File{{
		Path: path.Join(ConfigDir(task.Box.Home), "settings.json"),
		Mode: 0o600,
		Data: settings(),
	}}
	if login := task.Credential.Login; login != "" {
		files = append(files, sandbox.File{Path: path.Join(ConfigDir(task.Box.Home), ".credentials.json"), Mode: 0o400, Data: []byte(login)})
	}
	file := func(flagName, name, text string) {
		if text == "" {
			return
		}
		p := path.Join(scratch(task), name)
		files = append(files, sandbox.File{Path: p, Mode: 0o600, Data: []byte(text)})
		flag(flagName, p)
	}
	file("system-prompt-file", "system-prompt.md", cfg.SystemPrompt)
	file("append-system-prompt-file", "append-system-prompt.md", cfg.AppendSystemPrompt)
	mcp, err := mcpConfig(cfg.MCPServers)
	if err != nil {
		return runtimes.Command{}, err
	}
	file("mcp-config", "mcp.json", mcp)
	if cfg.OutputSchema != nil {
		flag("json-schema", string(cfg.OutputSchema))
	}
	argv = append(argv, cfg.Args...)

	return runtimes.Command{
		Argv:     argv,
		Env:      env,
		Files:    files,
		Stdin:    []byte(task.Prompt),
		Stop:     []sandbox.StopStage{{Signal: "TERM", Grace: stopGrace}},
		QuietEnd: quietEnd,
	}, nil
}

// session says which conversation this is. --resume keeps the session's id;
// --session-id may only stand beside it in a fork.
func session(task runtimes.Task) []string {
	switch {
	case task.Resume == "" && task.SessionID != "":
		return []string{"--session-id=" + task.SessionID}
	case task.Resume == "":
		return nil
	case !task.Fork:
		return []string{"--resume=" + task.Resume}
	case task.SessionID == "":
		return []string{"--resume=" + task.Resume, "--fork-session"}
	}
	return []string{"--resume=" + task.Resume, "--fork-session", "--session-id=" + task.SessionID}
}

// permissionModes are the CLI's own words for permission-mode; it has renamed
// default to manual.
func permissionModes() []string {
	return []string{"acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "manual", "plan"}
}

// permissions turns our keys into the CLI's. Nobody can be asked: in a box
// everything is allowed, on the bare host edits in the workspace are, and where
// allowed-tools is given nothing else is (--allowedTools alone would only add).
func permissions(task runtimes.Task) []string {
	cfg := task.Config
	var argv []string
	switch {
	case cfg.PermissionMode != "":
		argv = append(argv, "--permission-mode="+cfg.PermissionMode)
	case len(cfg.AllowedTools) > 0:
		argv = append(argv, "--permission-mode=dontAsk")
	case task.Box.Backend == "host":
		argv = append(argv, "--permission-mode=acceptEdits")
	default:
		argv = append(argv, "--dangerously-skip-permissions")
	}
	if len(cfg.AllowedTools) > 0 {
		if names := builtins(cfg.AllowedTools); len(names) > 0 {
			argv = append(argv, "--tools="+strings.Join(names, ","))
		}
		for _, rule := range cfg.AllowedTools {
			argv = append(argv, "--allowedTools="+rule)
		}
	}
	for _, rule := range cfg.DeniedTools {
		argv = append(argv, "--disallowedTools="+rule)
	}
	return argv
}

// builtins are the names of the built-in tools that rules such as
// "Bash(git *)" speak of, each once.
func builtins(rules []string) []string {
	seen := map[string]bool{}
	var names []string
	for _, rule := range rules {
		name, _, _ := strings.Cut(rule, "(")
		name = strings.TrimSpace(name)
		if name == "" || strings.HasPrefix(name, "mcp__") || seen[name] {
			continue
		}
		seen[name] = true
		names = append(names, name)
	}
	return names
}

// scratch is where the task's own files are in the box.
func scratch(task runtimes.Task) string {
	id := task.SessionID
	if id == "" {
		id = task.Resume
	}
	return path.Join(task.Box.Temp, "herd-claude", id)
}

// settings keeps WebFetch from asking api.anthropic.com first, which a box
// can not reach.
func settings() []byte {
	return []byte(`{"skipWebFetchPreflight":true}` + "\n")
}

func mcpConfig(raw json.RawMessage) (string, error) {
	servers, err := runtimes.Servers(raw)
	if err != nil || len(servers) == 0 {
		return "", err
	}
	data, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		return "", fmt.Errorf("mcp-servers: %w", err)
	}
	return string(data), nil
}
