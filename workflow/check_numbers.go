package workflow

import "github.com/herd-runner/herd-runner/workflow/expr"

// checkNumbers looks at timeouts, booleans and counts that hold no expression.
func (c *checker) checkNumbers() {
	none := expr.Env{}
	for _, job := range c.w.Jobs {
		c.static(job.TimeoutMinutes, func(v *Value) error { _, err := EvalTimeout(v, none); return err })
		c.staticBool(job.ContinueOnError)
		if s := job.Strategy; s != nil {
			c.staticBool(s.FailFast)
			c.static(s.MaxParallel, func(v *Value) error { _, err := EvalMaxParallel(v, none); return err })
		}
		for _, s := range job.Steps {
			c.static(s.TimeoutMinutes, func(v *Value) error { _, err := EvalTimeout(v, none); return err })
			c.staticBool(s.ContinueOnError)
		}
	}
}

func (c *checker) staticBool(v *Value) {
	c.static(v, func(v *Value) error { _, err := EvalBool(v, expr.Env{}); return err })
}

func (c *checker) static(v *Value, check func(*Value) error) {
	if v == nil || !isStatic(v) {
		return
	}
	c.problems = append(c.problems, Problems(c.file, check(v))...)
}

// EvalMaxParallel evaluates a `max-parallel:`; nil gives 0, which is no limit.
func EvalMaxParallel(v *Value, env expr.Env) (int, error) {
	if v == nil {
		return 0, nil
	}
	n, err := EvalNumber(v, env)
	if err != nil {
		return 0, err
	}
	if n < 1 || n > 1_000_000 || n != float64(int(n)) {
		return 0, evalErrorf(v, "write a whole number from 1", "`max-parallel` cannot be %s", expr.String(n))
	}
	return int(n), nil
}
