package workflow

import "github.com/herd-runner/herd-runner/workflow/expr"

// Concurrency is an evaluated `concurrency:`.
type Concurrency struct {
	Group            string // never empty
	CancelInProgress bool
	Queue            string // "single" or "max"
}

// The values of `queue:`.
const (
	queueSingle = "single"
	queueMax    = "max"
)

func queues() []string { return []string{queueSingle, queueMax} }

// EvalConcurrency evaluates a `concurrency:`, which is not nil. Errors are
// *EvalError.
func EvalConcurrency(v *Value, env expr.Env) (Concurrency, error) {
	c := Concurrency{Queue: queueSingle}
	group, queue := v, (*Value)(nil)
	if v.Kind == Mapping {
		group = nil
		for _, e := range v.Entries {
			var err error
			switch e.Key.Text {
			case "group":
				group = e.Value
			case "cancel-in-progress":
				c.CancelInProgress, err = EvalBool(e.Value, env)
			case "queue":
				queue = e.Value
				c.Queue, err = EvalString(e.Value, env)
			}
			if err != nil {
				return Concurrency{}, err
			}
		}
	}
	var err error
	if c.Group, err = EvalString(group, env); err != nil {
		return Concurrency{}, err
	}
	switch {
	case c.Group == "":
		if group == nil {
			group = v
		}
		return Concurrency{}, evalErrorf(group, "give it another value for this case: ${{ github.head_ref || github.run_id }}", "the concurrency group is empty")
	case c.Queue != queueSingle && c.Queue != queueMax:
		return Concurrency{}, evalErrorf(queue, suggest(c.Queue, queues()), "unknown queue %q", c.Queue)
	case c.Queue == queueMax && c.CancelInProgress:
		return Concurrency{}, evalErrorf(queue, "keep one of them", "`queue: max` and `cancel-in-progress: true` cannot stand together")
	}
	return c, nil
}
