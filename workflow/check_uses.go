package workflow

import (
	"slices"
	"strings"
	"sync"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

func newActionChecker(a *Action) *checker {
	c := newChecker(&Workflow{File: a.File, On: Triggers{Inputs: a.Inputs}, Jobs: []*Job{a.job}})
	c.action = a
	c.facts[a.job].known = false // the matrix is the caller's
	return c
}

// checkAction finds what is wrong in an action beyond its shape.
func checkAction(a *Action) []Problem {
	c := newActionChecker(a)
	c.checkIDs()
	top := scope{before: -1}
	for _, in := range a.Inputs {
		c.expressions(in.Default, "inputs.default", top)
	}
	for _, step := range a.Steps {
		c.stepExpressions(step, scope{c.facts[a.job], step.Index})
	}
	for _, o := range a.Outputs {
		c.expressions(o.Value, "outputs.value", scope{c.facts[a.job], len(a.Steps)})
	}
	c.checkSteps()
	c.checkUses()
	c.checkNumbers()
	c.checkBlocks()
	c.checkUntrusted()
	return sortProblems(c.problems)
}

// The contexts of an action, from the `context` of GitHub's action schema.
const (
	defaultContexts = "github strategy matrix job runner"
	actionContexts  = defaultContexts + " inputs steps env"
)

// actionPlaces gives the places in an action by the key that the same thing has
// in a workflow.
var actionPlaces = sync.OnceValue(func() map[string]place {
	m := map[string]place{
		"inputs.default": {key: "inputs.default", contexts: strings.Fields(defaultContexts), hashFiles: true},
		"outputs.value":  {key: "outputs.value", contexts: strings.Fields(actionContexts)},
	}
	for key, p := range places() {
		if name, ok := strings.CutPrefix(key, "jobs.<job_id>.steps."); ok {
			m[key] = place{key: "runs.steps." + name, contexts: strings.Fields(actionContexts), status: p.status, hashFiles: true}
		}
	}
	return m
})

// place gives what may stand in the key of what is checked.
func (c *checker) place(key string) place {
	if c.action != nil {
		return actionPlaces()[key]
	}
	return places()[key]
}

// owner names what the steps of job belong to.
func (c *checker) owner(job *Job) string {
	if c.action != nil {
		return "the action"
	}
	return "job \"" + job.ID + "\""
}

// checkUses looks at steps that use an action, and at what they give to it.
func (c *checker) checkUses() {
	for _, job := range c.w.Jobs {
		for _, s := range job.Steps {
			switch {
			case s.Uses == nil:
				if s.With != nil && !s.reported {
					c.errorf(s.With, "step", "remove it, or say what it `uses`", "`with` belongs to `uses`")
				}
				continue
			case s.Shell != nil:
				c.errorf(s.Shell, "step", "remove it", "`shell` belongs to `run`; a step that uses an action has none")
			case s.WorkingDirectory != nil:
				c.errorf(s.WorkingDirectory, "step", "remove it", "`working-directory` belongs to `run`; a step that uses an action has none")
			}
			switch {
			case s.Action != nil:
				c.actionInputs(s)
			case s.IsCheckout():
				c.checkoutInputs(s)
			}
		}
	}
}

// warning reports at v what GitHub takes and does nothing about.
func (c *checker) warning(v *Value, rule, hint, message string) {
	if !c.full() {
		c.add(SeverityWarning, rule, v.Pos, v.width(), hint, message)
	}
}

// actionInputs compares what a step gives to an action with what that declares.
// GitHub passes over what does not fit, so these are warnings.
func (c *checker) actionInputs(s *Step) {
	names := make([]string, len(s.Action.Inputs))
	for i, in := range s.Action.Inputs {
		names[i] = in.Name
	}
	for _, e := range entriesOf(s.With) {
		if e.Key.template() == nil && !containsFold(names, e.Key.Text) {
			c.warning(e.Key, "input", suggest(e.Key.Text, names), "action "+s.Uses.Text+" has no input \""+e.Key.Text+"\"")
		}
	}
	if !keysKnown(s.With) {
		return
	}
	for _, in := range s.Action.Inputs {
		if in.Required && in.Default == nil && !hasKeyFold(s.With, in.Name) {
			c.warning(s.Uses, "input", "add `with: {"+in.Name+": …}`", "action "+s.Uses.Text+" requires the input \""+in.Name+"\", which is empty")
		}
	}
}

// keysKnown says whether no expression decides which keys a mapping has.
func keysKnown(v *Value) bool {
	return v == nil || v.Kind == Mapping && !slices.ContainsFunc(v.Entries, func(e Entry) bool { return e.Key.template() != nil })
}

func hasKeyFold(v *Value, name string) bool {
	return slices.ContainsFunc(entriesOf(v), func(e Entry) bool { return strings.EqualFold(e.Key.Text, name) })
}

// checkoutOutputs are the outputs of actions/checkout.
func checkoutOutputs() []string { return []string{"ref", "commit"} }

func checkoutInputs() []string {
	return []string{"repository", "ref", "token", "ssh-key", "ssh-known-hosts", "ssh-strict", "ssh-user", "persist-credentials", "path", "clean",
		"filter", "sparse-checkout", "sparse-checkout-cone-mode", "fetch-depth", "fetch-tags", "show-progress", "lfs", "submodules",
		"set-safe-directory", "github-server-url", "allow-unsafe-pr-checkout"}
}

// checkoutInputs looks at what actions/checkout is asked for: the project is
// there already, another one or another place is not to be had.
func (c *checker) checkoutInputs(s *Step) {
	for _, e := range entriesOf(s.With) {
		key, v := strings.ToLower(e.Key.Text), e.Value
		switch {
		case e.Key.template() != nil:
		case !slices.Contains(checkoutInputs(), key):
			c.warning(e.Key, "input", suggest(key, checkoutInputs()), "actions/checkout has no input \""+e.Key.Text+"\"")
		case key == "repository" && v.Text != "" && v.template() == nil:
			c.errorf(v, "unsupported", "leave it out for the project itself; use `git clone` in a `run:` for another repository", "checking out another repository is not there yet")
		case key == "path" && v.Text != "" && v.Text != "." && v.template() == nil:
			c.errorf(v, "unsupported", "leave it out: steps start in the project's top", "checking out into another directory is not there yet")
		case key == "ref" && v.Text != "":
			c.warning(v, "input", "check the ref out before the run, or use `git` in a `run:`", "the project stays as it is: `ref` has no effect yet")
		}
	}
}

// actionOutput looks at a use of an output of a step that uses an action.
func (c *checker) actionOutput(s *Step, ref expr.Ref, fail func(string, string, ...any)) {
	if s.Uses == nil || len(ref.Path) < 3 || !strings.EqualFold(ref.Path[1], "outputs") || ref.Path[2] == "*" {
		return
	}
	names := checkoutOutputs()
	switch {
	case s.Action != nil:
		names = s.Action.outputNames()
	case !s.IsCheckout():
		return
	}
	if !containsFold(names, ref.Path[2]) {
		fail(suggest(ref.Path[2], names), "action %s has no output %q", s.Uses.Text, ref.Path[2])
	}
}

// jobOutputs are the names of a job's outputs; known is false where an
// expression or a file that was not read decides.
func jobOutputs(job *Job) (names []string, known bool) {
	if job.Uses != nil {
		if job.Called == nil {
			return nil, false
		}
		for _, o := range job.Called.Call.Outputs {
			names = append(names, o.Name.Value)
		}
		return names, true
	}
	if isolated(job) {
		names = workOutputs()
	}
	for _, e := range entriesOf(job.Outputs) {
		if e.Key.template() != nil {
			return nil, false
		}
		names = append(names, e.Key.Text)
	}
	return names, true
}
