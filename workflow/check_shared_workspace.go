package workflow

import (
	"math/bits"
	"slices"
	"strconv"
)

// checkSharedWorkspace looks for two agent steps that may write into the shared
// workspace at the same time: in jobs of which neither waits for the other, or
// in two legs of one matrix.
func (c *checker) checkSharedWorkspace() {
	const hint = "say `workspace: isolated` (a clone of its own), `workspace: ro` where an agent only reads, or order the jobs with `needs`"
	order := c.topological()
	for _, job := range order {
		c.checkParallelAgents(job)
	}
	if !slices.ContainsFunc(order, func(job *Job) bool { return sharedWriter(job) != nil }) {
		return
	}
	index := make(map[*Job]int, len(order))
	writers := newBitset(len(order))
	ancestors := make([]bitset, len(order))
	for i, job := range order {
		index[job] = i
		ancestors[i] = newBitset(len(order))
		for _, need := range c.needed(job) {
			if n, ok := index[need]; ok {
				ancestors[i].set(n)
				ancestors[i].or(ancestors[n])
			}
		}
		step := sharedWriter(job)
		if step == nil {
			continue
		}
		if parallelLegs(job) {
			c.add(SeverityError, "workspace", step.Pos, 1,
				"say `workspace: isolated` (each leg has a clone), `workspace: ro` where an agent only reads, or `max-parallel: 1` in the job's strategy",
				"agents in several legs of job "+strconv.Quote(job.ID)+" may write into the shared workspace at the same time")
		} else if n := writers.firstWithout(ancestors[i]); n >= 0 {
			other := order[n]
			c.add(SeverityError, "workspace", step.Pos, 1, hint,
				"this agent and one of job "+strconv.Quote(other.ID)+" may write into the shared workspace at the same time")
		}
		writers.set(i)
	}
}

// sharedWriter is the first agent step of job that may write into the shared
// workspace.
func sharedWriter(job *Job) *Step {
	if job.Called != nil && job.Called.Call.writesShared {
		return &Step{Pos: job.Pos}
	}
	for _, s := range job.Steps {
		if writesShared(s) {
			return s
		}
	}
	return nil
}

func writesShared(s *Step) bool {
	if s.Action != nil {
		return slices.ContainsFunc(s.Action.Steps, writesShared)
	}
	mode, known := staticMode(s.Workspace)
	return s.IsAgent() && known && mode == WorkspaceShared
}

// writesClone says whether an agent of the step works in the clone that the
// steps of its job share.
func writesClone(s *Step) bool {
	if s.OwnWorkspace {
		return false
	}
	if s.Action != nil {
		return slices.ContainsFunc(s.Action.Steps, writesClone)
	}
	mode, known := staticMode(s.Workspace)
	return s.IsAgent() && known && Workspace{Mode: mode}.Apart()
}

// staticMode is the mode of a merged `workspace:`, where no expression decides.
func staticMode(v *Value) (mode string, known bool) {
	if v != nil && v.Kind == Mapping {
		if v = v.Get("mode"); v == nil {
			return "", false
		}
	}
	switch {
	case v == nil:
		return WorkspaceShared, true
	case v.template() != nil:
		return "", false
	}
	return v.Text, true
}

// parallelLegs says whether job may have two legs that run at the same time.
func parallelLegs(job *Job) bool {
	s := job.Strategy
	if s == nil || s.Matrix == nil {
		return false
	}
	if s.MaxParallel != nil && s.MaxParallel.template() == nil && s.MaxParallel.Plain == 1.0 {
		return false
	}
	if !isStatic(s.Matrix) {
		return true
	}
	v, err := staticEval(s.Matrix)
	if err != nil {
		return false
	}
	all, err := MatrixCombinations(v)
	return err == nil && len(all) > 1
}

// topological orders the jobs so that each comes after those it needs, as far as
// there is no cycle.
func (c *checker) topological() []*Job {
	waiting := make(map[*Job]int, len(c.w.Jobs))
	dependents := make(map[*Job][]*Job, len(c.w.Jobs))
	var order []*Job
	for _, job := range c.w.Jobs {
		needed := c.needed(job)
		waiting[job] = len(needed)
		for _, n := range needed {
			dependents[n] = append(dependents[n], job)
		}
		if len(needed) == 0 {
			order = append(order, job)
		}
	}
	for i := 0; i < len(order); i++ {
		for _, d := range dependents[order[i]] {
			if waiting[d]--; waiting[d] == 0 {
				order = append(order, d)
			}
		}
	}
	return order
}

type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (b bitset) set(i int) { b[i/64] |= 1 << (i % 64) }

func (b bitset) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b bitset) or(other bitset) {
	for i := range b {
		b[i] |= other[i]
	}
}

// firstWithout is the lowest member that is not in other, or -1.
func (b bitset) firstWithout(other bitset) int {
	for i := range b {
		if rest := b[i] &^ other[i]; rest != 0 {
			return i*64 + bits.TrailingZeros64(rest)
		}
	}
	return -1
}
