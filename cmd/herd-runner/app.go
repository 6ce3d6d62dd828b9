package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/report"
)

// App is everything the verbs take from the world.
type App struct {
	Stdin   io.ReadCloser
	Stdout  io.WriteCloser
	Stderr  io.Writer
	Getenv  func(string) string
	Environ func() []string
	Now     func() time.Time
	Version string

	output  *watchedOutput // Stdout within Main
	sandbox string         // as --sandbox says
}

// Exit codes; when several apply the precedence is 130, 3, 1. A policy refusal
// is 2.
const (
	exitOK        = 0
	exitFailure   = 1   // a step failed: the run's result
	exitProblem   = 2   // a problem in what the person gave: file, flags, inputs, policy
	exitInfra     = 3   // ours or the machine's
	exitCancelled = 130 // Ctrl-C
)

// exitError carries an exit code; a nil err has already been shown.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// shown is the error of a verb that has told the person everything already.
func shown(code int) error { return &exitError{code: code} }

func problem(format string, args ...any) error {
	return &exitError{exitProblem, fmt.Errorf(format, args...)}
}

// infra keeps the code of what has one already.
func infra(err error) error {
	var exit *exitError
	if errors.As(err, &exit) {
		return err
	}
	return &exitError{exitInfra, err}
}

// Main runs one command line and returns the exit code.
func (a *App) Main(args []string) int {
	// What runs inside boxes is started often and needs none of the rest.
	if len(args) > 0 {
		if code, ok := a.inBox(args[0], args[1:]); ok {
			return code
		}
	}
	collectLater()
	a.output = watchOutput(a.Stdout)
	a.Stdout = a.output
	root := a.root()
	root.SetArgs(args)
	err := root.Execute()
	switch failed := a.output.failure(); {
	case failed == nil:
	case errors.Is(err, failed):
		err = infra(err)
	default:
		err = a.incomplete(err, failed)
	}
	if err == nil {
		return exitOK
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{exitProblem, err} // of the flag parser
	}
	if exit.err != nil {
		report.Error(a.Stderr, exit.err, a.color(a.Stderr))
	}
	return exit.code
}

func (a *App) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "herd-runner",
		Short:         "Run workflows of coding agents in hardened containers",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       a.Version,
	}
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetIn(a.Stdin)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		a.runCommand(), a.rerunCommand(), a.validateCommand(), a.graphCommand(), a.evalCommand(),
		a.psCommand(), a.showCommand(), a.logsCommand(), a.whyCommand(), a.egressCommand(), a.policyCommand(), a.cancelCommand(),
		a.boxCommand(), a.cleanCommand(), a.runtimesCommand(), a.imageCommand(), a.cassetteCommand(), a.doctorCommand(), a.verifyCommand(), a.schemaCommand(), a.versionCommand(),
	)
	plainUsage(root)
	return root
}

// color says whether w is a terminal that wants colours.
func (a *App) color(w io.Writer) bool {
	if a.Getenv("NO_COLOR") != "" || a.Getenv("TERM") == "dumb" {
		return false
	}
	return isTerminal(w)
}

func isTerminal(w io.Writer) bool {
	if o, ok := w.(*watchedOutput); ok {
		w = o.WriteCloser
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}

// dirFlag adds -C: everything is relative to that directory.
func dirFlag(cmd *cobra.Command, dir *string) {
	*dir = "."
	cmd.Flags().VarP((*directory)(dir), "directory", "C", "project directory; other paths are relative to it")
}

// directory is the value of a flag: one that is there.
type directory string

func (d *directory) String() string { return string(*d) }
func (d *directory) Type() string   { return "directory" }

func (d *directory) Set(name string) error {
	if st, err := os.Stat(name); err != nil {
		return err
	} else if !st.IsDir() {
		return syscall.ENOTDIR
	}
	*d = directory(name)
	return nil
}

func under(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// exitCode is the run's exit code by the precedence above.
func exitCode(out event.Outcome) int {
	switch {
	case out.Outcome == "cancelled":
		return exitCancelled
	case out.Cause == event.CauseInfrastructure:
		return exitInfra
	case out.Conclusion == "failure":
		return exitFailure
	}
	return exitOK
}
