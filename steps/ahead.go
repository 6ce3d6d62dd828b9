package steps

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// ahead starts the boxes of steps that come next while the steps before them
// are at work, so that a step finds its box waiting. Only boxes that are known
// to the last key are started, of steps without a condition, and at most as
// many as the run's bound lie unused. A step that is not reached after all, or
// wants another box, costs the start of one. nil does nothing. Safe for
// concurrent use.
type ahead struct {
	run   *run
	slots chan struct{} // one for each box that is not used yet; shared with called workflows

	once       sync.Once
	dependents map[*workflow.Node][]*workflow.Node

	mu    sync.Mutex
	ended map[*workflow.Node]bool
	early map[*workflow.Node]*earlyBox
}

// earlyBox is a box that no step uses yet.
type earlyBox struct {
	key     string // asked.key
	gateway lateGateway
	users   occupants
	cancel  context.CancelFunc
	done    chan struct{} // closed when box and err are there
	box     sandbox.Box
	err     error
}

var errNotAhead = errors.New("this box is not started ahead")

func newAhead(r *run, slots chan struct{}) *ahead {
	if cap(slots) == 0 {
		return nil
	}
	return &ahead{run: r, slots: slots, ended: map[*workflow.Node]bool{}, early: map[*workflow.Node]*earlyBox{}}
}

// bound gives the slots to hand on to a called workflow.
func (a *ahead) bound() chan struct{} {
	if a == nil {
		return nil
	}
	return a.slots
}

// from is told that n has its box and begins to work.
func (a *ahead) from(ctx context.Context, n *workflow.Node, key string) {
	if a == nil {
		return
	}
	a.once.Do(func() {
		a.dependents = map[*workflow.Node][]*workflow.Node{}
		for _, n := range a.run.Plan.Nodes {
			for _, need := range n.Needs {
				a.dependents[need] = append(a.dependents[need], n)
			}
		}
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, next := range a.next(n) {
		if a.early[next] != nil || a.ended[next] || !foreseeable(next) || a.run.isEarlier(next) {
			continue
		}
		asked, nextKey, err := a.run.foresee(next)
		if err != nil || a.run.shares(n, key, next, nextKey) {
			continue
		}
		select {
		case a.slots <- struct{}{}:
			a.early[next] = a.start(ctx, next, asked, nextKey)
		default:
			return
		}
	}
}

// next are the steps that can begin once n has ended, in plan order.
func (a *ahead) next(n *workflow.Node) []*workflow.Node {
	over := map[*workflow.Node]bool{n: true}
	var found []*workflow.Node
	for queue := []*workflow.Node{n}; len(queue) > 0; queue = queue[1:] {
		for _, d := range a.dependents[queue[0]] {
			switch {
			case over[d] || !a.waitsOnlyFor(d, over):
			case d.Kind == workflow.StepNode:
				found = append(found, d)
			case d.Kind == workflow.LegStart, d.Kind == workflow.CallNode, d.Kind == workflow.JobGate && d.Job.If != nil:
				// Others, a condition or a plan of its own decide.
			default:
				over[d] = true
				queue = append(queue, d)
			}
		}
	}
	return found
}

func (a *ahead) waitsOnlyFor(n *workflow.Node, over map[*workflow.Node]bool) bool {
	for _, need := range n.Needs {
		if !over[need] && !a.ended[need] {
			return false
		}
	}
	return true
}

// foreseeable says whether a step will run, if nothing fails, in a box that it
// alone decides on.
func foreseeable(n *workflow.Node) bool {
	s := n.Step
	return s.If == nil && s.Uses == nil && !s.IsControl() && !n.Job.IsConcurrent()
}

// foresee evaluates what a step asks of its box from what is known before it
// runs. What else it names is an error.
func (r *run) foresee(n *workflow.Node) (asked, string, error) {
	a, w, err := r.asks(n.Step, func(v *workflow.Value) (expr.Value, error) {
		return workflow.Evaluate(v, expr.Env{Context: func(name string) (expr.Value, bool) {
			switch {
			case name == "inputs" || name == "vars":
				return r.Contexts(name, false)
			case name == "matrix" && n.Leg.Matrix != nil:
				return n.Leg.Matrix, true
			}
			return nil, false
		}})
	})
	if err != nil {
		return a, "", err
	}
	d := a.docker
	if d.Host || d.Reuse || d.Ephemeral != nil && !*d.Ephemeral || w.Apart() {
		return a, "", errNotAhead // of the host, with a session, or a copy that must not be made yet
	}
	key, err := a.key()
	return a, key, err
}

// shares says whether next will find a box of its leg that is there already
// while n, with a box of that key, is at work.
func (r *run) shares(n *workflow.Node, key string, next *workflow.Node, nextKey string) bool {
	if next.Step.IsAgent() || next.Leg != n.Leg || n.Step.HasAgent() {
		return false
	}
	if key == nextKey {
		return true
	}
	boxes := &r.leg(n.Leg).boxes
	boxes.mu.Lock()
	defer boxes.mu.Unlock()
	return boxes.open[nextKey] != nil
}

func (a *ahead) start(ctx context.Context, n *workflow.Node, asked asked, key string) *earlyBox {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e := &earlyBox{key: key, cancel: cancel, done: make(chan struct{})}
	var gateway func(net.Conn)
	if n.Step.IsAgent() && asked.gateway() {
		gateway = e.gateway.serve
	}
	a.run.cleanup.Go(func() {
		defer close(e.done)
		e.box, e.err = a.run.openBox(ctx, asked, n.Leg.ID, n.Step.ID, n.Step.IsAgent(), gateway, &e.users)
	})
	return e
}

// take gives the box that was started for n, if it is one of that key; model
// answers its gateway. The box may still be starting: the caller waits for it.
func (a *ahead) take(n *workflow.Node, key string, model ModelSession) *earlyBox {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	e := a.early[n]
	delete(a.early, n)
	a.mu.Unlock()
	if e == nil {
		return nil
	}
	<-a.slots
	if e.key != key {
		a.letGo(e)
		return nil
	}
	if model != nil {
		e.gateway.model.Store(&model)
	}
	return e
}

// wait gives the box, or nil where it could not be had: then the step starts
// one of its own, or says why not.
func (e *earlyBox) wait(ctx context.Context) sandbox.Box {
	stop := context.AfterFunc(ctx, e.cancel)
	<-e.done
	stop()
	if e.err != nil {
		return nil
	}
	return e.box
}

// end is told that n has ended, or was passed over.
func (a *ahead) end(n *workflow.Node) {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.ended[n] = true
	e := a.early[n]
	delete(a.early, n)
	a.mu.Unlock()
	if e != nil {
		<-a.slots
		a.letGo(e)
	}
}

// letGo removes a box that nobody used.
func (a *ahead) letGo(e *earlyBox) {
	e.cancel()
	a.run.cleanup.Go(func() {
		<-e.done
		if e.err == nil {
			a.run.closeBox(context.Background(), e.box)
		}
	})
}

// lateGateway is the gateway of a box whose step has not opened its model
// session yet. Nothing runs in the box until then; what calls is cut.
type lateGateway struct{ model atomic.Pointer[ModelSession] }

func (g *lateGateway) serve(conn net.Conn) {
	if m := g.model.Load(); m != nil {
		(*m).Serve(conn)
		return
	}
	_ = conn.Close()
}
