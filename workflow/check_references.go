package workflow

import (
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// jobFacts is what is known of a job before it runs.
type jobFacts struct {
	job    *Job
	steps  map[string]int // declared ids in lower case, by index
	ids    []string       // declared ids
	needs  []string       // ids of the jobs it needs
	matrix []string       // keys of its matrix; nil where not known
	known  bool           // whether matrix is complete
}

func newJobFacts(job *Job) *jobFacts {
	f := &jobFacts{job: job, steps: make(map[string]int, len(job.Steps))}
	for _, s := range job.Steps {
		if _, dup := f.steps[strings.ToLower(s.ID)]; s.Declared && !dup {
			f.steps[strings.ToLower(s.ID)] = s.Index
			f.ids = append(f.ids, s.ID)
		}
	}
	for _, n := range job.Needs {
		f.needs = append(f.needs, n.Value)
	}
	f.known = true
	if job.Strategy != nil && job.Strategy.Matrix != nil {
		f.matrix, f.known = matrixKeys(job.Strategy.Matrix)
	}
	return f
}

// matrixKeys lists the keys a matrix gives; known is false where expressions
// may add others.
func matrixKeys(m *Value) (keys []string, known bool) {
	if m.Kind != Mapping {
		return nil, false
	}
	known = true
	for _, e := range m.Entries {
		switch e.Key.Text {
		case "exclude":
		case "include":
			if e.Value.Kind != Sequence {
				known = false
			}
			for _, item := range e.Value.Items {
				if item.Kind != Mapping {
					known = false
				}
				for _, extra := range item.Entries {
					keys = append(keys, extra.Key.Text)
				}
			}
		default:
			keys = append(keys, e.Key.Text)
		}
		if e.Key.template() != nil {
			known = false
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), known
}

// reference looks at a use of a context whose members are known. What is not
// there is null to GitHub, so in its keys that is a warning. In ours it is an
// error: an agent costs money, and a prompt with a hole in it is a slip.
func (c *checker) reference(v *Value, ref expr.Ref, base int, p place, s scope) {
	if len(ref.Path) == 0 || ref.Path[0] == "*" {
		return
	}
	fail := func(hint, format string, args ...any) {
		severity := SeverityWarning
		if p.ours() {
			severity = SeverityError
		}
		c.at(severity, v, base+ref.Offset, ref.Length, "reference", hint, format, args...)
	}
	name := ref.Path[0]
	switch ref.Name {
	case "inputs":
		if !slices.ContainsFunc(c.inputs, func(in string) bool { return strings.EqualFold(in, name) }) {
			hint := suggest(name, c.inputs)
			switch {
			case len(c.inputs) > 0:
			case c.action != nil:
				hint = "declare it under `inputs`"
			default:
				hint = "declare it under `on.workflow_dispatch.inputs`"
			}
			fail(hint, "there is no input %q", name)
		}
	case "steps":
		c.stepReference(ref, s, fail)
	case "needs":
		c.needReference(v, ref, base, s, fail)
	case "jobs":
		if c.jobs[strings.ToLower(name)] == nil {
			fail(suggest(name, c.jobIDs()), "there is no job %q", name)
		}
	case "budget":
		switch members := budgetMembers(); {
		case !strings.EqualFold(name, "remaining"):
			fail("write budget.remaining", "`budget` has no %q", name)
		case len(ref.Path) > 1 && ref.Path[1] != "*" && !containsFold(members, ref.Path[1]):
			fail(suggest(ref.Path[1], members), "`budget.remaining` has no %q", ref.Path[1])
		}
	case "matrix":
		f := s.job
		switch {
		case f == nil || !f.known:
		case f.job.Strategy == nil || f.job.Strategy.Matrix == nil:
			fail("add `strategy: {matrix: …}`", "job %q has no matrix", f.job.ID)
		case !containsFold(f.matrix, name):
			fail(suggest(name, f.matrix), "the matrix has no key %q", name)
		}
	}
}

func (c *checker) stepReference(ref expr.Ref, s scope, fail func(string, string, ...any)) {
	f := s.job
	if f == nil {
		return
	}
	name := ref.Path[0]
	index, ok := f.steps[strings.ToLower(name)]
	switch {
	case !ok:
		fail(suggest(name, f.ids), "%s has no step with the id %q", c.owner(f.job), name)
		return
	case s.before >= 0 && index >= s.before:
		fail("move it before this one", "step %q has not run yet when this is evaluated", name)
		return
	}
	c.actionOutput(f.job.Steps[index], ref, fail)
	properties := []string{"outputs", "outcome", "conclusion"}
	if len(ref.Path) > 1 && ref.Path[1] != "*" && !containsFold(properties, ref.Path[1]) {
		hint := suggest(ref.Path[1], properties)
		if agent := stepByID(f.job, name); agent != nil && agent.IsAgent() && slices.Contains(agentOutputs(), ref.Path[1]) {
			hint = "write steps." + name + ".outputs." + ref.Path[1]
		}
		fail(hint, "a step has no %q", ref.Path[1])
	}
}

func (c *checker) needReference(v *Value, ref expr.Ref, base int, s scope, fail func(string, string, ...any)) {
	f := s.job
	if f == nil {
		return
	}
	name := ref.Path[0]
	job := c.jobs[strings.ToLower(name)]
	if !containsFold(f.needs, name) {
		hint := suggest(name, f.needs)
		if job != nil {
			hint = "add " + job.ID + " to the `needs` of job " + f.job.ID
		}
		fail(hint, "job %q does not need %q", f.job.ID, name)
		return
	}
	if len(ref.Path) < 2 || ref.Path[1] == "*" {
		return
	}
	properties := []string{"outputs", "result", "matrix"}
	if !containsFold(properties, ref.Path[1]) {
		fail(suggest(ref.Path[1], properties), "a needed job has no %q", ref.Path[1])
		return
	}
	if job == nil || len(ref.Path) < 3 || !strings.EqualFold(ref.Path[1], "outputs") || ref.Path[2] == "*" || job.Outputs != nil && job.Outputs.Kind != Mapping {
		return
	}
	outputs, known := jobOutputs(job)
	if !known {
		return
	}
	if !containsFold(outputs, ref.Path[2]) {
		hint := suggest(ref.Path[2], outputs)
		if len(outputs) == 0 {
			hint = "add `outputs:` to job " + job.ID
			if job.Uses != nil {
				hint = "add it under `on.workflow_call.outputs` of " + job.Uses.Text
			}
		}
		c.at(SeverityWarning, v, base+ref.Offset, ref.Length, "reference", hint, "job %q has no output %q: this is always empty", job.ID, ref.Path[2])
	}
}

func stepByID(job *Job, id string) *Step {
	for _, s := range job.Steps {
		if s.Declared && strings.EqualFold(s.ID, id) {
			return s
		}
	}
	return nil
}

func containsFold(list []string, s string) bool {
	return slices.ContainsFunc(list, func(l string) bool { return strings.EqualFold(l, s) })
}
