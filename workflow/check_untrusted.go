package workflow

import (
	"maps"
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

// taint is where the words of agents and strangers may come from.
type taint struct {
	outputs map[*Job]map[string]bool // by lower-case output
	matrix  map[*Job]map[string]bool // by lower-case key; "*" is all
	actions map[*Step]map[string]bool
}

// checkUntrusted warns where text that a stranger or an agent wrote becomes part
// of a script, also in the actions and workflows that it is handed on to.
func (c *checker) checkUntrusted() {
	t := c.taints()
	for _, job := range c.w.Jobs {
		untrusted := c.untrusted(t, job)
		for _, s := range job.Steps {
			if s.Run != nil {
				c.untrustedIn(s.Run, untrusted)
			}
			if inputs := c.handed(s.With, untrusted); s.Action != nil && len(inputs) > 0 {
				c.handOn(newActionChecker(s.Action), inputs)
			}
		}
		if inputs := c.handed(job.With, untrusted); job.Called != nil && len(inputs) > 0 {
			c.handOn(newChecker(job.Called), inputs)
		}
	}
}

func (c *checker) taints() taint {
	t := taint{map[*Job]map[string]bool{}, map[*Job]map[string]bool{}, map[*Step]map[string]bool{}}
	for _, job := range c.topological() {
		c.taintJob(t, job)
	}
	return t
}

// untrusted tells the references in a job that may give words of strangers or
// agents.
func (c *checker) untrusted(t taint, job *Job) func(expr.Ref) bool {
	paths := untrustedPaths()
	return func(ref expr.Ref) bool { return stranger(paths, ref) || c.agentWords(t, job, ref) }
}

// handed are the inputs, in lower case, that get untrusted words from `with`;
// "*" is all.
func (c *checker) handed(with *Value, untrusted func(expr.Ref) bool) map[string]bool {
	inputs := map[string]bool{}
	switch {
	case with == nil:
	case with.Kind != Mapping && c.uses(with, untrusted):
		inputs["*"] = true
	}
	for _, e := range entriesOf(with) {
		if !c.uses(e.Value, untrusted) {
			continue
		}
		if e.Key.template() != nil {
			inputs["*"] = true
		}
		inputs[strings.ToLower(e.Key.Text)] = true
	}
	return inputs
}

// handOn checks what is used once more, with inputs that are not to be trusted.
func (c *checker) handOn(inner *checker, inputs map[string]bool) {
	key := inner.file + "\x00" + strings.Join(slices.Sorted(maps.Keys(inputs)), "\x00")
	switch {
	case c.handedOn[key]:
		return
	case c.handedOn == nil:
		c.handedOn = map[string]bool{}
	}
	c.handedOn[key] = true
	inner.tainted, inner.handedOn = inputs, c.handedOn
	inner.checkUntrusted()
	c.problems = append(c.problems, inner.problems...)
}

// actionWords are the outputs of an action, in lower case, that may hold words
// of an agent in it, or untrusted ones that it was given.
func (c *checker) actionWords(t taint, job *Job, s *Step) map[string]bool {
	if words, known := t.actions[s]; known {
		return words
	}
	t.actions[s] = nil // a step that refers to itself has nothing
	inner := newActionChecker(s.Action)
	inner.tainted = c.handed(s.With, c.untrusted(t, job))
	untrusted := inner.untrusted(inner.taints(), s.Action.job)
	words := map[string]bool{}
	for _, o := range s.Action.Outputs {
		if o.Value != nil && inner.uses(o.Value, untrusted) {
			words[strings.ToLower(o.Name.Value)] = true
		}
	}
	t.actions[s] = words
	return words
}

// callWords is actionWords of a workflow that a job calls.
func (c *checker) callWords(t taint, job *Job) map[string]bool {
	inner := newChecker(job.Called)
	inner.tainted = c.handed(job.With, c.untrusted(t, job))
	inside := inner.taints()
	words := map[string]bool{}
	for _, o := range job.Called.Call.Outputs {
		if o.Value != nil && inner.uses(o.Value, func(ref expr.Ref) bool { return inner.agentWords(inside, nil, ref) }) {
			words[strings.ToLower(o.Name.Value)] = true
		}
	}
	return words
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
		switch {
		case s == nil:
			return false
		case s.Action == nil:
			return s.IsAgent()
		case len(path) < 3 || path[2] == "*":
			return len(c.actionWords(t, job, s)) > 0
		}
		return c.actionWords(t, job, s)[strings.ToLower(path[2])]
	case "inputs":
		if len(path) == 0 || path[0] == "*" {
			return len(c.tainted) > 0
		}
		return c.tainted["*"] || c.tainted[strings.ToLower(path[0])]
	case "needs", "jobs":
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
	if f == nil {
		return nil
	}
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
	if job.Called != nil {
		t.outputs[job] = c.callWords(t, job)
		return
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
