package opencode

import (
	"path"
	"time"

	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
)

// quietEnd is how long the CLI may live after its last step.
const quietEnd = 15 * time.Second

// stopGrace is how long the CLI has after TERM. It leaves a running tool behind,
// which dies with the box.
const stopGrace = 10 * time.Second

// Command is `opencode run` with the prompt on stdin and its configuration in
// the environment, which comes after every file the CLI reads.
func (r Runtime) Command(task runtimes.Task) (runtimes.Command, error) {
	if err := runtimes.CheckTask(r, task); err != nil {
		return runtimes.Command{}, err
	}
	cfg := task.Config
	if err := checkArgs(cfg.Args); err != nil {
		return runtimes.Command{}, err
	}
	var files []sandbox.File
	file := func(name, text string) string {
		if text == "" {
			return ""
		}
		p := path.Join(scratch(task), name)
		files = append(files, sandbox.File{Path: p, Mode: 0o600, Data: []byte(text)})
		return p
	}
	config, err := configuration(task, file("system-prompt.md", cfg.SystemPrompt), file("append-system-prompt.md", cfg.AppendSystemPrompt))
	if err != nil {
		return runtimes.Command{}, err
	}
	env, err := environment(task, config)
	if err != nil {
		return runtimes.Command{}, err
	}
	v, model := choose(task)
	argv := []string{
		"opencode", "run", "--format=json", "--thinking",
		// Without a title the model is asked for one, beside the work.
		"--title=herd-runner",
		// What fails in its server is said on stderr then.
		"--print-logs", "--log-level=ERROR",
		"--model=" + v.provider + "/" + model,
	}
	if task.Resume != "" {
		argv = append(argv, "--session="+task.Resume)
	}
	if task.Fork {
		argv = append(argv, "--fork")
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

// environment is what the CLI needs over the box's base environment.
func environment(task runtimes.Task, config string) (map[string]string, error) {
	own := map[string]string{
		"OPENCODE_CONFIG_CONTENT": config,
		// A project's opencode.json and .opencode may redirect the model
		// traffic, add MCP servers, formatters and plugins: none is asked.
		"OPENCODE_DISABLE_PROJECT_CONFIG":  "1",
		"OPENCODE_PURE":                    "1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
		"OPENCODE_DISABLE_AUTOUPDATE":      "1",
		"OPENCODE_DISABLE_MODELS_FETCH":    "1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD":    "1",
		"OPENCODE_DISABLE_SHARE":           "1",
		// The CLI's own configuration is new for every run: what an agent
		// before may have left there does not count.
		"XDG_CONFIG_HOME": path.Join(scratch(task), "config"),
		"XDG_DATA_HOME":   path.Join(stateDir(task.Box.Home), "share"),
		"XDG_STATE_HOME":  path.Join(stateDir(task.Box.Home), "state"),
	}
	routing := []string{
		"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "OPENCODE_PERMISSION",
		"OPENCODE_AUTH_CONTENT", "OPENCODE_API_KEY", "OPENCODE_CONSOLE_TOKEN", "OPENCODE_DB", "OPENCODE_MODELS_URL",
	}
	for name := range own {
		routing = append(routing, name)
	}
	for _, v := range vendors() {
		routing = append(routing, v.key)
	}
	env, err := runtimes.Environment(task, nil, routing)
	if err != nil {
		return nil, err
	}
	for name, value := range own {
		env[name] = value
	}
	if task.Credential.Token != "" {
		v, _ := choose(task)
		env[v.key] = task.Credential.Token
	}
	return env, nil
}

// scratch is where the task's own files are in the box.
func scratch(task runtimes.Task) string {
	id := task.SessionID
	if id == "" {
		id = task.Resume
	}
	return path.Join(task.Box.Temp, "herd-opencode", id)
}
