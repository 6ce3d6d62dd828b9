package workflow

import "github.com/herd-runner/herd-runner/workflow/expr"

// Reference is a use of a context in an expression of the file.
type Reference struct {
	Name   string   // of the context, lower-case
	Path   []string // static properties under it
	Pos    Pos
	Length int // characters
}

// References lists the contexts that a workflow's own values, the given jobs and
// their steps use, in that order. Values that several steps inherit are listed
// once.
func References(w *Workflow, jobs []*Job) []Reference {
	var refs []Reference
	seen := map[*Value]bool{}
	take := func(values ...*Value) {
		for _, v := range values {
			refs = v.references(refs, seen)
		}
	}
	take(w.Env, w.Budget, w.Defaults.Shell, w.Defaults.WorkingDirectory)
	for _, job := range jobs {
		refs = job.If.conditionReferences(refs)
		take(job.Name, job.Env, job.Defaults.Shell, job.Defaults.WorkingDirectory, job.ContinueOnError, job.TimeoutMinutes, job.Budget, job.Outputs, job.With, job.Secrets)
		if job.Strategy != nil {
			take(job.Strategy.Matrix, job.Strategy.FailFast, job.Strategy.MaxParallel)
		}
		for _, s := range job.Steps {
			refs = s.If.conditionReferences(refs)
			take(s.Name, s.Run, s.Prompt, s.PromptFile, s.Env, s.Shell, s.WorkingDirectory,
				s.TimeoutMinutes, s.ContinueOnError, s.With, s.Retry, s.Budget, s.Runtime, s.Docker, s.Workspace)
		}
	}
	return refs
}

// References lists the contexts that the expressions in v use; none of nil.
func (v *Value) References() []Reference { return v.references(nil, map[*Value]bool{}) }

func (v *Value) references(refs []Reference, seen map[*Value]bool) []Reference {
	if v == nil || seen[v] {
		return refs
	}
	seen[v] = true
	for _, item := range v.Items {
		refs = item.references(refs, seen)
	}
	for _, e := range v.Entries {
		refs = e.Key.references(refs, seen)
		refs = e.Value.references(refs, seen)
	}
	t := v.template()
	if t == nil || t.err != nil {
		return refs
	}
	for _, e := range t.tpl.Exprs() {
		for _, ref := range e.Refs() {
			refs = append(refs, v.reference(ref, e.Base()))
		}
	}
	return refs
}

func (v *Value) conditionReferences(refs []Reference) []Reference {
	if v == nil {
		return refs
	}
	t := v.conditionTemplate()
	if t == nil || t.err != nil || t.cond == nil {
		return refs
	}
	for _, ref := range t.cond.Refs() {
		refs = append(refs, v.reference(ref, t.base))
	}
	return refs
}

func (v *Value) reference(ref expr.Ref, base int) Reference {
	pos, n := v.span(base+ref.Offset, ref.Length)
	return Reference{Name: ref.Name, Path: ref.Path, Pos: pos, Length: n}
}
