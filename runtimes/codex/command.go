package codex

import (
	"path"
	"time"

	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
)

// quietEnd is how long the CLI may live after its turn; it normally takes a
// few hundred milliseconds.
const quietEnd = 15 * time.Second

// stopGrace is how long the CLI has after TERM, on which it ends at once.
const stopGrace = 10 * time.Second

// keyVariable is where the provider of config finds its key.
const keyVariable = "CODEX_API_KEY"

// Command is `codex exec` with the prompt on stdin and everything else in
// CODEX_HOME/config.toml, which is written anew for every run: what an agent
// before may have left there does not count.
func (r Runtime) Command(task runtimes.Task) (runtimes.Command, error) {
	if err := runtimes.CheckTask(r, task); err != nil {
		return runtimes.Command{}, err
	}
	if err := checkArgs(task.Config.Args); err != nil {
		return runtimes.Command{}, err
	}
	env, err := environment(task)
	if err != nil {
		return runtimes.Command{}, err
	}
	home := Home(task.Box.Home)
	var files []sandbox.File
	file := func(name string, data []byte) string {
		p := path.Join(home, name)
		files = append(files, sandbox.File{Path: p, Mode: 0o600, Data: data})
		return p
	}
	argv := []string{"codex", "exec"}
	switch {
	case task.Fork:
		argv = append(argv, "fork")
	case task.Resume != "":
		argv = append(argv, "resume")
	}
	argv = append(argv, "--json", "--skip-git-repo-check")
	if task.Config.OutputSchema != nil {
		strict, err := strictSchema(task.Config.OutputSchema)
		if err != nil {
			return runtimes.Command{}, err
		}
		argv = append(argv, "--output-schema="+file("output-schema.json", strict))
	}
	instructions := ""
	if task.Config.SystemPrompt != "" {
		instructions = file("system-prompt.md", []byte(task.Config.SystemPrompt))
	}
	config, err := configFile(task, instructions)
	if err != nil {
		return runtimes.Command{}, err
	}
	file("config.toml", config)
	argv = append(argv, task.Config.Args...)
	argv = append(argv, "--")
	if task.Resume != "" {
		argv = append(argv, task.Resume)
	}
	return runtimes.Command{
		Argv:     append(argv, "-"), // the prompt is on stdin
		Env:      env,
		Files:    files,
		Stdin:    []byte(task.Prompt),
		Stop:     []sandbox.StopStage{{Signal: "TERM", Grace: stopGrace}},
		QuietEnd: quietEnd,
	}, nil
}

// environment is what the CLI needs over the box's base environment.
func environment(task runtimes.Task) (map[string]string, error) {
	env, err := runtimes.Environment(task, map[string]string{
		// The last line of stderr is what a person is shown.
		"RUST_BACKTRACE": "0",
	}, []string{
		keyVariable, "CODEX_HOME", "CODEX_SQLITE_HOME", "CODEX_ACCESS_TOKEN",
		"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_PROJECT",
	})
	if err != nil {
		return nil, err
	}
	env["CODEX_HOME"] = Home(task.Box.Home)
	if task.Credential.Token != "" {
		env[keyVariable] = task.Credential.Token
	}
	return env, nil
}
