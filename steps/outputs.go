package steps

import (
	"fmt"
	"path"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/steps/command"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// maxCommandFile bounds GITHUB_OUTPUT and its like; GITHUB_STEP_SUMMARY has
// GitHub's own bound.
const (
	maxCommandFile = 16 << 20
	maxSummary     = 1 << 20
)

// commandFiles are the files through which a run: step speaks (SEMANTICS 28).
// They do not exist until the step writes to them.
type commandFiles struct{ prefix string }

// commandFileVars maps the environment variable to the file's name.
var commandFileVars = [...][2]string{
	{"GITHUB_OUTPUT", "output"}, {"GITHUB_ENV", "env"}, {"GITHUB_PATH", "path"},
	{"GITHUB_STEP_SUMMARY", "summary"}, {"GITHUB_STATE", "state"},
}

func (s *stepRun) commandFiles(info sandbox.Info) commandFiles {
	return commandFiles{prefix: path.Join(info.Temp, fmt.Sprintf("_herd_%s_%d_", s.number(), max(1, s.attempt)))}
}

func (f commandFiles) path(name string) string { return f.prefix + name }

func (f commandFiles) env(env map[string]string) {
	for _, v := range commandFileVars {
		env[v[0]] = f.path(v[1])
	}
}

func (f commandFiles) collect() []sandbox.Collect {
	list := make([]sandbox.Collect, len(commandFileVars))
	for i, v := range commandFileVars {
		limit := int64(maxCommandFile)
		if v[1] == "summary" {
			limit = maxSummary + 1
		}
		list[i] = sandbox.Collect{Path: f.path(v[1]), Limit: limit}
	}
	return list
}

// takeFiles reads what the step wrote into its command files.
func (s *stepRun) takeFiles(f commandFiles, exit sandbox.Exit) error {
	if len(exit.Collected) == 0 {
		return nil
	}
	if data := exit.Collected[f.path("output")]; len(data) > 0 {
		pairs, err := command.ParseEnvFile("GITHUB_OUTPUT", data)
		if err != nil {
			return err
		}
		for _, p := range pairs {
			s.outputs.Set(p.Key, p.Value)
		}
	}
	if data := exit.Collected[f.path("env")]; len(data) > 0 {
		pairs, err := command.ParseEnvFile("GITHUB_ENV", data)
		if err != nil {
			return err
		}
		for _, p := range pairs {
			if err := command.CheckEnvName(p.Key); err != nil {
				return err
			}
			s.effects.env = append(s.effects.env, p)
		}
	}
	s.effects.path = append(s.effects.path, command.ParsePathFile(exit.Collected[f.path("path")])...)
	if data := exit.Collected[f.path("summary")]; len(data) > maxSummary {
		s.note(s.node, "error", "GITHUB_STEP_SUMMARY is larger than 1 MiB and was dropped", nil)
	} else if len(data) > 0 {
		s.emit(event.Event{Type: event.Summary, Text: string(data)})
	}
	return nil
}

// obey carries out a workflow command that a run: step printed (SEMANTICS 29).
func (s *stepRun) obey(c command.Command) {
	if c.Refused != "" {
		s.refuseCommand(c)
		return
	}
	if c.Warning != "" {
		s.emit(event.Event{Type: event.Annotation, Note: &event.Note{Level: "warning", Message: c.Warning}})
	}
	switch c.Name {
	case "stop-commands":
		// The token ends the pause; who reads it in the log could end it too.
		if len(c.Value) > 6 {
			s.Masker.Add(c.Value)
		}
	case "add-mask":
		s.Masker.Add(c.Value)
	case "set-output":
		if name := c.Props["name"]; name != "" {
			s.outputs.Set(name, c.Value)
		}
	case "group":
		s.emit(event.Event{Type: event.Group, Text: c.Value})
	case "endgroup":
		s.emit(event.Event{Type: event.Group})
	case "error", "warning", "notice", "debug":
		note := &event.Note{Level: c.Name, Message: c.Value, Title: c.Props["title"], File: c.Props["file"],
			Line: atoi(c.Props["line"]), Column: atoi(c.Props["col"]), EndLine: atoi(c.Props["endLine"])}
		s.emit(event.Event{Type: event.Annotation, Note: note})
	}
}

// refuseCommand shows why a command was not done; the step fails for it, as on
// GitHub.
func (s *stepRun) refuseCommand(c command.Command) {
	s.refusedMu.Lock()
	defer s.refusedMu.Unlock()
	if s.refused == "" {
		s.refused = c.Refused
	}
	s.emit(event.Event{Type: event.Annotation, Note: &event.Note{Level: "error", Message: c.Refused}})
}

func atoi(s string) int {
	n := 0
	for _, c := range strings.TrimSpace(s) {
		if c < '0' || c > '9' || n > 1<<24 {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// outputString is how a value appears as an output: scalars as they print,
// arrays and objects as JSON, so that fromJSON gets them back.
func outputString(v expr.Value) string {
	switch v.(type) {
	case *expr.Array, *expr.Object:
		return string(expr.AppendJSON(nil, v))
	}
	return expr.String(v)
}
