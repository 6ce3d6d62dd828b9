package workflow

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// scope is what an expression stands in, as far as it is known before the run.
type scope struct {
	job *jobFacts // nil outside of jobs
	// before is how many steps of the job have ended; -1: not known.
	before int
}

const maxPerValue = 10

// maxExpression is GitHub's bound, in characters, on a text that holds
// expressions: to it such a text is one expression.
const maxExpression = 21_000

// isLiteral says whether a text is one ${{ }} around a text in quotes, which
// GitHub takes as that text, even where no expression may stand.
func isLiteral(t *expr.Template) bool {
	exprs := t.Exprs()
	return t.Whole() && len(exprs) == 1 && exprs[0].IsString()
}

// checkExpressions looks at the syntax of every expression and at what it uses.
func (c *checker) checkExpressions() {
	w := c.w
	top := scope{before: -1}
	c.expressions(w.Name, "name", top)
	c.expressions(w.RunName, "run-name", top)
	c.expressions(w.Env, "env", top)
	c.expressions(w.Concurrency, "concurrency", top)
	c.expressions(w.Budget, "budget", top)
	for _, in := range w.On.Inputs {
		c.expressions(in.Default, "on.workflow_call.inputs.default", top)
	}
	for _, t := range w.On.Events {
		if t.Name != "workflow_call" {
			continue
		}
		for _, out := range entriesOf(t.Filters.Get("outputs")) {
			c.expressions(out.Value.Get("value"), "on.workflow_call.outputs", top)
		}
	}
	c.defaultsExpressions(w.Defaults, "", top)
	for _, job := range w.Jobs {
		c.jobExpressions(job)
	}
}

func (c *checker) defaultsExpressions(d Defaults, prefix string, s scope) {
	c.expressions(d.Shell, prefix+"defaults.run", s)
	c.expressions(d.WorkingDirectory, prefix+"defaults.run", s)
	c.blockExpressions(d.Runtime, d.Docker, d.Workspace, s)
}

func (c *checker) blockExpressions(runtime, docker, workspace *Value, s scope) {
	c.expressions(runtime, "jobs.<job_id>.steps.runtime", s)
	c.expressions(docker, "jobs.<job_id>.steps.docker", s)
	c.expressions(workspace, "jobs.<job_id>.steps.workspace", s)
}

func (c *checker) jobExpressions(job *Job) {
	const in = "jobs.<job_id>."
	s := scope{job: c.facts[job], before: -1}
	c.condition(job.If, in+"if", s)
	c.expressions(job.Name, in+"name", s)
	c.expressions(job.RunsOn, in+"runs-on", s)
	c.expressions(job.Env, in+"env", s)
	c.expressions(job.Concurrency, in+"concurrency", s)
	c.expressions(job.Budget, in+"budget", s)
	c.expressions(job.ContinueOnError, in+"continue-on-error", s)
	c.expressions(job.TimeoutMinutes, in+"timeout-minutes", s)
	c.deploymentExpressions(job.Environment, s)
	for _, i := range job.inert {
		if i.place == "snapshot.if" {
			c.condition(i.v, in+i.place, s)
			continue
		}
		c.expressions(i.v, in+i.place, scope{s.job, len(job.Steps)})
	}
	c.expressions(job.Outputs, in+"outputs", scope{s.job, len(job.Steps)})
	c.defaultsExpressions(job.Defaults, in, s)
	c.blockExpressions(job.Runtime, job.Docker, job.Workspace, s)
	c.expressions(job.With, in+"with", s)
	c.expressions(job.Secrets, in+"secrets", s)
	if job.Strategy != nil {
		c.expressions(job.Strategy.Matrix, in+"strategy", s)
		c.expressions(job.Strategy.FailFast, in+"strategy", s)
		c.expressions(job.Strategy.MaxParallel, in+"strategy", s)
	}
	for _, step := range job.Steps {
		before := step.Index
		if step.HasNeeds {
			before = len(job.Steps)
		}
		c.stepExpressions(step, scope{s.job, before})
	}
}

func (c *checker) deploymentExpressions(v *Value, s scope) {
	const in = "jobs.<job_id>.environment"
	if v == nil || v.Kind != Mapping {
		c.expressions(v, in, s)
		return
	}
	for _, e := range v.Entries {
		if e.Key.Text == "url" {
			c.expressions(e.Value, in+".url", scope{s.job, len(s.job.steps)})
			continue
		}
		c.expressions(e.Value, in, s)
	}
}

func (c *checker) stepExpressions(step *Step, s scope) {
	const in = "jobs.<job_id>.steps."
	c.condition(step.If, in+"if", s)
	for _, at := range []struct {
		key string
		v   *Value
	}{
		{"name", step.Name}, {"run", step.Run}, {"prompt", step.Prompt}, {"prompt-file", step.PromptFile},
		{"with", step.With}, {"env", step.Env}, {"shell", step.Shell}, {"working-directory", step.WorkingDirectory},
		{"timeout-minutes", step.TimeoutMinutes}, {"continue-on-error", step.ContinueOnError}, {"retry", step.Retry}, {"budget", step.Budget},
	} {
		c.expressions(at.v, in+at.key, s)
	}
	inherited := s.job.job.inherited
	c.ownExpressions(step.Runtime, inherited.Runtime, in+"runtime", s)
	c.ownExpressions(step.Docker, inherited.Docker, in+"docker", s)
	c.ownExpressions(step.Workspace, inherited.Workspace, in+"workspace", s)
}

