package workflow

import (
	"slices"
	"strings"
)

// checkSessions looks at the conversations that steps go on with: the step they
// are of must be an agent's and have ended, and one step at most goes on with it
// under its own id.
func (c *checker) checkSessions() {
	blocks := []*Value{c.w.Defaults.Runtime}
	for _, job := range c.w.Jobs {
		blocks = append(blocks, job.Defaults.Runtime, job.Runtime)
	}
	shared := map[*Value]bool{}
	for _, block := range blocks {
		if at := block.Get("session"); at != nil && !shared[at] {
			c.errorf(at, "session", "say it at the step", "`session` stands at steps only")
			shared[at] = true
		}
	}
	resumed := map[*Step]*Step{}
	for _, job := range c.w.Jobs {
		for _, s := range job.Steps {
			at := s.Runtime.Get("session")
			if at == nil || shared[at] {
				continue
			}
			if c.action != nil {
				c.errorf(at, "session", "put the steps into a job", "`session` cannot stand in an action")
				continue
			}
			named := SessionOf(s)
			other := c.sessionSource(job, s, at, named)
			if other == nil || named.Fork {
				continue
			}
			if first := resumed[other]; first != nil {
				c.errorf(at, "session", "resume step "+first.ID+", or write `session: {fork: "+other.ID+"}`", "step %q goes on with the session of %q already", first.ID, other.ID)
				continue
			}
			resumed[other] = s
		}
	}
}

// sessionSource finds the step whose session another names; nil where it cannot
// be gone on with, which is reported.
func (c *checker) sessionSource(job *Job, s *Step, at *Value, named Session) *Step {
	if named.Step == "" {
		return nil // not readable: the decoder says so
	}
	from := job
	if named.Job != "" {
		from = c.jobs[strings.ToLower(named.Job)]
		switch {
		case from == nil:
			c.errorf(at, "session", suggest(named.Job, c.jobIDs()), "`session` names the job %q, which does not exist", named.Job)
			return nil
		case from == job:
		case !slices.ContainsFunc(job.Needs, func(n Name) bool { return strings.EqualFold(n.Value, from.ID) }):
			c.errorf(at, "session", "add "+from.ID+" to its `needs`", "job %q goes on with a session of %q, which it does not need", job.ID, from.ID)
			return nil
		case from.Strategy != nil && from.Strategy.Matrix != nil:
			c.errorf(at, "session", "go on with it in the same job", "job %q has a matrix: each of its legs has a session of its own", from.ID)
			return nil
		case job.Strategy != nil && job.Strategy.Matrix != nil && !named.Fork:
			c.errorf(at, "session", "write `session: {fork: "+from.ID+"/"+named.Step+"}`", "job %q has a matrix: only one of its legs could resume the session", job.ID)
			return nil
		}
	}
	other := stepsByID(from)[strings.ToLower(named.Step)]
	switch {
	case other == nil || !other.Declared:
		c.errorf(at, "session", suggest(named.Step, declaredIDs(stepsByID(from), func(o *Step) bool { return o.IsAgent() && o != s })), "`session` names the step %q, which does not exist", named.Step)
		return nil
	case !other.IsAgent():
		c.errorf(at, "session", "name a step with a prompt", "step %q is no agent step: it has no session", other.ID)
		return nil
	case other == s:
		c.errorf(at, "session", "name another step", "a step cannot go on with its own session; `retry` does")
		return nil
	case from == job && !endedBefore(job)(other, s):
		hint := "order them with `needs` or `wait`"
		if other.Index > s.Index && !s.HasNeeds {
			hint = "move this step below it"
		}
		c.errorf(at, "session", hint, "step %q may still run, or not have begun, when this one starts", other.ID)
		return nil
	case onHost(other) != onHost(s):
		c.errorf(at, "session", "run both in boxes, or both on the host", "a session cannot go from a box to the host, or back")
		return nil
	}
	return other
}

// onHost says whether a step says `docker: false`.
func onHost(s *Step) bool {
	d, err := DecodeDocker(s.Docker, staticEval)
	return err == nil && d.Host
}
