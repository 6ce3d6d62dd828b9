package steps

import (
	"context"
	"fmt"

	"github.com/sourcegraph/conc"
	"github.com/sourcegraph/conc/panics"

	"github.com/herd-runner/herd-runner/workflow"
)

// class says which bound a node's execution counts against.
type class int

const (
	classFree  class = iota // gates, starts and ends: expressions and waits
	classRun                // bounded by MaxParallel
	classAgent              // bounded by MaxAgents
	classCount
)

func classOf(n *workflow.Node) class {
	switch {
	case n.Kind != workflow.StepNode:
		return classFree
	case n.Step.HasAgent():
		return classAgent
	case n.Step.IsControl(), n.Step.Background:
		// What waits for others, and what others may wait for until it is
		// cancelled, must not keep a place that those others need; a leg bounds
		// its background steps itself.
		return classFree
	default:
		return classRun
	}
}

// maxIdle is how many workers are kept for nodes to come.
const maxIdle = 8

// schedule runs every node of the plan once its needs have ended. One goroutine,
// this one, owns all bookkeeping; nodes run in goroutines of their own, as many as
// run at once, and report through one channel, which also orders their memory.
func (r *run) schedule(ctx context.Context) {
	s := scheduler{
		unmet:      make(map[*workflow.Node]int, len(r.Plan.Nodes)),
		dependents: make(map[*workflow.Node][]*workflow.Node, len(r.Plan.Nodes)),
		ended:      make(map[*workflow.Node]bool, len(r.Plan.Nodes)),
		ends:       make(map[*workflow.Job]*workflow.Node, len(r.jobs)),
		jobs:       r.jobs,
		bounds:     r.bounds,
		freed:      make(chan struct{}, 1),
	}
	defer s.bounds.leave(s.freed)
	s.add(r.Plan.Nodes)

	// A worker that has ended a node takes another: its stack has grown already.
	ready, done := make(chan *workflow.Node, 64), make(chan nodeEnd, 64)
	var workers conc.WaitGroup
	defer workers.Wait()
	defer close(ready)
	work := func() {
		for n := <-ready; n != nil; n = <-ready {
			done <- r.runNode(ctx, n)
		}
	}
	running, idle := 0, 0
	for {
		for n := s.next(); n != nil; n = s.next() {
			running++
			if idle > 0 {
				idle--
			} else {
				workers.Go(work)
			}
			ready <- n
		}
		if running == 0 && !s.waiting() {
			return
		}
		select {
		case end := <-done:
			running--
			if idle < maxIdle {
				idle++
			} else {
				ready <- nil
			}
			s.finish(end)
		case <-s.freed:
		}
	}
}

// nodeEnd is what a node's execution tells the scheduler.
type nodeEnd struct {
	node  *workflow.Node
	added []*workflow.Node // legs of a dynamic matrix
}

// runNode executes one node. A panic becomes the node's failure.
func (r *run) runNode(ctx context.Context, n *workflow.Node) (end nodeEnd) {
	end.node = n
	defer r.ahead.end(n)
	recovered := panics.Try(func() {
		if r.passesOver(n) {
			return
		}
		switch n.Kind {
		case workflow.JobGate:
			end.added = r.runGate(n)
		case workflow.StepNode:
			r.runStep(ctx, n)
		case workflow.LegStart:
			r.startLeg(ctx, n)
		case workflow.CallNode:
			r.runCall(ctx, n)
		case workflow.LegEnd:
			r.endLeg(ctx, n)
		case workflow.JobEnd:
			r.endJob(n)
		}
	})
	if recovered != nil {
		r.nodePanicked(n, fmt.Sprintf("%v\n%s", recovered.Value, recovered.Stack))
	}
	return end
}

// scheduler counts unmet needs and keeps the ready nodes, by class and in plan
// order. It is owned by one goroutine.
type scheduler struct {
	unmet      map[*workflow.Node]int
	dependents map[*workflow.Node][]*workflow.Node
	ended      map[*workflow.Node]bool
	ends       map[*workflow.Job]*workflow.Node // JobEnd by job
	jobs       map[string]*jobState

	ready  [classCount]queue
	bounds *bounds
	freed  chan struct{} // tells that a bound has room again

	// A leg is admitted when its first step is; parked are first steps that
	// wait for strategy.max-parallel.
	admitted map[*workflow.Leg]bool
	legs     map[string]int // admitted legs that have not ended, by job id
	parked   map[string]*queue
}

