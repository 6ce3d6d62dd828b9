package workflow

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// Call is what a reusable workflow takes and gives.
type Call struct {
	Inputs  []*Input
	Secrets []CallSecret
	Outputs []Output

	jobs         int // of it and all it calls, each call counted
	depth        int // levels of calls below it
	writesShared bool
}

// CallSecret is a secret that a caller gives.
type CallSecret struct {
	Name     string
	Required bool
}

// callOf reads what `on.workflow_call` says; nil where the workflow cannot be
// called.
func callOf(w *Workflow) *Call {
	i := slices.IndexFunc(w.On.Events, func(t Trigger) bool { return t.Name == "workflow_call" })
	if i < 0 {
		return nil
	}
	c := &Call{}
	filters := w.On.Events[i].Filters
	p := &fileParser{} // what is wrong was reported when the file was parsed
	for _, e := range entriesOf(filters.Get("inputs")) {
		c.Inputs = append(c.Inputs, p.input(e, "workflow_call"))
	}
	for _, e := range entriesOf(filters.Get("secrets")) {
		required := e.Value.Get("required")
		c.Secrets = append(c.Secrets, CallSecret{e.Key.Text, required != nil && required.Plain == true})
	}
	for _, e := range entriesOf(filters.Get("outputs")) {
		c.Outputs = append(c.Outputs, Output{Name{e.Key.Text, e.Key.Pos}, e.Value.Get("value")})
	}
	return c
}

// call loads the workflow that a job calls, once for all who call it. chain are
// the files that call each other down to the job.
func (l *loader) call(job *Job, chain []string) {
	if job.Uses == nil {
		return
	}
	file, ok := localPath(job.Uses.Text)
	if !ok {
		return
	}
	switch {
	case slices.Contains(chain, file):
		l.at(job.Uses, "uses", "remove one of these calls", "workflows call each other: %s", cyclePath(append(slices.Clone(chain), file)))
		return
	case len(chain) == maxNested:
		l.at(job.Uses, "limit", "", "workflows call each other more than %d levels deep", maxNested)
		return
	}
	w := l.workflows[file]
	if w == nil {
		if w = l.called(job, file, chain); w == nil {
			return
		}
	}
	if w.Call == nil {
		l.at(job.Uses, "uses", "add `workflow_call:` to its `on:`", "workflow %s cannot be called", file)
		return
	}
	if len(chain)+w.Call.depth >= maxNested {
		l.at(job.Uses, "limit", "", "workflows call each other more than %d levels deep", maxNested)
		return
	}
	job.Called = w
}

// called reads a workflow that is called, and what it uses itself.
func (l *loader) called(job *Job, file string, chain []string) *Workflow {
	f := l.open(file)
	switch {
	case errors.Is(f.err, fs.ErrNotExist):
		l.at(job.Uses, "uses", "the path is that of a file, from the project's top", "there is no workflow %s", file)
		return nil
	case f.err != nil:
		l.at(job.Uses, "uses", "", "the workflow cannot be read: %v", f.err)
		return nil
	case f.root == nil:
		return nil
	}
	w := &Workflow{File: file, Src: f.src}
	p := &fileParser{collector: collector{file: file}}
	p.workflow(w, f.root)
	l.report(file, p.problems)
	w.Call = callOf(w)
	l.workflow(w, append(slices.Clone(chain), file))
	problems := Check(w)
	if !HasErrors(problems) {
		_, more := NewPlan(w, "")
		problems = append(problems, more...)
	}
	l.report(file, problems)
	if w.Call != nil {
		for _, inner := range w.Jobs {
			w.Call.jobs++
			if inner.Called != nil {
				w.Call.depth = max(w.Call.depth, 1+inner.Called.Call.depth)
				w.Call.jobs = min(w.Call.jobs+inner.Called.Call.jobs, maxExpanded)
			}
			w.Call.writesShared = w.Call.writesShared || sharedWriter(inner) != nil
		}
	}
	l.workflows[file] = w
	return w
}

// checkCalls looks at jobs that call a workflow, and at what they give to it.
func (c *checker) checkCalls() {
	jobs := 0
	for _, job := range c.w.Jobs {
		if job.Uses == nil {
			for key, v := range map[string]*Value{"with": job.With, "secrets": job.Secrets} {
				if v != nil {
					c.errorf(v, "call", "remove it, or say which workflow the job `uses`", "`%s` of a job belongs to `uses`", key)
				}
			}
			continue
		}
		c.beside(job)
		if job.Called == nil {
			continue
		}
		c.callInputs(job)
		c.callSecrets(job)
		if jobs += job.Called.Call.jobs; jobs >= maxExpanded {
			c.errorf(job.Uses, "limit", "call fewer of them", "the workflow calls more than %d jobs altogether", maxExpanded)
			return
		}
	}
}

