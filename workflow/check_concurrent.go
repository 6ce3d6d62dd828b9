package workflow

import (
	"slices"
	"strconv"
	"strings"
)

// checkConcurrent looks at what steps say of each other: needs, wait, cancel.
func (c *checker) checkConcurrent() {
	for _, job := range c.w.Jobs {
		ids := stepsByID(job)
		for _, s := range job.Steps {
			c.checkControl(s)
			for _, n := range s.Wait {
				c.backgroundOf(ids, s, n, "wait")
			}
			if s.Cancel != nil {
				c.backgroundOf(ids, s, *s.Cancel, "cancel")
			}
			for _, n := range s.Needs {
				c.stepNeed(ids, s, n)
			}
		}
		c.checkStepCycles(job, ids)
	}
}

// stepsByID are the steps of a job by their id in lower case; the first of two
// with the same id.
func stepsByID(job *Job) map[string]*Step {
	ids := make(map[string]*Step, len(job.Steps))
	for _, s := range job.Steps {
		if key := strings.ToLower(s.ID); ids[key] == nil {
			ids[key] = s
		}
	}
	return ids
}

func (c *checker) checkControl(s *Step) {
	if !s.IsControl() {
		return
	}
	at := Name{s.ID, s.Pos}
	if s.Background || s.HasNeeds {
		c.named(at, "step", "remove it", "a `wait`, `wait-all` or `cancel` step cannot be in the background or have `needs`")
	}
	for _, v := range []*Value{s.Env, s.Shell, s.WorkingDirectory, s.Retry, s.ContinueOnError, s.TimeoutMinutes} {
		if v != nil {
			c.errorf(v, "step", "only `name`, `id` and `if` may stand beside it", "a `wait`, `wait-all` or `cancel` step runs nothing itself")
		}
	}
}

// backgroundOf checks that n is an earlier background step.
func (c *checker) backgroundOf(ids map[string]*Step, s *Step, n Name, key string) {
	other := ids[strings.ToLower(n.Value)]
	switch {
	case other == nil:
		c.named(n, "step", suggest(n.Value, declaredIDs(ids, func(o *Step) bool { return o.Background })), "`%s` names the step %q, which does not exist", key, n.Value)
	case !other.Background:
		c.named(n, "step", "add `background: true` to it", "`%s` names the step %q, which does not run in the background", key, n.Value)
	case other.Index > s.Index:
		c.named(n, "step", "move this step below it", "`%s` names the step %q, which comes later", key, n.Value)
	}
}

func (c *checker) stepNeed(ids map[string]*Step, s *Step, n Name) {
	other := ids[strings.ToLower(n.Value)]
	switch {
	case other == nil:
		c.named(n, "needs", suggest(n.Value, declaredIDs(ids, func(o *Step) bool { return o != s })), "this step needs %q, which does not exist in its job", n.Value)
	case other == s:
		c.named(n, "needs", "remove it", "this step needs itself")
	case other.Background:
		c.named(n, "needs", "wait for it: `- wait: "+n.Value+"`, and need that step", "this step needs %q, which runs in the background", n.Value)
	}
}

func declaredIDs(ids map[string]*Step, want func(*Step) bool) []string {
	var list []string
	for _, s := range ids {
		if s.Declared && want(s) {
			list = append(list, s.ID)
		}
	}
	slices.Sort(list)
	return list
}

// checkStepCycles reports steps that wait for each other, each cycle at the
// `needs` entry that closes it. The step before is waited for too, where a
// step has no `needs`.
func (c *checker) checkStepCycles(job *Job, ids map[string]*Step) {
	if !slices.ContainsFunc(job.Steps, func(s *Step) bool { return len(s.Needs) > 0 }) {
		return
	}
	const open, done = 1, 2
	type frame struct {
		step *Step
		next int
	}
	state := make(map[*Step]int, len(job.Steps))
	cycles := 0
	for _, root := range job.Steps {
		if state[root] != 0 {
			continue
		}
		state[root] = open
		for stack := []frame{{step: root}}; len(stack) > 0; {
			top := &stack[len(stack)-1]
			after := stepsBefore(job, ids, top.step)
			if top.next == len(after) {
				state[top.step] = done
				stack = stack[:len(stack)-1]
				continue
			}
			other := after[top.next]
			top.next++
			switch {
			case other == top.step:
			case state[other] == 0:
				state[other] = open
				stack = append(stack, frame{step: other})
			case state[other] == open:
				var path []string
				at := Name{top.step.ID, top.step.Pos}
				for _, f := range stack {
					if len(path) == 0 && f.step != other {
						continue
					}
					path = append(path, f.step.ID)
					for _, n := range f.step.Needs {
						at = n
					}
				}
				if cycles++; cycles <= maxCycles {
					c.named(at, "needs", "remove one of these needs", "steps wait for each other: %s", cyclePath(append(path, other.ID)))
				}
			}
		}
	}
}

// stepsBefore are the steps that s starts after.
func stepsBefore(job *Job, ids map[string]*Step, s *Step) []*Step {
	var before []*Step
	if s.HasNeeds {
		for _, n := range s.Needs {
			if other := ids[strings.ToLower(n.Value)]; other != nil {
				before = append(before, other)
			}
		}
		return before
	}
	for i := s.Index - 1; i >= 0; i-- {
		if !job.Steps[i].Background {
			before = append(before, job.Steps[i])
			break
		}
	}
	for _, n := range s.Wait {
		if other := ids[strings.ToLower(n.Value)]; other != nil {
			before = append(before, other)
		}
	}
	return before
}

// checkParallelAgents looks for two agent steps of one job that may write into
// one workspace at the same time.
func (c *checker) checkParallelAgents(job *Job) {
	if !job.IsConcurrent() {
		return
	}
	ended := endedBefore(job)
	together := func(writes func(*Step) bool, hint, where string) {
		var writers []*Step
		for _, s := range job.Steps {
			if !writes(s) {
				continue
			}
			for _, w := range writers {
				if !ended(w, s) && !ended(s, w) {
					c.add(SeverityError, "workspace", s.Pos, 1, hint,
						"this agent and the one of step "+strconv.Quote(w.ID)+" may write into "+where+" at the same time")
					break
				}
			}
			writers = append(writers, s)
		}
	}
	together(writesShared, "say `workspace: isolated` (a clone of its own) at the steps, `workspace: ro` where an agent only reads, or order them with `needs` or `wait`", "the shared workspace")
	together(writesClone, "say `workspace: isolated` at each of the steps, for a clone of its own, or order them with `needs` or `wait`", "the workspace of their job")
}

// endedBefore tells of two steps of a job whether the first has ended whenever
// the second starts.
func endedBefore(job *Job) func(first, second *Step) bool {
	nodes, _ := (&Plan{}).lowerSteps(&Node{Kind: JobGate}, &Leg{Job: job})
	before := make([]bitset, len(nodes)) // by step: all that has ended when it starts
	var ancestors func(n *Node) bitset
	ancestors = func(n *Node) bitset {
		i := n.Step.Index
		if before[i] != nil {
			return before[i]
		}
		before[i] = newBitset(len(nodes))
		for _, need := range n.Needs {
			if need.Step != nil {
				before[i].set(need.Step.Index)
				before[i].or(ancestors(need))
			}
		}
		return before[i]
	}
	return func(first, second *Step) bool { return ancestors(nodes[second.Index]).has(first.Index) }
}
