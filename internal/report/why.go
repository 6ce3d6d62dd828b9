package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
)

// Why is a job or step of a run with how it was decided whether it runs.
type Why struct {
	File     string // the run's workflow
	Job      *journal.JobState
	Step     *journal.StepState // nil: the job itself
	Decision journal.Decision
}

// Explain tells why a job or step ran or was skipped: its condition part by
// part, and the results it saw.
func (y Why) Explain(w io.Writer, color bool) error {
	p := paint(color)
	var b strings.Builder
	y.head(&b, p)
	d := y.Decision
	switch {
	case d.From != "":
		label := y.Job.ID
		if y.Step != nil {
			label += "/" + y.Step.ID
		}
		fmt.Fprintf(&b, "\nrun %s has decided it: herd-runner why %[1]s '%[2]s'\n", oneLine(d.From, 40), oneLine(label, 200))
	case !d.Decided && y.Step == nil:
		b.WriteString("\nit has no `if` and needs no other job\n")
	case !d.Decided:
		b.WriteString("\nit has not been decided yet\n")
	default:
		y.condition(&b, p)
	}
	switch {
	case d.From != "":
	case y.Step == nil:
		y.needs(&b, p)
		y.steps(&b, p)
	case d.Decided:
		y.before(&b, p)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (y Why) head(b *strings.Builder, p paint) {
	name, status, outcome, file, line := y.Job.ID, y.Job.Status, y.Job.Outcome, y.File, 0
	sign, sgr := mark(status)
	kind := "job "
	if y.Job.Name != "" && y.Job.Name != name {
		name += ": " + y.Job.Name
	}
	if y.Step != nil {
		kind, name, status, outcome = "step ", y.Step.Job+"/"+y.Step.ID, y.Step.Status, y.Step.Outcome
		file, line = y.Step.Info.File, y.Step.Info.Line
		sign, sgr = stepMark(y.Step)
	}
	if info := y.Decision.Info; info != nil && info.Line > 0 {
		file, line = orElse(info.File, file), info.Line
	}
	b.WriteString(p.with(sgr, sign+" "+kind+oneLine(name, 200)+" "+became(status, outcome)))
	if at := place(file, line); at != "" && line > 0 {
		b.WriteString("  " + p.with(dim, at))
	}
	b.WriteString("\n")
	why := y.Decision.Text
	if outcome != nil && outcome.Outcome == "cancelled" && outcome.Message != "" {
		why = outcome.Message
	}
	if why != "" {
		b.WriteString("  " + oneLine(why, 300) + "\n")
	}
}

// became says in words what came of a job or step.
func became(s journal.Status, o *event.Outcome) string {
	switch s {
	case journal.Skipped:
		return "was skipped"
	case journal.Cancelled:
		return "was cancelled"
	case journal.Running:
		return "is running"
	case journal.Died:
		return "ran until herd-runner died"
	case "":
		return "has not started"
	}
	return "ran: " + result(s, o)
}

func (y Why) condition(b *strings.Builder, p paint) {
	info := y.Decision.Info
	b.WriteString("\n")
	switch {
	case info == nil:
		b.WriteString("no `if`, which means success():\n  success() → " + p.with(green, "true") + "\n")
		return
	case info.Source == "":
		value, sgr := "false", red
		if info.Result || info.Success {
			value, sgr = "true", green
		}
		b.WriteString("no `if`, which means success():\n  success() → " + p.with(sgr, value) + "\n")
	default:
		b.WriteString("if: " + oneLine(info.Source, 300) + "\n")
		if t := info.Tree; t != nil {
			if strings.HasPrefix(t.Source, "success() && (") && !strings.HasPrefix(info.Source, "success()") {
				b.WriteString(p.with(dim, "a condition without a status function also asks for success()") + "\n")
			}
			drawPart(b, p, t, "  ", "  ", true)
		}
	}
	if info.Error != "" {
		b.WriteString(p.with(red, "it could not be evaluated: ") + oneLine(info.Error, 300) + "\n")
	}
	fmt.Fprintf(b, "\nit saw success() = %t, failure() = %t, cancelled() = %t\n", info.Success, info.Failure, info.Cancelled)
}

// drawPart draws a part and, below it, its own. first begins its line, rest those
// of its parts.
func drawPart(b *strings.Builder, p paint, t *event.ConditionPart, first, rest string, root bool) {
	b.WriteString(first + oneLine(t.Source, 200))
	switch {
	case t.Skipped:
		b.WriteString(p.with(dim, "  (not evaluated)"))
	case t.Error != "":
		b.WriteString(" → " + p.with(red, "error: "+oneLine(t.Error, 200)))
	case t.Value == "":
		b.WriteString(p.with(dim, "  (no value)"))
	default:
		sgr := red
		if t.Truthy {
			sgr = green
		}
		b.WriteString(" → " + p.with(sgr, oneLine(t.Value, 200)))
		if root && t.Value != "true" && t.Value != "false" {
			fmt.Fprintf(b, ", which counts as %t", t.Truthy)
		}
	}
	b.WriteString("\n")
	for i, part := range t.Parts {
		if i == len(t.Parts)-1 && t.More == 0 {
			drawPart(b, p, part, rest+"└─ ", rest+"   ", false)
		} else {
			drawPart(b, p, part, rest+"├─ ", rest+"│  ", false)
		}
	}
	if t.More > 0 {
		b.WriteString(rest + "└─ … " + plural(t.More, "more part") + "\n")
	}
}

const whyLines = 50

func (y Why) before(b *strings.Builder, p paint) {
	before := y.Decision.Before
	if len(before) == 0 {
		b.WriteString("\nno step of the job had ended before it\n")
		return
	}
	b.WriteString("\nsteps of the job that had ended before it:\n")
	rows := [][]cell{}
	for _, s := range before[max(len(before)-whyLines, 0):] {
		sign, sgr := mark(journal.Status(s.Conclusion))
		said := s.Conclusion
		if s.Outcome != s.Conclusion {
			said = s.Outcome + ", continue-on-error makes it " + s.Conclusion
			sgr = yellow
		}
		rows = append(rows, []cell{{text: "  " + sign, sgr: sgr}, {text: oneLine(s.Step, 60)}, {text: said, sgr: sgr}})
	}
	if left := len(before) - whyLines; left > 0 {
		b.WriteString("  … " + plural(left, "step") + " before these\n")
	}
	b.WriteString(table(p, nil, rows))
}

func (y Why) needs(b *strings.Builder, p paint) {
	info := y.Decision.Info
	if info == nil || len(info.Needs) == 0 {
		return
	}
	b.WriteString("\njobs it waited for:\n")
	rows := [][]cell{}
	for _, n := range info.Needs {
		sign, sgr := mark(journal.Status(n.Result))
		above := ""
		if !n.Direct {
			above = "further up: success() looks at all ancestors"
		}
		rows = append(rows, []cell{{text: "  " + sign, sgr: sgr}, {text: oneLine(n.Job, 60)}, {text: n.Result, sgr: sgr}, {text: above, sgr: dim}})
	}
	b.WriteString(table(p, nil, rows))
}

func (y Why) steps(b *strings.Builder, p paint) {
	if len(y.Job.Steps) == 0 {
		return
	}
	b.WriteString("\nits steps:\n")
	rows := [][]cell{}
	for i, s := range y.Job.Steps {
		if i == whyLines {
			rows = append(rows, []cell{{text: "  …"}, {text: plural(len(y.Job.Steps)-i, "more step")}})
			break
		}
		sign, sgr := stepMark(s)
		reason := ""
		if s.Status == journal.Skipped {
			reason = oneLine(s.Condition, 120)
		}
		rows = append(rows, []cell{{text: "  " + sign, sgr: sgr}, {text: oneLine(s.ID, 60)}, {text: became(s.Status, s.Outcome)}, {text: reason, sgr: dim}})
	}
	b.WriteString(table(p, nil, rows))
}
