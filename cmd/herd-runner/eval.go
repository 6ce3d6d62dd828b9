package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/steps/command"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

func (a *App) evalCommand() *cobra.Command {
	var contextFile, dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "eval [--context FILE] [--json] -- 'EXPR'",
		Short: "Evaluate one ${{ }} expression",
		Long: `Evaluate one expression of the ${{ }} language against a JSON object whose
top-level names are the contexts, and print the value as JSON. NaN and the
infinities are printed as strings. Outside a run success() and always() are
true, failure() and cancelled() are false.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			v, err := a.eval(dir, contextFile, args[0])
			switch {
			case err == nil && asJSON:
				fmt.Fprintf(a.Stdout, "%s\n", expr.AppendJSON(nil, v))
			case err == nil:
				var indented bytes.Buffer
				if err := json.Indent(&indented, expr.AppendJSON(nil, v), "", "  "); err != nil {
					return infra(err)
				}
				fmt.Fprintln(a.Stdout, indented.String())
			case asJSON:
				writeEvalError(a.Stdout, err)
			}
			return err
		},
	}
	dirFlag(cmd, &dir)
	cmd.Flags().StringVar(&contextFile, "context", "", "JSON file with the contexts")
	cmd.Flags().BoolVar(&asJSON, "json", false, "compact JSON on one line, errors as JSON too")
	return cmd
}

// evalMemory bounds one evaluation, as the reference library does.
const evalMemory = 1 << 20

func (a *App) eval(dir, contextFile, src string) (expr.Value, error) {
	contexts := expr.NewObject()
	if contextFile != "" {
		b, err := readBounded(under(dir, contextFile))
		if err != nil {
			return nil, problem("--context: %w", err)
		}
		v, err := expr.FromJSON(b)
		if err != nil {
			return nil, problem("--context %s: %w", contextFile, err)
		}
		o, ok := v.(*expr.Object)
		if !ok {
			return nil, problem("--context %s: expected a JSON object whose keys are the contexts", contextFile)
		}
		contexts = o
	}
	functions := evalFunctions(dir)
	unknown := false
	e, err := expr.ParseWith(src, expr.Names{
		Context: func(name string) bool {
			_, ok := contexts.Get(name)
			unknown = unknown || !ok
			return ok
		},
		Function: func(name string) (minimum, maximum int, ok bool) {
			f, ok := functions(name)
			return f.Min, f.Max, ok
		},
	})
	if err == nil {
		var v expr.Value
		if v, err = e.Eval(expr.Env{Context: contexts.Get, Function: functions, MaxBytes: evalMemory}); err == nil {
			return v, nil
		}
	}
	var at *expr.Error
	if errors.As(err, &at) && unknown && contextFile == "" {
		at.Hint = "give the contexts with --context FILE.json; a text is written in single quotes"
	}
	return nil, &exitError{exitProblem, &evalError{src, err}}
}

// writeEvalError prints an error of the expression for programs.
func writeEvalError(w io.Writer, err error) {
	out := map[string]any{"message": err.Error()}
	var at *expr.Error
	if errors.As(err, &at) {
		out = map[string]any{"message": at.Message, "position": at.Position, "offset": at.Offset, "hint": at.Hint}
	}
	b, _ := json.Marshal(map[string]any{"error": out})
	fmt.Fprintf(w, "%s\n", b)
}

// evalFunctions are the functions of a run that is going well.
func evalFunctions(dir string) func(string) (expr.Func, bool) {
	constants := map[string]bool{"success": true, "always": true, "failure": false, "cancelled": false}
	return func(name string) (expr.Func, bool) {
		if v, ok := constants[name]; ok {
			return expr.Func{Call: func([]expr.Value) (expr.Value, error) { return v, nil }}, true
		}
		if name == "hashfiles" {
			return expr.Func{Min: 1, Max: 255, Call: func(args []expr.Value) (expr.Value, error) {
				root, err := filepath.Abs(dir)
				if err != nil {
					return nil, err
				}
				patterns := make([]string, len(args))
				for i, arg := range args {
					patterns[i] = expr.String(arg)
				}
				return command.HashFiles(context.Background(), root, patterns)
			}}, true
		}
		return expr.Func{}, false
	}
}

// evalError shows the expression with a caret under the place.
type evalError struct {
	src string
	err error
}

func (e *evalError) Unwrap() error { return e.err }

func (e *evalError) Error() string {
	var at *expr.Error
	if !errors.As(e.err, &at) {
		return e.err.Error()
	}
	line := strings.ReplaceAll(e.src, "\n", " ")
	offset := min(max(0, at.Offset), len(line))
	column := len([]rune(line[:offset]))
	text := fmt.Sprintf("%s\nat column %d:\n  %s\n  %s^", at.Error(), column+1, line, strings.Repeat(" ", column))
	if at.Hint != "" {
		text += "\n  hint: " + at.Hint
	}
	return text
}
