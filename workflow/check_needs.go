package workflow

import (
	"slices"
	"strings"
)

// checkNeeds looks for jobs that do not exist and for cycles.
func (c *checker) checkNeeds() {
	for _, job := range c.w.Jobs {
		seen := make(map[string]bool, len(job.Needs))
		for _, n := range job.Needs {
			key := strings.ToLower(n.Value)
			switch {
			case c.jobs[key] == nil:
				c.named(n, "needs", suggest(n.Value, c.jobIDs()), "job %q needs %q, which does not exist", job.ID, n.Value)
			case c.jobs[key] == job:
				c.named(n, "needs", "remove it", "job %q needs itself", job.ID)
			case seen[key]:
				c.named(n, "needs", "remove it", "job %q needs %q twice", job.ID, n.Value)
			}
			seen[key] = true
		}
	}
	c.checkCycles()
}

const maxCycles = 20

// cyclePath writes a → b → a, the middle of a long one left out.
func cyclePath(ids []string) string {
	const most = 12
	if len(ids) > most {
		ids = append(append(slices.Clone(ids[:most/2]), "…"), ids[len(ids)-most/2:]...)
	}
	return strings.Join(ids, " → ")
}

// checkCycles walks depth first, without recursion, and reports each cycle at
// the `needs` entry that closes it.
func (c *checker) checkCycles() {
	const open, done = 1, 2
	state, cycles := make(map[*Job]int, len(c.w.Jobs)), 0
	type frame struct {
		job  *Job
		next int
	}
	for _, root := range c.w.Jobs {
		if state[root] != 0 {
			continue
		}
		stack := []frame{{job: root}}
		state[root] = open
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.next == len(top.job.Needs) {
				state[top.job] = done
				stack = stack[:len(stack)-1]
				continue
			}
			need := top.job.Needs[top.next]
			top.next++
			other := c.jobs[strings.ToLower(need.Value)]
			switch {
			case other == nil || other == top.job:
			case state[other] == 0:
				state[other] = open
				stack = append(stack, frame{job: other})
			case state[other] == open:
				var path []string
				for _, f := range stack {
					if len(path) > 0 || f.job == other {
						path = append(path, f.job.ID)
					}
				}
				if cycles++; cycles > maxCycles {
					return
				}
				c.named(need, "needs", "remove one of these needs", "jobs wait for each other: %s", cyclePath(append(path, other.ID)))
			}
		}
	}
}
