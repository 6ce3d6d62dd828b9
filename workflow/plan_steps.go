package workflow

import "strings"

// lowerSteps makes the nodes of a leg's steps in file order, and gives those
// that nothing in the leg waits for: the leg's end does.
func (p *Plan) lowerSteps(gate *Node, leg *Leg) (nodes, last []*Node) {
	job := leg.Job
	nodes = make([]*Node, len(job.Steps))
	for i, step := range job.Steps {
		nodes[i] = &Node{ID: leg.ID + "/" + step.ID, Kind: StepNode, Job: job, Leg: leg, Step: step}
	}
	if !job.IsConcurrent() {
		before := gate
		for _, n := range nodes {
			n.Needs = []*Node{before}
			before = n
		}
		return nodes, []*Node{before}
	}

	byID := make(map[string]*Node, len(nodes))
	for _, n := range nodes {
		byID[strings.ToLower(n.Step.ID)] = n
	}
	waited := make(map[*Node]bool, len(nodes))
	after := func(n *Node, need *Node) {
		if need != nil { // an unknown name is a problem of Check's
			n.Needs = append(n.Needs, need)
			waited[need] = true
		}
	}
	before := gate // the nearest step above that is not in the background
	var background []*Node
	for _, n := range nodes {
		s := n.Step
		if s.HasNeeds {
			for _, name := range s.Needs {
				after(n, byID[strings.ToLower(name.Value)])
			}
			if len(s.Needs) == 0 {
				n.Needs = []*Node{gate}
			}
		} else {
			after(n, before)
		}
		for _, name := range s.Wait {
			after(n, byID[strings.ToLower(name.Value)])
		}
		if s.WaitAll {
			for _, b := range background {
				after(n, b)
			}
			background = nil
		}
		if s.Background {
			background = append(background, n)
		} else {
			before = n
		}
	}
	for _, n := range nodes {
		if !waited[n] {
			last = append(last, n)
		}
	}
	return nodes, last
}
