package steps

import (
	"fmt"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// decideStep evaluates the step's condition and tells how it was decided. For a
// step without an `if` that runs there is nothing to tell.
func (s *stepRun) decideStep() (bool, error) {
	if s.leg.broken != nil {
		// The leg's own env could not be evaluated: nothing in it may run.
		s.emit(event.Event{Type: event.Condition, Text: "the job could not be set up: " + plainMessage(s.leg.broken), Condition: &event.ConditionInfo{Failure: true}})
		return false, nil
	}
	ok, info, err := s.decide(s.step.If, s.sc)
	if info == nil {
		return ok, err
	}
	e := event.Event{Type: event.Condition, Condition: info}
	if !ok && err == nil {
		e.Text = whyNot(info, "an earlier step of the job failed", s.cancelReason(s.leg))
	}
	s.emit(e)
	return ok, err
}

// decideJob is decideStep for a job's gate.
func (r *run) decideJob(n *workflow.Node, sc *scope) (bool, error) {
	ok, info, err := r.decide(n.Job.If, sc)
	if info == nil {
		if len(n.Job.Needs) == 0 {
			return ok, err
		}
		info = &event.ConditionInfo{Result: ok, Success: sc.status.success, Failure: sc.status.failure, Cancelled: sc.status.cancelled}
	}
	info.Needs = r.needResults(n.Job)
	e := event.Event{Type: event.Condition, Job: r.prefix + n.Job.ID, Condition: info}
	if !ok && err == nil {
		cancelled := ""
		if info.Cancelled {
			cancelled = r.why
		}
		e.Text = whyNot(info, unsuccessful(info.Needs), cancelled)
	}
	r.emit(e)
	return ok, err
}

// decide evaluates a condition. info is nil where there is no `if` and the
// answer is yes.
func (r *run) decide(v *workflow.Value, sc *scope) (ok bool, info *event.ConditionInfo, err error) {
	if v == nil || strings.TrimSpace(v.Text) == "" {
		ok, err = workflow.Condition(v, sc.env())
		if ok && err == nil {
			return true, nil, nil
		}
		info = &event.ConditionInfo{}
	} else {
		var x *expr.Explanation
		ok, x, _, err = workflow.ExplainCondition(v, sc.env(), r.Masker.String)
		info = &event.ConditionInfo{Source: cutLine(r.Masker.String(v.Text)), File: v.File(), Line: v.Pos.Line, Tree: conditionPart(x)}
	}
	info.Result, info.Success, info.Failure, info.Cancelled = ok, sc.status.success, sc.status.failure, sc.status.cancelled
	if err != nil {
		info.Error = plainMessage(err)
	}
	return ok, info, err
}

// whyNot says in a line why something was skipped: before is what was wrong
// before it, cancelled why its leg or run is cancelled.
func whyNot(info *event.ConditionInfo, before, cancelled string) string {
	const success = "success()"
	t := info.Tree
	asked := t == nil || t.Source == success || len(t.Parts) > 0 && t.Parts[0].Source == success
	switch {
	case !asked || info.Success:
		return fmt.Sprintf("if: %s is false", info.Source)
	case info.Cancelled:
		return cancelled
	}
	return before
}

// unsuccessful names the needed jobs that did not succeed.
func unsuccessful(needs []event.NeedResult) string {
	const most = 3
	var names []string
	for _, n := range needs {
		if n.Result != resultSuccess {
			names = append(names, n.Job+": "+n.Result)
		}
	}
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	return "needed " + strings.Join(names, ", ")
}

// The bounds of needResults.
const (
	maxNeeds   = 50   // results
	maxVisited = 1000 // jobs looked at
)

// needResults gives the results of the job's needs, and of jobs further up those
// that did not succeed.
func (r *run) needResults(job *workflow.Job) []event.NeedResult {
	var results []event.NeedResult
	seen := map[*jobState]bool{}
	queue := []*workflow.Job{job}
	for at := 0; at < len(queue) && at < maxVisited; at++ {
		for _, need := range queue[at].Needs {
			st := r.job(need.Value)
			if st == nil || seen[st] || len(results) == maxNeeds {
				continue
			}
			seen[st] = true
			if at == 0 || st.result != resultSuccess {
				results = append(results, event.NeedResult{Job: st.job.ID, Result: st.result, Direct: at == 0})
			}
			if !st.allSucceeded { // else there is nothing to find above it
				queue = append(queue, st.job)
			}
		}
	}
	return results
}

func conditionPart(x *expr.Explanation) *event.ConditionPart {
	if x == nil {
		return nil
	}
	p := &event.ConditionPart{Source: x.Source, Value: x.Value, Truthy: x.Truthy, Skipped: x.Skipped, Error: x.Error, More: x.More}
	for _, part := range x.Parts {
		p.Parts = append(p.Parts, conditionPart(part))
	}
	return p
}

// cutLine is s on one line and not too long.
func cutLine(s string) string {
	const most = 300
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