// ownExpressions checks what a step's merged block does not share with others.
func (c *checker) ownExpressions(v, inherited *Value, key string, s scope) {
	switch {
	case v == nil || v == inherited:
	case v.Kind == Mapping && inherited != nil && inherited.Kind == Mapping:
		for _, e := range v.Entries {
			if below := inherited.Get(e.Key.Text); below != e.Value {
				c.expressions(e.Value, key, s)
			}
		}
	default:
		c.expressions(v, key, s)
	}
}

// expressions checks all expressions in v, which stands in the place key.
func (c *checker) expressions(v *Value, key string, s scope) {
	if v == nil {
		return
	}
	for _, item := range v.Items {
		c.expressions(item, key, s)
	}
	for _, e := range v.Entries {
		if c.insertion(e, key) {
			c.expressions(e.Value, key, s)
			continue
		}
		c.expressions(e.Key, key, s)
		c.expressions(e.Value, key, s)
	}
	t := v.template()
	if t == nil {
		return
	}
	if t.err != nil {
		c.evalError("expression", t.err)
		return
	}
	if p := c.place(key); len(p.contexts) == 0 && !isLiteral(t.tpl) {
		c.at(SeverityError, v, strings.Index(v.Text, "${{"), 3, "expression", "write the text itself", "expressions cannot stand in `%s`", p.key)
		return
	}
	if n := utf8.RuneCountInString(v.Text); n > maxExpression && !c.place(key).ours() {
		c.errorf(v, "limit", "put the text into a file, or hand the value over in `env`", "a text with expressions has %d characters, at most %d are allowed", n, maxExpression)
	}
	before := len(c.problems)
	for _, e := range t.tpl.Exprs() {
		if len(c.problems)-before >= maxPerValue {
			return // each costs time in proportion to the text
		}
		c.expression(v, e, e.Base(), c.place(key), s)
	}
}

// insertion says whether the key of e is ${{ insert }} in a place that may have
// it, and looks at what is inserted.
func (c *checker) insertion(e Entry, key string) bool {
	if !e.Key.isInsert() || len(c.place(key).contexts) == 0 {
		return false
	}
	if e.Value.Kind != Mapping && !e.Value.isExpression() {
		c.errorf(e.Value, "type", "write an expression that gives a mapping, such as ${{ fromJSON(…) }}", "expected a mapping to insert, found %s", describe(e.Value))
	}
	return true
}

// condition checks what stands after `if:`.
func (c *checker) condition(v *Value, key string, s scope) {
	if v == nil || strings.TrimSpace(v.Text) == "" {
		return
	}
	t := v.conditionTemplate()
	if t.err != nil {
		rule := "expression"
		if t.tpl != nil {
			rule = "condition"
		}
		c.evalError(rule, t.err)
		return
	}
	c.expression(v, t.cond, t.base, c.place(key), s)
}

func (c *checker) evalError(rule string, e *EvalError) {
	c.add(SeverityError, rule, e.Pos, e.Length, e.Hint, e.Msg)
}

// at reports something about a part of the text of v.
func (c *checker) at(sev Severity, v *Value, offset, length int, rule, hint, format string, args ...any) {
	if c.full() {
		return
	}
	pos, n := v.span(offset, length)
	c.add(sev, rule, pos, n, hint, fmt.Sprintf(format, args...))
}

func (c *checker) expression(v *Value, e *expr.Expr, base int, p place, s scope) {
	for _, call := range e.Calls() {
		switch call.Name {
		case "success", "failure", "always", "cancelled":
			switch {
			case !p.status:
				c.at(SeverityError, v, base+call.Offset, call.Length, "expression", "it works in `if:` only", "function %s is not available in `%s`", call.Name, p.key)
			case call.Args > 0 && (strings.HasSuffix(p.key, "steps.if") || call.Name == "always" || call.Name == "cancelled"):
				c.at(SeverityError, v, base+call.Offset, call.Length, "expression", "write "+call.Name+"()", "function %s takes no arguments in `%s`", call.Name, p.key)
			}
		case "hashfiles":
			if !p.hashFiles {
				c.at(SeverityError, v, base+call.Offset, call.Length, "expression", "use it in a step and pass the result on as an output", "function hashFiles is not available in `%s`", p.key)
			}
		}
	}
	for _, ref := range e.Refs() {
		switch {
		case !slices.Contains(contextNames(), ref.Name):
			hint := suggest(ref.Name, p.contexts)
			if ref.Name == "insert" {
				hint = "${{ insert }} stands alone, as a key of a mapping"
			}
			c.at(SeverityError, v, base+ref.Offset, len(ref.Name), "expression", hint, "unknown context %q", e.Source()[ref.Offset:ref.Offset+len(ref.Name)])
		case !p.has(ref.Name):
			hint := "no context is available there"
			if len(p.contexts) > 0 {
				hint = "available there: " + strings.Join(p.contexts, ", ")
			}
			c.at(SeverityError, v, base+ref.Offset, len(ref.Name), "expression", hint, "context %q is not available in `%s`", ref.Name, p.key)
		default:
			c.reference(v, ref, base, p, s)
		}
	}
}
