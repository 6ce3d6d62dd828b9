package workflow

// Parse reads a workflow file. It never panics, and its time and memory are
// linear in the size of src, which is bounded. All problems found are given,
// in file order. The Workflow is nil only where src cannot be read as YAML at
// all; else it holds what could be made out, so that Check can go on with it.
func Parse(file string, src []byte) (*Workflow, []Problem) {
	root, problems := readYAML(file, src)
	if root == nil {
		return nil, sortProblems(problems)
	}
	p := &fileParser{collector: collector{file: file, problems: problems}}
	w := &Workflow{File: file, Src: src}
	p.workflow(w, root)
	return w, sortProblems(p.problems)
}

// Validate is Parse, Check and NewPlan of one file: all that can be said about
// it without running it or reading what it uses. The Plan is nil where there are
// errors.
func Validate(file string, src []byte) (*Workflow, *Plan, []Problem) {
	return Load(file, src, nil)
}

// fileParser shapes Values into a Workflow.
type fileParser struct {
	collector
	defaults Defaults        // of the workflow
	noted    map[string]bool // keys a note was written for
}

// maxWorkflowDepth is how many mappings and lists in each other GitHub reads in
// a workflow; in an action it reads more.
const maxWorkflowDepth = 50

// depth points at the first value that is too deep.
func (p *fileParser) depth(root *Value) {
	if root.height <= maxWorkflowDepth {
		return
	}
	v := root
	for range maxWorkflowDepth {
		highest := v
		for _, item := range v.Items {
			if item.height == v.height-1 {
				highest = item
			}
		}
		for _, e := range v.Entries {
			if e.Value.height == v.height-1 {
				highest = e.Value
			}
		}
		v = highest
	}
	p.errorf(v, "limit", "take a level out", "nested deeper than %d levels", maxWorkflowDepth)
}

func (p *fileParser) workflow(w *Workflow, root *Value) {
	if root.Kind != Mapping {
		p.errorf(root, "syntax", "start with `on:` and `jobs:`", "a workflow is a mapping, found %s", describe(root))
		return
	}
	if isAction(root) {
		p.errorf(root, "syntax", "a step of a workflow uses it: `uses: ./PATH`, the path being that of its directory", "this is an action, not a workflow")
		return
	}
	p.depth(root)
	var on, jobs *Value
	for _, e := range root.Entries {
		switch v := e.Value; e.Key.Text {
		case "name":
			w.Name = p.text(e)
		case "description":
			if v := p.text(e); v != nil {
				p.plainText(v, "`description`")
			}
		case "run-name":
			w.RunName = p.text(e)
		case "on":
			on = v
			w.On = p.triggers(v)
			w.On.Pos = e.Key.Pos
		case "env":
			w.Env = p.environment(e)
		case "defaults":
			w.Defaults = p.defaultsOf(e)
			p.defaults = w.Defaults
		case "concurrency":
			w.Concurrency = p.concurrency(e)
		case "budget":
			w.Budget = p.budget(e)
		case "permissions":
			w.Permissions = p.permissions(e)
		case "jobs":
			jobs = v
		default:
			p.unknown(e.Key, "workflow")
		}
	}
	if on == nil {
		p.errorf(root, "missing-key", "say when it runs, for example `on: workflow_dispatch`", "the workflow has no `on:`")
	}
	if jobs == nil {
		p.errorf(root, "missing-key", "add `jobs:` with at least one job", "the workflow has no `jobs:`")
		return
	}
	p.jobs(w, jobs)
}

// unknown reports a key that a block of the language does not have.
func (p *fileParser) unknown(key *Value, name string) {
	p.errorf(key, "unknown-key", suggest(key.Text, keyNames(name)), "unknown key %q in %s", key.Text, language()[name].title)
}

// isNull says that nothing is written where a value is expected.
func isNull(v *Value) bool {
	return v == nil || v.Kind == Scalar && v.Plain == nil && !v.Quoted
}

// mapping takes a mapping, or an expression that gives one.
func (p *fileParser) mapping(e Entry) *Value {
	if p.empty(e) {
		return nil
	}
	if v := e.Value; v.Kind == Mapping || v.isExpression() {
		return p.prepare(v)
	}
	p.errorf(e.Value, "type", "", "`%s` must be a mapping, found %s", e.Key.Text, describe(e.Value))
	return nil
}

// environment takes a mapping of texts.
func (p *fileParser) environment(e Entry) *Value {
	v := p.mapping(e)
	if v == nil {
		return nil
	}
	for _, e := range v.Entries {
		if e.Key.Text == "" {
			p.errorf(e.Key, "type", "give it a name", "a name is empty")
		}
		if e.Value.Kind != Scalar {
			p.errorf(e.Value, "type", "write toJSON text, or one variable for each value", "variable %q must be a text, found %s", e.Key.Text, describe(e.Value))
		}
	}
	return v
}

// isExpression says whether the scalar is one whole ${{ }}.
func (v *Value) isExpression() bool {
	if v.Kind != Scalar {
		return false
	}
	v.tpl = v.template()
	return v.tpl != nil && v.tpl.whole
}

// prepare parses the templates inside v once, for all later evaluations.
func (p *fileParser) prepare(v *Value) *Value {
	if v == nil || v.prepared {
		return v
	}
	v.prepared = true
	v.tpl = v.template()
	for _, item := range v.Items {
		p.prepare(item)
	}
	for _, e := range v.Entries {
		p.prepare(e.Value)
	}
	return v
}

func (p *fileParser) defaultsOf(e Entry) Defaults {
	var d Defaults
	if p.empty(e) {
		return d
	}
	if e.Value.Kind != Mapping {
		p.errorf(e.Value, "type", "", "`defaults` must be a mapping, found %s", describe(e.Value))
		return d
	}
	for _, e := range e.Value.Entries {
		switch e.Key.Text {
		case "run":
			p.runDefaults(e, &d)
		case "runtime":
			d.Runtime = p.runtimeBlock(e)
		case "docker":
			d.Docker = p.dockerBlock(e)
		case "workspace":
			d.Workspace = p.workspaceBlock(e)
		default:
			p.unknown(e.Key, "defaults")
		}
	}
	return d
}

func (p *fileParser) runDefaults(e Entry, d *Defaults) {
	if p.empty(e) {
		return
	}
	if e.Value.Kind != Mapping {
		p.errorf(e.Value, "type", "", "`defaults.run` must be a mapping, found %s", describe(e.Value))
		return
	}
	for _, e := range e.Value.Entries {
		switch e.Key.Text {
		case "shell":
			d.Shell = p.filled(e)
		case "working-directory":
			d.WorkingDirectory = p.filled(e)
		default:
			p.unknown(e.Key, "defaults.run")
		}
	}
}