// beside reports the keys that cannot stand in a job that calls a workflow: they
// belong to the jobs of that.
func (c *checker) beside(job *Job) {
	const hint = "say it in the workflow that is called"
	if len(job.Steps) > 0 {
		c.named(Name{job.ID, job.Pos}, "call", "keep one of them", "a job cannot have both `steps` and `uses`")
	}
	for _, at := range []struct {
		key string
		v   *Value
	}{
		{"runs-on", job.RunsOn}, {"env", job.Env}, {"continue-on-error", job.ContinueOnError}, {"timeout-minutes", job.TimeoutMinutes},
		{"environment", job.Environment}, {"outputs", job.Outputs}, {"runtime", job.Runtime}, {"docker", job.Docker}, {"workspace", job.Workspace},
		{"defaults", firstOf(job.Defaults.Shell, job.Defaults.WorkingDirectory, job.Defaults.Runtime, job.Defaults.Docker, job.Defaults.Workspace)},
	} {
		if at.v != nil {
			c.errorf(at.v, "call", hint, "`%s` cannot stand in a job that calls a workflow", at.key)
		}
	}
}

func firstOf(values ...*Value) *Value {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

func (c *checker) callInputs(job *Job) {
	declared := job.Called.Call.Inputs
	names := make([]string, len(declared))
	for i, in := range declared {
		names[i] = in.Name
	}
	if job.With != nil && job.With.Kind != Mapping {
		return // an expression gives them
	}
	for _, e := range entriesOf(job.With) {
		if e.Key.template() == nil && !containsFold(names, e.Key.Text) {
			c.errorf(e.Key, "input", suggest(e.Key.Text, names), "workflow %s has no input %q", job.Uses.Text, e.Key.Text)
		}
	}
	for _, in := range declared {
		v := getFold(job.With, in.Name)
		switch {
		case v == nil && in.Required && keysKnown(job.With):
			c.errorf(job.Uses, "input", "add `with: {"+in.Name+": …}`", "workflow %s requires the input %q", job.Uses.Text, in.Name)
		case v != nil && isStatic(v):
			if _, err := in.take(v, v.Plain); err != nil {
				c.problems = append(c.problems, Problems(c.file, err)...)
			}
		}
	}
}

func (c *checker) callSecrets(job *Job) {
	if job.InheritsSecrets() || job.Secrets != nil && job.Secrets.Kind != Mapping {
		return
	}
	var names []string
	for _, s := range job.Called.Call.Secrets {
		names = append(names, s.Name)
		if s.Required && keysKnown(job.Secrets) && !hasKeyFold(job.Secrets, s.Name) {
			c.errorf(job.Uses, "secret", "add `secrets: {"+s.Name+": …}`, or `secrets: inherit`", "workflow %s requires the secret %q", job.Uses.Text, s.Name)
		}
	}
	for _, e := range entriesOf(job.Secrets) {
		if e.Key.template() == nil && !containsFold(names, e.Key.Text) {
			c.errorf(e.Key, "secret", suggest(e.Key.Text, names), "workflow %s has no secret %q", job.Uses.Text, e.Key.Text)
		}
	}
}

func getFold(v *Value, name string) *Value {
	for _, e := range entriesOf(v) {
		if strings.EqualFold(e.Key.Text, name) {
			return e.Value
		}
	}
	return nil
}

// take gives the value of an input of a called workflow. Types are strict, as at
// GitHub: a text is no boolean.
func (in *Input) take(at *Value, x expr.Value) (expr.Value, error) {
	switch in.Type {
	case "boolean":
		if _, ok := x.(bool); !ok {
			return nil, evalErrorf(at, "write true or false without quotes; fromJSON makes a boolean of a text", "input %q must be true or false, found %s", in.Name, kindName(x))
		}
		return x, nil
	case "number":
		if _, ok := x.(float64); !ok {
			return nil, evalErrorf(at, "write a number without quotes; fromJSON makes a number of a text", "input %q must be a number, found %s", in.Name, kindName(x))
		}
		return x, nil
	}
	return textOf(at, x)
}

// EvalCallInputs gives the `inputs` of the workflow that job calls: what job says
// `with`, evaluated with caller, then the defaults, evaluated with called.
// Errors are *EvalError.
func EvalCallInputs(job *Job, caller, called expr.Env) (*expr.Object, error) {
	given := expr.NewObject()
	if job.With != nil {
		v, err := Evaluate(job.With, caller)
		if err != nil {
			return nil, err
		}
		if o, ok := v.(*expr.Object); ok {
			given = o
		}
	}
	inputs := expr.NewObject()
	for _, in := range job.Called.Call.Inputs {
		x, ok := given.Get(in.Name)
		at := getFold(job.With, in.Name)
		if at == nil {
			at = job.Uses
		}
		if !ok && in.Default != nil {
			var err error
			if x, err = Evaluate(in.Default, called); err != nil {
				return nil, err
			}
			at, ok = in.Default, true
		}
		switch {
		case !ok && in.Required:
			return nil, evalErrorf(job.Uses, "", "workflow %s requires the input %q", job.Uses.Text, in.Name)
		case !ok:
			inputs.Set(in.Name, zeroInput(in.Type))
			continue
		}
		x, err := in.take(at, x)
		if err != nil {
			return nil, err
		}
		inputs.Set(in.Name, x)
	}
	return inputs, nil
}
