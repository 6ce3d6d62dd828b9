package gemini

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
)

// quietEnd is how long the CLI may live after its result record.
const quietEnd = 15 * time.Second

// stopGrace is how long the CLI has after TERM. While a tool runs it may ignore
// the signal until the tool has ended, and it leaves the tool behind: what
// outlives the grace is killed with its whole tree.
const stopGrace = 10 * time.Second

// Command is `gemini` with the prompt on stdin, which makes it headless, and
// everything long or free-form in files or after a "=".
func (r Runtime) Command(task runtimes.Task) (runtimes.Command, error) {
	if err := runtimes.CheckTask(r, task); err != nil {
		return runtimes.Command{}, err
	}
	cfg := task.Config
	if err := checkArgs(cfg.Args); err != nil {
		return runtimes.Command{}, err
	}
	mode, err := approvalMode(task)
	if err != nil {
		return runtimes.Command{}, err
	}
	env, err := environment(task)
	if err != nil {
		return runtimes.Command{}, err
	}
	settings, err := settings(task)
	if err != nil {
		return runtimes.Command{}, err
	}
	config := path.Join(ConfigHome(task.Box.Home), ".gemini")
	files := []sandbox.File{{Path: path.Join(config, "settings.json"), Mode: 0o600, Data: settings}}
	// Instructions for all projects: the CLI reads them behind its own system
	// prompt. Written empty too, so that nothing of an earlier step is left.
	files = append(files, sandbox.File{Path: path.Join(config, "GEMINI.md"), Mode: 0o600, Data: []byte(cfg.AppendSystemPrompt)})
	if cfg.SystemPrompt != "" {
		name := systemPromptFile(task)
		files = append(files, sandbox.File{Path: name, Mode: 0o600, Data: []byte(cfg.SystemPrompt)})
		env["GEMINI_SYSTEM_MD"] = name
	}

	argv := []string{
		"gemini", "--output-format=stream-json",
		// The flag lets the CLI work here and yet, coming after the settings
		// are read, keeps the project's own .gemini/settings.json (hooks, MCP
		// servers, where model traffic goes) and .env unread.
		"--skip-trust", "--extensions=none", "--approval-mode=" + mode,
	}
	if task.Resume != "" {
		argv = append(argv, "--resume="+task.Resume)
	} else if task.SessionID != "" {
		argv = append(argv, "--session-id="+task.SessionID)
	}
	if cfg.Model != "" {
		argv = append(argv, "--model="+cfg.Model)
	}
	return runtimes.Command{
		Argv:     append(argv, cfg.Args...),
		Env:      env,
		Files:    files,
		Stdin:    []byte(task.Prompt),
		Stop:     []sandbox.StopStage{{Signal: "TERM", Grace: stopGrace}},
		QuietEnd: quietEnd,
	}, nil
}

// approvalModes are the CLI's own words for permission-mode.
func approvalModes() []string { return []string{"default", "auto_edit", "yolo", "plan"} }

// approvalMode: nobody can be asked. In a box everything is allowed, on the bare
// host edits in the workspace are.
func approvalMode(task runtimes.Task) (string, error) {
	mode := task.Config.PermissionMode
	switch {
	case mode == "" && task.Box.Backend == "host":
		return "auto_edit", nil
	case mode == "":
		return "yolo", nil
	case !slices.Contains(approvalModes(), mode):
		return "", runtimes.Refuse("permission-mode", "", "permission-mode %q: runtime gemini has %s", mode, strings.Join(approvalModes(), ", "))
	}
	return mode, nil
}

// systemPromptFile is the task's own.
func systemPromptFile(task runtimes.Task) string {
	id := task.SessionID
	if id == "" {
		id = task.Resume
	}
	return path.Join(task.Box.Temp, "herd-gemini", id, "system-prompt.md")
}
