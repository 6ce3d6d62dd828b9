package workflow

import "github.com/herd-runner/herd-runner/workflow/expr"

// NodeKind says what a Node of the plan does.
type NodeKind int

// The kinds of nodes. A job is a gate, then its legs' steps, each leg closed by
// a LegEnd, all closed by one JobEnd, which is what other jobs wait for.
const (
	JobGate NodeKind = iota // decides `if`, and the matrix where it is dynamic
	StepNode
	LegEnd // evaluates the leg's outputs and result
	JobEnd // joins the legs
	// LegStart waits for the leg's concurrency group, before its steps; only
	// legs of a job with `concurrency` have one.
	LegStart
	// CallNode runs the workflow that a job calls; it stands in place of steps.
	CallNode
)

// Node is one vertex of the DAG. It may start when all of Needs have ended,
// however they ended: whether it then runs is decided by its condition.
type Node struct {
	ID    string // "build", "build/step-1", unique in the plan
	Kind  NodeKind
	Job   *Job
	Leg   *Leg  // nil for JobGate and JobEnd
	Step  *Step // StepNode only
	Needs []*Node
}

// Leg is one combination of a job's matrix; a job without a matrix has one leg.
type Leg struct {
	Job    *Job
	ID     string       // "build", or "build (1.26, linux)"
	Matrix *expr.Object // nil without a matrix
	Index  int          // 0-based
	Total  int
}

// Plan is the DAG of one run, in file order.
type Plan struct {
	Workflow *Workflow
	Nodes    []*Node
	// Dynamic are the gates whose matrix is known only at run time: their
	// legs are not in Nodes yet, see Expand.
	Dynamic []*Node

	prefix string // of the ids of jobs and legs
	ends   map[*Job]*Node
}
