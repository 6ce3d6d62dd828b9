package workflow

import "strings"

// checkSteps looks at which keys of a step stand together.
func (c *checker) checkSteps() {
	for _, job := range c.w.Jobs {
		c.checkShell(job.Defaults.Shell)
		for _, s := range job.Steps {
			c.checkStep(s)
			c.checkShell(s.Shell)
		}
	}
	c.checkShell(c.w.Defaults.Shell)
}

func (c *checker) checkStep(s *Step) {
	kinds := 0
	for _, v := range []*Value{s.Run, s.Prompt, s.PromptFile, s.Uses} {
		if v != nil {
			kinds++
		}
	}
	controls := 0
	for _, is := range []bool{len(s.Wait) > 0, s.WaitAll, s.Cancel != nil} {
		if is {
			controls++
		}
	}
	switch {
	case s.reported:
	case controls > 0 && kinds+controls > 1:
		c.add(SeverityError, "step", s.Pos, 1, "make two steps of it", "a step that waits for others or ends one does nothing else")
	case controls > 0:
	case kinds == 0:
		c.add(SeverityError, "step", s.Pos, 1, "add `run:` or `prompt:`", "a step needs `run`, `prompt`, `prompt-file` or `uses`")
	case kinds > 1 && s.Uses != nil:
		c.add(SeverityError, "step", s.Pos, 1, "make two steps of it", "a step that uses an action does nothing else")
	case kinds > 1 && s.Run != nil:
		c.add(SeverityError, "step", s.Pos, 1, "make two steps of it", "a step cannot both run a script and prompt an agent")
	case kinds > 1:
		c.errorf(s.PromptFile, "step", "keep one of them", "a step cannot have both `prompt` and `prompt-file`")
	}
	for _, v := range []*Value{s.Prompt, s.PromptFile} {
		if v != nil && v.template() == nil && strings.TrimSpace(v.Text) == "" {
			c.errorf(v, "step", "say what the agent shall do", "the prompt is empty")
		}
	}
	if s.Budget != nil && !s.IsAgent() && s.Uses == nil {
		c.errorf(s.Budget, "step", "remove it, or give it to the job", "`budget` belongs to steps that ask a model: those with `prompt`, `prompt-file` or `uses`")
	}
	if s.IsAgent() && s.Run == nil && s.Shell != nil {
		c.errorf(s.Shell, "step", "remove it", "`shell` belongs to `run`; an agent step has none")
	}
}

func shells() []string { return []string{"bash", "sh", "python", "node", "pwsh", "powershell"} }

// checkShell takes a known shell, or a command line with {0} for the script.
func (c *checker) checkShell(v *Value) {
	if v == nil || v.template() != nil || strings.Contains(v.Text, "{0}") {
		return
	}
	for _, s := range shells() {
		if s == v.Text {
			return
		}
	}
	if v.Text == "cmd" {
		c.errorf(v, "shell", "write the script for bash or pwsh", "the shell cmd is there on Windows only; steps run on Linux")
		return
	}
	hint := suggest(v.Text, shells())
	c.errorf(v, "shell", hint+", or a command line with {0} where the script's file goes, for example `perl {0}`", "unknown shell %s", describe(v))
}
