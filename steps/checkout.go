package steps

import (
	"fmt"
	"path"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// checkout answers actions/checkout: the project is there already. What it can
// not be asked for fails, so that nobody works on the wrong files.
func (s *stepRun) checkout() attemptEnd {
	with, err := evalEnv(s.step.With, s.sc)
	if err != nil {
		return problem(fmt.Errorf("with: %w", err))
	}
	v, _ := s.sc.context("github")
	github, _ := v.(*expr.Object)
	said := func(key string) string {
		if github == nil {
			return ""
		}
		x, _ := github.Get(key)
		return expr.String(x)
	}
	for k, value := range with {
		switch strings.ToLower(k) {
		case "repository":
			if value != "" && !strings.EqualFold(value, said("repository")) {
				return notThere("checking out another repository", value)
			}
		case "path":
			if value != "" && path.Clean(value) != "." {
				return notThere("checking out into another directory", value)
			}
		}
	}
	s.outputs.Set("ref", said("ref"))
	s.outputs.Set("commit", said("sha"))
	s.emit(event.Event{Type: event.Output, Stream: "stdout", Data: []byte("the workspace is the project itself: nothing to check out\n")})
	return attemptEnd{}
}

func notThere(what, value string) attemptEnd {
	return attemptEnd{cause: event.CauseExitCode, message: fmt.Sprintf("%s (%q) is not there yet", what, value),
		hint: "leave it out, or use `git clone` in a `run:`", exit: sandbox.Exit{Code: 1}}
}
