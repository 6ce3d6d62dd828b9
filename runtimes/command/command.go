// Package command drives any program as an agent: `engine: command`, with the
// program, how it takes its prompt and what it prints declared in the workflow.
// It sits between the executor, which runs Command's process in a box, and the
// event stream, which gets the Decoder's messages.
package command

import (
	"path"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
)

// quietEnd is how long the program may live after its result record.
const quietEnd = 15 * time.Second

// stopGrace is how long the program has after TERM.
const stopGrace = 10 * time.Second

// PlaceOfFile in an argument becomes the name of the prompt's file, as in the
// custom shells of `run:` steps.
const PlaceOfFile = "{0}"

// EnvOutputSchema is the variable that holds the step's output-schema.
const EnvOutputSchema = "HERD_OUTPUT_SCHEMA"

// Runtime is the runtime of declared programs: type "cli", engine "command".
// Stateless.
type Runtime struct{}

// New returns the runtime.
func New() Runtime { return Runtime{} }

// Describe says what every program can: its answer may be data, and the gateway
// keeps its budget. The rest is between the program and its arguments.
func (Runtime) Describe() runtimes.Description {
	return runtimes.Description{
		Name:      "command",
		Type:      runtimes.TypeCLI,
		Engine:    "command",
		API:       runtimes.APIAnthropic,
		OtherAPIs: []string{runtimes.APIOpenAI, runtimes.APIGemini},
		Features: []runtimes.Feature{
			runtimes.FeatureOutputSchema,
			runtimes.FeatureMaxCost,
		},
		NamesSessions: true,
		NoLogin:       "nothing is known of its program's login: use auth: env",
	}
}

// Command is the declared program, its prompt on stdin or in a file.
func (r Runtime) Command(task runtimes.Task) (runtimes.Command, error) {
	if err := runtimes.CheckTask(r, task); err != nil {
		return runtimes.Command{}, err
	}
	cfg := task.Config
	if err := check(cfg); err != nil {
		return runtimes.Command{}, err
	}
	env, err := environment(task)
	if err != nil {
		return runtimes.Command{}, err
	}
	cmd := runtimes.Command{
		Argv:     append(append([]string(nil), cfg.Command...), cfg.Args...),
		Env:      env,
		Stop:     []sandbox.StopStage{{Signal: "TERM", Grace: stopGrace}},
		QuietEnd: quietEnd,
	}
	if cfg.Prompt != runtimes.PromptFile {
		cmd.Stdin = []byte(task.Prompt)
		return cmd, nil
	}
	name := path.Join(task.Box.Temp, "herd-command", task.SessionID, "prompt.md")
	cmd.Files = []sandbox.File{{Path: name, Mode: 0o600, Data: []byte(task.Prompt)}}
	for i := range cfg.Command[1:] {
		cmd.Argv[i+1] = strings.ReplaceAll(cmd.Argv[i+1], PlaceOfFile, name)
	}
	return cmd, nil
}

// check refuses what can not be passed on to a program that nothing is known of.
func check(cfg runtimes.Config) error {
	switch {
	case len(cfg.Command) == 0 || cfg.Command[0] == "":
		return runtimes.Refuse("command", "", "engine command: `command` does not say which program")
	case len(cfg.APIs) == 0:
		return runtimes.Refuse("api", "", "engine command: `api` does not say which API the program speaks")
	case cfg.Model != "":
		return runtimes.Refuse("model", "", "model %q: runtime command does not know how to pass it on: write it into `command` or `env`", cfg.Model)
	}
	return nil
}

// variable names of an API's base URL and credential.
type variables struct {
	base, path string
	key, oauth string
}

// vendors are the variables that programs agree on, by API.
func vendors() map[string]variables {
	return map[string]variables{
		runtimes.APIAnthropic: {base: "ANTHROPIC_BASE_URL", key: "ANTHROPIC_API_KEY", oauth: "ANTHROPIC_AUTH_TOKEN"},
		runtimes.APIOpenAI:    {base: "OPENAI_BASE_URL", path: "/v1", key: "OPENAI_API_KEY"},
		runtimes.APIGemini:    {base: "GOOGLE_GEMINI_BASE_URL", key: "GEMINI_API_KEY"},
	}
}

// routing names what the runner sets or blanks, whichever API is spoken.
func routing() []string {
	return []string{
		"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN",
		"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "CODEX_API_KEY",
		"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", EnvOutputSchema,
	}
}

// environment points the program at the gateway under the names of the APIs it
// speaks, with the placeholder for all of them.
func environment(task runtimes.Task) (map[string]string, error) {
	env, err := runtimes.Environment(task, nil, routing())
	if err != nil {
		return nil, err
	}
	base := task.Config.BaseURL
	for _, api := range task.Config.APIs {
		v, ok := vendors()[api]
		if !ok {
			return nil, runtimes.Refuse("api", api, "api %q: expected anthropic, openai or gemini", api)
		}
		if task.Box.Gateway != "" {
			base = "http://" + task.Box.Gateway + v.path
		}
		if base != "" {
			env[v.base] = base
		}
		name := v.key
		if task.Credential.Kind == "oauth" && v.oauth != "" {
			name = v.oauth
		}
		if task.Credential.Token != "" {
			env[name] = task.Credential.Token
		}
	}
	if task.Config.OutputSchema != nil {
		env[EnvOutputSchema] = string(task.Config.OutputSchema)
	}
	return env, nil
}
