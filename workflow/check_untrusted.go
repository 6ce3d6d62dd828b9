package workflow

import (
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// untrustedPaths are what a stranger can write at GitHub, see
// https://docs.github.com/en/actions/concepts/security/script-injections
func untrustedPaths() []string {
	return []string{
		"github.head_ref",
		"github.event.issue.title", "github.event.issue.body",
		"github.event.pull_request.title", "github.event.pull_request.body",
		"github.event.pull_request.head.ref", "github.event.pull_request.head.label", "github.event.pull_request.head.repo.default_branch",
		"github.event.comment.body", "github.event.review.body", "github.event.review_comment.body",
		"github.event.discussion.title", "github.event.discussion.body",
		"github.event.pages.*.page_name",
		"github.event.commits.*.message", "github.event.commits.*.author.email", "github.event.commits.*.author.name",
		"github.event.head_commit.message", "github.event.head_commit.author.email", "github.event.head_commit.author.name",
		"github.event.workflow_run.head_branch", "github.event.workflow_run.head_commit.message",
		"github.event.workflow_run.head_commit.author.email", "github.event.workflow_run.head_commit.author.name",
		"github.event.client_payload",
	}
}

// taint is where an agent's words may come from.
type taint struct {
	outputs map[*Job]map[string]bool // by lower-case output
	matrix  map[*Job]map[string]bool // by lower-case key; "*" is all
}

// checkUntrusted warns where text that a stranger or an agent wrote becomes part
// of a script.
func (c *checker) checkUntrusted() {
	paths := untrustedPaths()
	t := taint{map[*Job]map[string]bool{}, map[*Job]map[string]bool{}}
	for _, job := range c.topological() {
		c.taintJob(t, job)
	}
	for _, job := range c.w.Jobs {
		for _, s := range job.Steps {
			if s.Run == nil {
				continue
			}
			c.untrustedIn(s.Run, func(ref expr.Ref) bool {
				return stranger(paths, ref) || c.agentWords(t, job, ref)
			})
		}
	}
}

func (c *checker) untrustedIn(run *Value, untrusted func(expr.Ref) bool) {
	tpl := run.template()
	if tpl == nil || tpl.err != nil {
		return
	}
	before := len(c.problems)
	for _, e := range tpl.tpl.Exprs() {
		if len(c.problems)-before >= maxPerValue {
			return
		}
		for _, ref := range e.Refs() {
			if !untrusted(ref) {
				continue
			}
			source := e.Source()[ref.Offset : ref.Offset+ref.Length]
			name := variableName(ref)
			c.at(SeverityWarning, run, e.Base()+ref.Offset, ref.Length, "untrusted",
				"write `env: {"+name+": \"${{ "+source+" }}\"}` and use \"$"+name+"\" in the script",
				"%s is put into the script before the shell reads it: whoever wrote it can run commands", source)
		}
	}
}

var notInName = pattern(`[^A-Za-z0-9]+`)

func variableName(ref expr.Ref) string {
	last := ref.Name
	for _, p := range ref.Path {
		if p != "*" {
			last = p
		}
	}
	name := strings.ToUpper(strings.Trim(notInName().ReplaceAllString(last, "_"), "_"))
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "VALUE"
	}
	return name
}

// stranger says whether ref reaches, holds or lies in an untrusted path.
func stranger(paths []string, ref expr.Ref) bool {
	if ref.Name != "github" {
		return false
	}
	parts := append([]string{"github"}, ref.Path...)
	for _, p := range paths {
		want := strings.Split(p, ".")
		n := min(len(want), len(parts))
		if len(parts) < len(want) && len(parts) < 3 {
			continue // github and github.event as a whole are used as JSON
		}
		if slices.EqualFunc(want[:n], parts[:n], func(w, have string) bool {
			return w == "*" || have == "*" || strings.EqualFold(w, have)
		}) {
			return true
		}
	}
	return false
}

// agentWords says whether ref may give what an agent wrote.
func (c *checker) agentWords(t taint, job *Job, ref expr.Ref) bool {
	path := ref.Path
	switch ref.Name {
	case "steps":
		if len(path) < 2 || !strings.EqualFold(path[1], "outputs") || len(path) > 2 && isMeasured(path[2]) {
			return false
		}
		s := c.stepOf(job, path[0])
		return s != nil && s.IsAgent()
	case "needs":
		if len(path) < 2 {
			return false
		}
		outputs := t.outputs[c.jobs[strings.ToLower(path[0])]]
		if len(path) < 3 || path[2] == "*" {
			return len(outputs) > 0 && strings.EqualFold(path[1], "outputs")
		}
		return strings.EqualFold(path[1], "outputs") && outputs[strings.ToLower(path[2])]
	case "matrix":
		keys := t.matrix[job]
		return keys["*"] || len(path) > 0 && keys[strings.ToLower(path[0])]
	}
	return false
}

func (c *checker) stepOf(job *Job, id string) *Step {
	f := c.facts[job]
	i, ok := f.steps[strings.ToLower(id)]
	if !ok || i >= len(job.Steps) {
		return nil
	}
	return job.Steps[i]
}

// isMeasured says whether an agent's output is counted by the runner and not
// written by the agent.
func isMeasured(output string) bool {
	return slices.Contains([]string{"cost-usd", "input-tokens", "output-tokens", "turns", "cause", "session-id"}, output)
}

func (c *checker) taintJob(t taint, job *Job) {
	words := func(v *Value) bool { return c.uses(v, func(ref expr.Ref) bool { return c.agentWords(t, job, ref) }) }
	if job.Strategy != nil && job.Strategy.Matrix != nil {
		keys := map[string]bool{}
		m := job.Strategy.Matrix
		if m.Kind != Mapping && words(m) {
			keys["*"] = true
		}
		for _, e := range m.Entries {
			if !words(e.Value) {
				continue
			}
			if e.Key.Text == "include" {
				keys["*"] = true
			}
			keys[strings.ToLower(e.Key.Text)] = true
		}
		t.matrix[job] = keys
	}
	outputs := map[string]bool{}
	for _, e := range entriesOf(job.Outputs) {
		if words(e.Value) {
			outputs[strings.ToLower(e.Key.Text)] = true
		}
	}
	t.outputs[job] = outputs
}

// uses says whether an expression anywhere in v has such a reference.
func (c *checker) uses(v *Value, match func(expr.Ref) bool) bool {
	for _, item := range v.Items {
		if c.uses(item, match) {
			return true
		}
	}
	for _, e := range v.Entries {
		if c.uses(e.Value, match) {
			return true
		}
	}
	t := v.template()
	if t == nil || t.err != nil {
		return false
	}
	for _, e := range t.tpl.Exprs() {
		if slices.ContainsFunc(e.Refs(), match) {
			return true
		}
	}
	return false
}
