package workflow

import "strings"

// Check finds what is wrong in a workflow beyond its shape. It may be called
// whatever Parse reported, and gives all problems in file order.
func Check(w *Workflow) []Problem {
	c := newChecker(w)
	c.checkIDs()
	c.checkNeeds()
	c.checkExpressions()
	c.checkSteps()
	c.checkUses()
	c.checkCalls()
	c.checkConcurrent()
	c.checkNumbers()
	c.checkMatrices()
	c.checkInputs()
	c.checkBlocks()
	c.checkUntrusted()
	c.checkAgentSecrets()
	c.checkSharedWorkspace()
	c.checkSessions()
	c.checkMerges()
	return sortProblems(c.problems)
}

// checker holds what the checks share. Each check stands in a file of its own
// and adds to problems.
type checker struct {
	collector
	w *Workflow
	// action is what is checked as the one job of w; nil: a workflow is.
	action *Action
	jobs   map[string]*Job // by lower-case id

	facts  map[*Job]*jobFacts
	inputs []string // names of the declared inputs

	searched map[*Value]bool // by checkAgentSecrets
	tainted  map[string]bool // inputs with untrusted words, by lower-case name; "*" is all
	handedOn map[string]bool // what was checked with untrusted inputs
}

func newChecker(w *Workflow) *checker {
	c := &checker{collector: collector{file: w.File}, w: w}
	c.index()
	c.gather()
	return c
}

// gather fills what the checks look up.
func (c *checker) gather() {
	c.facts = make(map[*Job]*jobFacts, len(c.w.Jobs))
	for _, job := range c.w.Jobs {
		c.facts[job] = newJobFacts(job)
	}
	for _, in := range c.w.On.Inputs {
		c.inputs = append(c.inputs, in.Name)
	}
}

func (c *checker) index() {
	c.jobs = make(map[string]*Job, len(c.w.Jobs))
	for _, job := range c.w.Jobs {
		if key := strings.ToLower(job.ID); c.jobs[key] == nil {
			c.jobs[key] = job
		}
	}
}

func (c *checker) jobIDs() []string {
	ids := make([]string, len(c.w.Jobs))
	for i, job := range c.w.Jobs {
		ids[i] = job.ID
	}
	return ids
}

// needed are the jobs that job waits for, each once, as far as there are such.
func (c *checker) needed(job *Job) []*Job {
	var needed []*Job
	seen := make(map[*Job]bool, len(job.Needs))
	for _, n := range job.Needs {
		if other := c.jobs[strings.ToLower(n.Value)]; other != nil && !seen[other] {
			seen[other] = true
			needed = append(needed, other)
		}
	}
	return needed
}
