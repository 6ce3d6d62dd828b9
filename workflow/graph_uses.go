package workflow

import (
	"fmt"
	"io"
	"strings"
)

// graphAction lists the steps of an action below the step that uses it; last
// says that nothing follows that step.
func graphAction(w io.Writer, a *Action, last bool) {
	lead := "│  "
	if last {
		lead = "   "
	}
	graphInner(w, a, lead)
}

func graphInner(w io.Writer, a *Action, lead string) {
	if a == nil {
		return
	}
	for i, s := range a.Steps {
		branch, below := "├─", "│  "
		if i == len(a.Steps)-1 {
			branch, below = "└─", "   "
		}
		fmt.Fprintf(w, "%s%s %s %s\n", lead, branch, stepMark(s), stepLabel(s))
		graphInner(w, s.Action, lead+below)
	}
}

func stepMark(s *Step) string {
	mark := "run"
	switch {
	case s.IsAgent():
		mark = "agent"
	case s.IsControl():
		mark = "wait"
	case s.Uses != nil:
		mark = "uses"
	}
	return mark + strings.Repeat(" ", 6-len(mark))
}

// graphCall draws the workflow that a job calls below the job.
func graphCall(w io.Writer, job *Job) {
	if job.Uses == nil {
		return
	}
	fmt.Fprintf(w, "└─ calls  %s\n", printable(job.Uses.Text))
	var inner strings.Builder
	graphText(&inner, calledDrawings(job))
	for line := range strings.Lines(inner.String()) {
		if line != "\n" {
			line = "   " + line
		}
		io.WriteString(w, line)
	}
}

// calledDrawings are the jobs of the workflow that a job calls.
func calledDrawings(job *Job) []jobDrawing {
	if job.Called == nil {
		return nil
	}
	plan, _ := NewPlan(job.Called, "")
	if plan == nil {
		return nil
	}
	return plan.drawings()
}

// callLabel is the title of a job that calls a workflow.
func callLabel(d jobDrawing) string {
	label := d.job.ID
	if n := len(d.legs); n > 1 {
		label += fmt.Sprintf(" [%d legs]", n)
	}
	return label + ": " + d.job.Uses.Text
}

// inTurn are the edges between steps that run one after the other.
func inTurn(steps []*Step) [][]int {
	before := make([][]int, len(steps))
	for i := range before {
		before[i] = []int{i - 1}
	}
	return before
}
