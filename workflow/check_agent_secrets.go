package workflow

// RuleAgentSecrets marks the problems that an operator's policy may allow.
const RuleAgentSecrets = "policy:agent-secrets"

// checkAgentSecrets keeps secrets away from agents: an agent is not trusted, and
// what it knows it can tell.
func (c *checker) checkAgentSecrets() {
	agents := false
	c.searched = map[*Value]bool{}
	for _, job := range c.w.Jobs {
		inJob := false
		for _, s := range job.Steps {
			if !s.HasAgent() {
				continue
			}
			inJob = true
			c.noSecrets(s.Prompt, "the prompt of an agent")
			c.noSecrets(s.PromptFile, "the prompt of an agent")
			c.noSecrets(s.Env, "the env of an agent step")
			c.noSecrets(s.Runtime, "the runtime of an agent step")
			c.noSecrets(s.With, "the inputs of an action with an agent")
			if s.Docker != nil && s.Docker.Kind == Mapping {
				c.noSecrets(s.Docker.Get("env"), "the box of an agent step")
			}
		}
		if inJob {
			agents = true
			c.noSecrets(job.Env, "the env of a job with an agent step")
		}
	}
	if agents {
		c.noSecrets(c.w.Env, "the env of a workflow with an agent step")
	}
}

func (c *checker) noSecrets(v *Value, where string) {
	if v == nil || c.searched[v] {
		return
	}
	c.searched[v] = true
	for _, item := range v.Items {
		c.noSecrets(item, where)
	}
	for _, e := range v.Entries {
		c.noSecrets(e.Value, where)
	}
	t := v.template()
	if t == nil || t.err != nil {
		return
	}
	before := len(c.problems)
	for _, e := range t.tpl.Exprs() {
		if len(c.problems)-before >= maxPerValue {
			return
		}
		for _, ref := range e.Refs() {
			if ref.Name == "secrets" {
				c.at(SeverityError, v, e.Base()+ref.Offset, ref.Length, RuleAgentSecrets,
					"use the secret in a `run:` step, or have the operator allow it with --allow agent-secrets", "a secret in %s", where)
			}
		}
	}
}
