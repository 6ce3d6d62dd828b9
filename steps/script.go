package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/steps/command"
	"github.com/herd-runner/herd-runner/workflow"
)

// scriptStop is how GitHub stops a run: step.
var scriptStop = []sandbox.StopStage{{Signal: "INT", Grace: 7500 * time.Millisecond}, {Signal: "TERM", Grace: 2500 * time.Millisecond}}

// runScript is one attempt of a run: step.
func (s *stepRun) runScript(ctx context.Context) attemptEnd {
	script, err := workflow.EvalString(s.step.Run, s.sc.env())
	if err != nil {
		return problem(fmt.Errorf("run: %w", err))
	}
	sh, err := s.shell()
	if err != nil {
		return problem(err)
	}
	dirs := []*workflow.Value{s.step.WorkingDirectory}
	if s.frame == nil { // defaults do not reach into actions
		dirs = append(dirs, s.node.Job.Defaults.WorkingDirectory, s.Plan.Workflow.Defaults.WorkingDirectory)
	}
	dir, err := s.workingDirectory(dirs...)
	if err != nil {
		return problem(err)
	}
	a, err := s.ask()
	if err != nil {
		return problem(err)
	}
	if end, ok := s.ready(ctx, a); !ok {
		return end
	}
	box, err := s.useBox(ctx, a)
	if err != nil {
		return boxFailed(err)
	}
	broken := false
	defer func() { s.leaveBox(ctx, box, broken) }()
	s.ahead.from(ctx, s.node, box.key)
	info := box.Info()
	files := s.commandFiles(info)
	slot := box.scripts.take()
	defer box.scripts.give(slot)
	scriptPath := path.Join(info.Temp, scriptFile+strconv.Itoa(slot)+sh.extension)
	if !path.IsAbs(dir) {
		dir = path.Join(info.Workdir, dir)
	}
	lines := sh.commandLines(scriptPath)
	proc := sandbox.Process{
		Argv:    lines[0],
		Else:    lines[1:],
		Env:     s.scriptEnv(info, files),
		Dir:     dir,
		Files:   []sandbox.File{{Path: scriptPath, Mode: 0o700, Data: []byte(sh.before + script + sh.after)}},
		Collect: files.collect(),
		Stop:    scriptStop,
	}
	if !box.used.Load() {
		proc.Files = append(proc.Files, sandbox.File{Path: toolCache(info.Temp), Mode: fs.ModeDir})
		if s.Event != nil {
			proc.Files = append(proc.Files, sandbox.File{Path: eventPath(info), Mode: 0o600, Data: s.Event})
		}
	}
	kill, unguard := s.guard(info)
	defer unguard()
	proc.Kill = kill
	stdout, stderr := s.output("stdout"), s.output("stderr")
	last := &tail{limit: 4 << 10, next: func([]byte) {}}
	proc.Stdout, proc.Stderr = stdout, io.MultiWriter(stderr, last)
	exit, err := box.Exec(ctx, proc)
	box.used.Store(true)
	stdout.Flush()
	stderr.Flush()
	if err != nil {
		if end, ok := notStarted(err); ok {
			return end
		}
		broken = true
		return boxFailed(err)
	}
	end := attemptEnd{exit: exit}
	switch {
	case exit.OOMKilled, exit.ToolOOM && exit.Code != 0:
		end.cause, end.message = event.CauseOOM, exitMessage(exit)+": the box ran out of memory"
		end.hint = "raise docker.memory"
	case exit.Code != 0:
		end.cause, end.message = event.CauseExitCode, exitMessage(exit)
		end.blameLimit()
		end.blameFiles(last.bytes())
	}
	if err := s.takeFiles(files, exit); err != nil && end.cause == "" {
		end.cause, end.message, end.exit.Code = event.CauseExitCode, err.Error(), 1
	}
	if s.refused != "" && end.cause == "" {
		end.cause, end.message, end.exit.Code = event.CauseExitCode, s.refused, 1
	}
	return end
}

// notStarted is the end of a step whose program is not there: its own failure,
// as a shell would have it, not one of the box.
func notStarted(err error) (attemptEnd, bool) {
	var failed *sandbox.Error
	if !errors.As(err, &failed) || failed.Kind != sandbox.KindExec {
		return attemptEnd{}, false
	}
	end := attemptEnd{cause: event.CauseExitCode, message: err.Error(), hint: failed.Advice, exit: sandbox.Exit{Code: 127}}
	if end.hint == "" {
		end.hint = "is the program in the box's image (docker.image), or on this machine where the step says docker: false?"
	}
	return end, true
}

func exitMessage(exit sandbox.Exit) string {
	if exit.Signal != "" {
		return "killed by signal " + exit.Signal
	}
	return fmt.Sprintf("exit code %d", exit.Code)
}

// output is a stream of the step on its way out: workflow commands are taken
// out of it and obeyed, the rest is emitted.
func (s *stepRun) output(stream string) *command.Scanner {
	return command.NewScanner(
		func(c command.Command) { s.obey(c) },
		func(p []byte) { s.emit(event.Event{Type: event.Output, Stream: stream, Data: p}) },
	)
}

// scriptEnv is the exact environment of a run: step, sorted.
func (s *stepRun) scriptEnv(info sandbox.Info, files commandFiles) []string {
	env := s.processEnv(info, overlaid(s.sc.view.env, s.sc.stepEnv))
	if info.Home != "" {
		env.over["HOME"] = info.Home
	}
	files.env(env.over)
	if s.Event != nil {
		env.over["GITHUB_EVENT_PATH"] = eventPath(info)
	}
	if added := s.sc.view.path; len(added) > 0 {
		env.over["PATH"] = strings.Join(append(slices.Clone(added), env.get("PATH")), ":")
	}
	return env.list()
}

