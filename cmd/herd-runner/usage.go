package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is a command line that cannot be read.
type usageError struct{ message, hint string }

func (e *usageError) Error() string { return e.message }

// Hint says what to do next.
func (e *usageError) Hint() string { return e.hint }

// plainUsage makes cmd and all below it say in our words what is wrong with
// their flags and arguments.
func plainUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(flagProblem)
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if check(cmd, args) == nil {
				return nil
			}
			found := "nothing"
			if len(args) > 0 {
				found = quoted(args)
			}
			return &exitError{exitProblem, &usageError{"expected " + usageLine(cmd) + ", found " + found, helpHint(cmd)}}
		}
	}
	for _, sub := range cmd.Commands() {
		plainUsage(sub)
	}
}

// usageLine is how the command is written, without what flags it may have.
func usageLine(cmd *cobra.Command) string {
	return strings.TrimSuffix(cmd.UseLine(), " [flags]")
}

func helpHint(cmd *cobra.Command) string { return "see " + cmd.CommandPath() + " --help" }

func quoted(args []string) string {
	list := make([]string, len(args))
	for i, arg := range args {
		list[i] = fmt.Sprintf("%q", arg)
	}
	return strings.Join(list, " ")
}

// flagProblem says what is wrong with a flag.
func flagProblem(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	message := err.Error()
	switch {
	case errors.As(err, &unknown):
		flag := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			flag = flag[1:]
		}
		message = fmt.Sprintf("%s has no flag %s", cmd.CommandPath(), flag)
	case errors.As(err, &missing):
		message = fmt.Sprintf("--%s needs a value", missing.GetFlag().Name)
	case errors.As(err, &invalid):
		message = fmt.Sprintf("--%s: expected %s, found %q", invalid.GetFlag().Name, valueKind(invalid.GetFlag()), invalid.GetValue())
	}
	return &exitError{exitProblem, &usageError{message, helpHint(cmd)}}
}

// valueKind names what a flag takes.
func valueKind(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int64", "uint":
		return "a whole number"
	case "bool":
		return "true or false"
	case "duration":
		return "a duration such as 90s or 10m"
	case "float64":
		return "a number"
	}
	return "a " + f.Value.Type()
}
