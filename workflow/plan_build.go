package workflow

import (
	"errors"
	"fmt"
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// NewPlan lowers a checked workflow into one DAG. With only, the id of a job,
// the plan holds that job and what it needs; "" is all. The Plan is nil where
// there are problems. Time and memory are linear in the number of nodes.
func NewPlan(w *Workflow, only string) (*Plan, []Problem) { return newPlan(w, only, "") }

// CalledPlan is NewPlan for the workflow that the job of leg calls. Ids begin
// with that of leg.
func CalledPlan(leg *Leg) (*Plan, []Problem) {
	return newPlan(leg.Job.Called, "", leg.ID+CallSeparator)
}

// CallSeparator stands between the id of a leg and those of the jobs it calls.
const CallSeparator = " / "

func newPlan(w *Workflow, only, prefix string) (*Plan, []Problem) {
	c := &checker{collector: collector{file: w.File}, w: w}
	c.index()
	c.checkNeeds()
	wanted := c.wanted(only)
	if len(c.problems) > 0 {
		return nil, sortProblems(c.problems)
	}
	p := &Plan{Workflow: w, prefix: prefix, ends: make(map[*Job]*Node, len(w.Jobs))}
	gates := make(map[*Job]*Node, len(w.Jobs))
	for _, job := range w.Jobs {
		if !wanted[job] {
			continue
		}
		gate := &Node{ID: prefix + job.ID, Kind: JobGate, Job: job}
		end := &Node{ID: prefix + job.ID + ":end", Kind: JobEnd, Job: job}
		gates[job], p.ends[job] = gate, end
		p.Nodes = append(p.Nodes, gate)
		if err := p.lower(gate); err != nil {
			c.problems = append(c.problems, Problems(w.File, err)...)
		}
		p.Nodes = append(p.Nodes, end)
	}
	for job, gate := range gates {
		for _, need := range c.needed(job) {
			gate.Needs = append(gate.Needs, p.ends[need])
		}
	}
	if len(c.problems) > 0 {
		return nil, sortProblems(c.problems)
	}
	return p, nil
}

// lower makes the legs of a job whose matrix is known.
func (p *Plan) lower(gate *Node) error {
	var matrix expr.Value
	if s := gate.Job.Strategy; s != nil && s.Matrix != nil {
		if !isStatic(s.Matrix) {
			p.Dynamic = append(p.Dynamic, gate)
			p.ends[gate.Job].Needs = []*Node{gate}
			return nil
		}
		v, err := Evaluate(s.Matrix, expr.Env{})
		if err != nil {
			return err
		}
		matrix = v
	}
	_, err := p.Expand(gate, matrix)
	return err
}

// Expand makes the legs of the job that gate opens from its evaluated matrix
// (nil: the job has none), adds their nodes to the plan and makes the job's end
// wait for them. It gives the new nodes; a bad matrix is an *EvalError and adds
// none. It is not safe for concurrent use.
func (p *Plan) Expand(gate *Node, matrix expr.Value) ([]*Node, error) {
	job := gate.Job
	end := p.ends[job]
	if end == nil || gate.Kind != JobGate {
		return nil, fmt.Errorf("expand: %q is no gate of this plan", gate.ID)
	}
	legs, err := p.legsOf(job, matrix)
	if err != nil {
		return nil, err
	}
	nodes := make([]*Node, 0, len(legs)*(len(job.Steps)+2))
	for _, leg := range legs {
		start := gate
		if job.Concurrency != nil {
			start = &Node{ID: leg.ID + ":start", Kind: LegStart, Job: job, Leg: leg, Needs: []*Node{gate}}
			nodes = append(nodes, start)
		}
		stepNodes, last := p.lowerSteps(start, leg)
		if job.Uses != nil {
			call := &Node{ID: leg.ID + ":call", Kind: CallNode, Job: job, Leg: leg, Needs: []*Node{start}}
			stepNodes, last = []*Node{call}, []*Node{call}
		}
		nodes = append(nodes, stepNodes...)
		legEnd := &Node{ID: leg.ID + ":leg", Kind: LegEnd, Job: job, Leg: leg, Needs: last}
		nodes = append(nodes, legEnd)
		end.Needs = append(end.Needs, legEnd)
	}
	p.Nodes = append(p.Nodes, nodes...)
	return nodes, nil
}

func (p *Plan) legsOf(job *Job, matrix expr.Value) ([]*Leg, error) {
	if job.Strategy == nil || job.Strategy.Matrix == nil {
		return []*Leg{{Job: job, ID: p.prefix + job.ID, Total: 1}}, nil
	}
	combinations, names, err := combine(matrix)
	if err != nil {
		return nil, matrixProblem(job.Strategy.Matrix, err)
	}
	legs := make([]*Leg, len(combinations))
	taken := make(map[string]int, len(combinations))
	for i, m := range combinations {
		id := p.prefix + job.ID
		if len(names[i]) > 0 {
			id += " (" + strings.Join(names[i], ", ") + ")"
		}
		if taken[id]++; taken[id] > 1 {
			id = fmt.Sprintf("%s #%d", id, taken[id])
		}
		legs[i] = &Leg{Job: job, ID: id, Matrix: m, Index: i, Total: len(combinations)}
	}
	return legs, nil
}

// matrixProblem places a *MatrixError in the matrix as it is written.
func matrixProblem(v *Value, err error) error {
	var m *MatrixError
	if !errors.As(err, &m) {
		return err
	}
	at := v
	for _, e := range v.Entries {
		if e.Key.Text != m.Key {
			continue
		}
		at = e.Key
		if m.Entry >= 0 && e.Value.Kind == Sequence && m.Entry < len(e.Value.Items) {
			at = e.Value.Items[m.Entry]
		}
	}
	return evalErrorf(at, m.Hint, "%s", m.Msg)
}

// End gives the JobEnd of a job of the plan.
func (p *Plan) End(job *Job) *Node { return p.ends[job] }

// isStatic says whether there is no ${{ }} anywhere in v.
func isStatic(v *Value) bool {
	if v == nil {
		return true
	}
	if v.template() != nil {
		return false
	}
	for _, item := range v.Items {
		if !isStatic(item) {
			return false
		}
	}
	for _, e := range v.Entries {
		if !isStatic(e.Key) || !isStatic(e.Value) {
			return false
		}
	}
	return true
}

// wanted are the jobs of a plan: all, or only and its ancestors.
func (c *checker) wanted(only string) map[*Job]bool {
	wanted := make(map[*Job]bool, len(c.w.Jobs))
	if only == "" {
		for _, job := range c.w.Jobs {
			wanted[job] = true
		}
		return wanted
	}
	first := c.jobs[strings.ToLower(only)]
	if first == nil {
		c.add(SeverityError, "needs", Pos{1, 1}, 1, suggest(only, c.jobIDs()), fmt.Sprintf("there is no job %q", only))
		return wanted
	}
	for queue := []*Job{first}; len(queue) > 0; queue = queue[1:] {
		if job := queue[0]; !wanted[job] {
			wanted[job] = true
			queue = append(queue, c.needed(job)...)
		}
	}
	return wanted
}