const (
	eventFile  = "_herd_event.json"
	scriptFile = "_herd_script_" // and the number of the script's slot
)

func eventPath(info sandbox.Info) string { return path.Join(info.Temp, eventFile) }

// isOwn tells what in RUNNER_TEMP a later box has there too: files that are written
// before they are used, whatever is in them, and the tool cache.
func isOwn(e fs.DirEntry) bool {
	if e.IsDir() {
		return e.Name() == toolCacheDir
	}
	return e.Name() == eventFile || strings.HasPrefix(e.Name(), scriptFile)
}

// workingDirectory is the first that is said, nearest first; "." where none is.
func (s *stepRun) workingDirectory(nearest ...*workflow.Value) (string, error) {
	for _, v := range nearest {
		if v == nil {
			continue
		}
		dir, err := workflow.EvalString(v, s.sc.env())
		if err != nil {
			return "", fmt.Errorf("working-directory: %w", err)
		}
		if dir != "" {
			return dir, nil
		}
	}
	return ".", nil
}

// shell says how a script is run: by the first candidate whose program is there.
type shell struct {
	candidates    [][]string // {0} is the script's path
	extension     string
	before, after string // what stands around the script in its file
}

func (s *stepRun) shell() (shell, error) {
	name := ""
	said := []*workflow.Value{s.step.Shell}
	if s.frame == nil {
		said = append(said, s.node.Job.Defaults.Shell, s.Plan.Workflow.Defaults.Shell)
	}
	for _, v := range said {
		if v == nil {
			continue
		}
		var err error
		if name, err = workflow.EvalString(v, s.sc.env()); err != nil {
			return shell{}, fmt.Errorf("shell: %w", err)
		}
		if name != "" {
			break
		}
	}
	return namedShell(name)
}

// knownShells are the shells that a script's `shell` can name alone: the
// arguments of GitHub's command line for it, {0} being the script's path, and
// the ending of that.
func knownShells(program string) (arguments, extension string) {
	switch program {
	case "bash":
		return "--noprofile --norc -e -o pipefail {0}", ".sh"
	case "sh":
		return "-e {0}", ".sh"
	case "python":
		return "{0}", ".py"
	case "node":
		return "{0}", ".js"
	case "pwsh", "powershell":
		return `-command ". '{0}'"`, ".ps1"
	}
	return "", ""
}

// namedShell gives GitHub's command lines of the shells (SEMANTICS 33).
func namedShell(name string) (shell, error) {
	if name == "" {
		return shell{candidates: [][]string{{"bash", "-e", "{0}"}, {"sh", "-e", "{0}"}}, extension: ".sh"}, nil
	}
	program, arguments, _ := strings.Cut(name, " ")
	known, extension := knownShells(program)
	if arguments = strings.TrimSpace(arguments); arguments == "" {
		arguments = known
	}
	if !strings.Contains(arguments, "{0}") {
		return shell{}, fmt.Errorf("shell: %q is not known; use bash, sh, python, node, pwsh, or a command line with {0} for the script", name)
	}
	sh := shell{candidates: [][]string{append([]string{program}, splitArguments(arguments)...)}, extension: extension}
	switch {
	case name == "python":
		sh.candidates = append(sh.candidates, []string{"python3", "{0}"})
	case extension == ".ps1":
		sh.before = "$ErrorActionPreference = 'stop'\n"
		sh.after = "\nif ((Test-Path -LiteralPath variable:\\LASTEXITCODE)) { exit $LASTEXITCODE }"
	}
	return sh, nil
}

// splitArguments takes a command line apart as .NET does, which GitHub's runner
// is written in: double quotes keep blanks together, a backslash escapes only
// before a double quote, and two of these inside of quotes are one.
func splitArguments(s string) []string {
	var all []string
	var b strings.Builder
	quoted, begun := false, false
	for i := 0; i < len(s); i++ {
		slashes := 0
		for i < len(s) && s[i] == '\\' {
			slashes++
			i++
		}
		atQuote := i < len(s) && s[i] == '"'
		if begun = begun || slashes > 0; !atQuote {
			b.WriteString(strings.Repeat("\\", slashes))
		} else {
			b.WriteString(strings.Repeat("\\", slashes/2))
		}
		switch {
		case i == len(s):
		case atQuote && slashes%2 == 1:
			b.WriteByte('"')
		case atQuote && quoted && i+1 < len(s) && s[i+1] == '"':
			b.WriteByte('"')
			i++
		case atQuote:
			quoted, begun = !quoted, true
		case (s[i] == ' ' || s[i] == '\t') && !quoted:
			if begun {
				all = append(all, b.String())
				b.Reset()
				begun = false
			}
		default:
			b.WriteByte(s[i])
			begun = true
		}
	}
	if begun {
		all = append(all, b.String())
	}
	return all
}

// commandLines are the command lines of a script in the order in which they are
// tried: only the box knows what its image has.
func (sh shell) commandLines(script string) [][]string {
	lines := make([][]string, len(sh.candidates))
	for i, c := range sh.candidates {
		for _, a := range c {
			lines[i] = append(lines[i], strings.ReplaceAll(a, "{0}", script))
		}
	}
	return lines
}
