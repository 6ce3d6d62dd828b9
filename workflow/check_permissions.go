package workflow

import (
	"slices"
	"strings"
)

// grant is what a workflow is allowed where it is called: the caller's
// `permissions`; nil is what the repository's settings give, which only GitHub
// knows.
type grant struct {
	w       *Workflow
	allowed *Value
}

// permissions looks for jobs of called workflows that ask more of GitHub's token
// than their callers allow: GitHub does not start such a run.
func (l *loader) permissions(g grant, seen map[grant]bool) {
	if seen[g] {
		return
	}
	seen[g] = true
	inherited := firstOf(g.w.Permissions, g.allowed)
	for _, job := range g.w.Jobs {
		if job.Called == nil {
			continue
		}
		allowed := firstOf(job.Permissions, inherited)
		if allowed != nil {
			l.excess(g.w, job, allowed)
		}
		l.permissions(grant{job.Called, allowed}, seen)
	}
}

// excess reports what the workflow that job calls asks for beyond allowed.
func (l *loader) excess(w *Workflow, job *Job, allowed *Value) {
	c := collector{file: w.File}
	report := func(who string, asked *Value) {
		if more := beyond(asked, allowed); len(more) > 0 {
			c.named(Name{job.ID, job.Pos}, "permissions", "add it to the `permissions` of job "+job.ID+", or of the workflow",
				"%s asks for more permissions than it is allowed here: %s", who, strings.Join(more, ", "))
		}
	}
	report("workflow "+job.Called.File, job.Called.Permissions)
	for _, inner := range job.Called.Jobs {
		report("job "+inner.ID+" of workflow "+job.Called.File, inner.Permissions)
	}
	l.report(w.File, c.problems)
}

// beyond lists the permissions that asked has above allowed, by scope.
func beyond(asked, allowed *Value) []string {
	var more []string
	if asked == nil {
		return nil
	}
	order := []string{"none", "read", "write"}
	for _, k := range permissionBlock().keys {
		want, have := permission(asked, k), permission(allowed, k)
		if slices.Index(order, want) > slices.Index(order, have) {
			more = append(more, k.name+": "+want)
		}
	}
	return more
}

// permission is the level that `permissions` give to a scope.
func permission(v *Value, scope key) string {
	if v.Kind == Mapping {
		if level := v.Get(scope.name); level != nil {
			return level.Text
		}
		return "none"
	}
	if level := strings.TrimSuffix(v.Text, "-all"); slices.Contains(scope.shape.names, level) {
		return level
	}
	if v.Text == "write-all" {
		return "read" // of what knows no write
	}
	return "none"
}