// add takes new nodes whose needs are all known, and counts what is unmet.
func (s *scheduler) add(nodes []*workflow.Node) {
	for _, n := range nodes {
		if n.Kind == workflow.JobEnd {
			s.ends[n.Job] = n
		}
		unmet := 0
		for _, need := range n.Needs {
			if s.ended[need] {
				continue
			}
			unmet++
			s.dependents[need] = append(s.dependents[need], n)
		}
		s.unmet[n] = unmet
		if unmet == 0 {
			s.enqueue(n)
		}
	}
}

func (s *scheduler) enqueue(n *workflow.Node) {
	starts := n.Kind == workflow.StepNode || n.Kind == workflow.LegStart || n.Kind == workflow.CallNode
	if starts && !s.admit(n) {
		return
	}
	s.ready[classOf(n)].push(n)
}

// admit says whether a step may start now as far as its job's
// strategy.max-parallel is concerned; if not, it is parked.
func (s *scheduler) admit(n *workflow.Node) bool {
	limit := s.jobs[n.Job.ID].maxParallel
	if limit == 0 || s.admitted[n.Leg] {
		return true
	}
	if s.admitted == nil {
		s.admitted, s.legs, s.parked = map[*workflow.Leg]bool{}, map[string]int{}, map[string]*queue{}
	}
	if s.legs[n.Job.ID] < limit {
		s.admitted[n.Leg] = true
		s.legs[n.Job.ID]++
		return true
	}
	if s.parked[n.Job.ID] == nil {
		s.parked[n.Job.ID] = &queue{}
	}
	s.parked[n.Job.ID].push(n)
	return false
}

// unpark admits the next leg of a job, with all of its parked steps.
func (s *scheduler) unpark(job string) {
	q := s.parked[job]
	if q == nil {
		return
	}
	next := q.pop()
	if next == nil {
		return
	}
	s.enqueue(next)
	var others queue
	for n := q.pop(); n != nil; n = q.pop() {
		if n.Leg == next.Leg {
			s.enqueue(n)
		} else {
			others.push(n)
		}
	}
	*q = others
}

// next gives a node that may start now, nil where there is none.
func (s *scheduler) next() *workflow.Node {
	for c := range classCount {
		if !s.ready[c].empty() && s.bounds.take(c, s.freed) {
			return s.ready[c].pop()
		}
	}
	return nil
}

// waiting says whether nodes wait for a place that another run of the same
// invocation has.
func (s *scheduler) waiting() bool {
	for c := range classCount {
		if !s.ready[c].empty() {
			return true
		}
	}
	return false
}

func (s *scheduler) finish(end nodeEnd) {
	n := end.node
	s.bounds.give(classOf(n))
	s.ended[n] = true
	if len(end.added) > 0 {
		s.grow(end.added)
	}
	if n.Kind == workflow.LegEnd && s.admitted[n.Leg] {
		s.legs[n.Job.ID]--
		s.unpark(n.Job.ID)
	}
	for _, d := range s.dependents[n] {
		s.unmet[d]--
		if s.unmet[d] == 0 {
			s.enqueue(d)
		}
	}
	delete(s.dependents, n)
}

// grow takes the nodes of a dynamic matrix. The job's end is among the known
// nodes and now also waits for the new legs' ends.
func (s *scheduler) grow(nodes []*workflow.Node) {
	for _, n := range nodes {
		if n.Kind == workflow.LegEnd {
			end := s.ends[n.Job]
			s.unmet[end]++
			s.dependents[n] = append(s.dependents[n], end)
		}
	}
	s.add(nodes)
}

// queue is a first-in first-out list.
type queue struct {
	items []*workflow.Node
	head  int
}

func (q *queue) push(n *workflow.Node) { q.items = append(q.items, n) }

func (q *queue) empty() bool { return q.head == len(q.items) }

func (q *queue) pop() *workflow.Node {
	if q.head == len(q.items) {
		return nil
	}
	n := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return n
}
