package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
)

// PS lists runs, one a line, in the order given. now is for those still running.
func PS(w io.Writer, runs []journal.RunState, now time.Time, color bool) error {
	rows := [][]cell{header("RUN", "WORKFLOW", "STATUS", "STARTED", "DURATION", "STEPS", "COST")}
	for _, r := range runs {
		sign, sgr := mark(r.Status)
		done := 0
		for _, st := range r.Steps() {
			if st.Outcome != nil {
				done++
			}
		}
		steps := fmt.Sprint(len(r.Steps()))
		if r.Status == journal.Running || r.Status == journal.Died {
			steps = fmt.Sprintf("%d/%d", done, len(r.Steps()))
		}
		started := ""
		if !r.Started.IsZero() {
			started = r.Started.In(now.Location()).Format("2006-01-02 15:04:05")
		}
		rows = append(rows, []cell{{text: oneLine(r.ID, 40)}, {text: oneLine(orElse(r.Info.Workflow, r.Info.File), 40) + attempt(r.Info)}, {sign + " " + string(r.Status), sgr},
			{text: started}, {text: Duration(r.Duration(now))}, {text: steps}, {text: Cost(r.Usage)}})
	}
	_, err := io.WriteString(w, table(paint(color), []bool{4: true, 5: true, 6: true}, rows))
	return err
}

// attempt says of a rerun which one it is, and by its last digits what it goes on
// from.
func attempt(i event.RunInfo) string {
	if i.RerunOf == "" {
		return ""
	}
	return fmt.Sprintf(" (attempt %d of %s)", i.Attempt, oneLine(i.RerunOf[strings.LastIndexByte(i.RerunOf, '-')+1:], 40))
}

// Show tells one run in full: what it was, its steps, why they failed, its notes.
func Show(w io.Writer, s journal.RunState, now time.Time, color bool) error {
	p := paint(color)
	var b strings.Builder
	b.WriteString(closing(s, p, now) + "\n\n")
	field := func(name, value string) {
		if value != "" {
			b.WriteString(p.with(dim, pad(name, 10)) + oneLine(value, 300) + "\n")
		}
	}
	field("name", s.Info.Name)
	field("workflow", s.Info.Workflow)
	field("file", s.Info.File)
	field("event", s.Info.Event)
	if s.Info.RerunOf != "" {
		field("attempt", fmt.Sprintf("%d, goes on from run %s", s.Info.Attempt, s.Info.RerunOf))
	}
	field("project", s.Info.Dir)
	if !s.Started.IsZero() {
		field("started", s.Started.In(now.Location()).Format(time.RFC3339))
	}
	field("arguments", strings.Join(s.Info.Args, " "))
	field("version", s.Info.Version)
	field("record", s.Dir)
	b.WriteString("\n" + stepTable(s, p, now))
	for _, st := range s.Steps() {
		showStep(&b, s, st, p)
	}
	if s.Outcome != nil && s.Outcome.Message != "" {
		b.WriteString("\n")
		detail(&b, s.Outcome, p)
	}
	showNotes(&b, s, p)
	_, err := io.WriteString(w, b.String())
	return err
}

func showStep(b *strings.Builder, s journal.RunState, st *journal.StepState, p paint) {
	o := st.Outcome
	failed := o != nil && o.Outcome == "failure"
	var facts []string
	if st.Condition != "" && st.Status == journal.Skipped {
		facts = append(facts, "skipped: "+oneLine(st.Condition, 200))
	}
	if st.Waiting != nil && st.Status == journal.Running {
		facts = append(facts, Waiting(*st.Waiting))
	}
	if o != nil && o.PeakMemory > 0 {
		facts = append(facts, fmt.Sprintf("memory peak %s (a limit of %s would do)", Bytes(o.PeakMemory), suggest(o.PeakMemory)))
	}
	if o != nil && o.CPUMS > 0 {
		facts = append(facts, "cpu "+milliseconds(o.CPUMS))
	}
	if st.Log.Messages > 0 {
		facts = append(facts, fmt.Sprintf("%s, %s", plural(st.Log.Messages, "message"), plural(st.Log.ToolCalls, "tool call")))
	}
	if o != nil && o.SessionID != "" {
		facts = append(facts, "session "+oneLine(o.SessionID, 80))
	}
	if !failed && len(facts) == 0 && len(st.Retries) == 0 {
		return
	}
	sign, sgr := stepMark(st)
	b.WriteString("\n" + p.with(sgr, sign+" "+label(st.Job, st.ID)))
	if failed {
		b.WriteString(p.with(sgr, ": "+result(st.Status, o)))
	}
	if at := place(st.Info.File, st.Info.Line); at != "" {
		b.WriteString("  " + p.with(dim, at))
	}
	b.WriteString("\n")
	for i := range st.Retries {
		fmt.Fprintf(b, "  attempt %d: %s\n", i+1, result(journal.Failure, &st.Retries[i]))
	}
	if failed {
		detail(b, o, p)
	}
	for _, f := range facts {
		b.WriteString("  " + f + "\n")
	}
}

// suggest is a round memory limit with a quarter of room above peak.
func suggest(peak int64) string {
	const step = 64 << 20
	n := (peak + peak/4 + step - 1) / step * step
	return fmt.Sprintf("%dm", n>>20)
}

func detail(b *strings.Builder, o *event.Outcome, p paint) {
	lines, more := textLines(o.Message, tailLines)
	for _, l := range lines {
		if o.Message != "" {
			b.WriteString("  " + l + "\n")
		}
	}
	if more > 0 {
		fmt.Fprintf(b, "  … %d more lines\n", more)
	}
	if o.Hint != "" {
		b.WriteString("  " + p.with(cyan, "hint: ") + oneLine(o.Hint, 500) + "\n")
	}
}

func showNotes(b *strings.Builder, s journal.RunState, p paint) {
	first := true
	for _, n := range s.Notes {
		if n.Level == "debug" {
			continue
		}
		if first {
			b.WriteString("\n")
			first = false
		}
		sgr := map[string]string{"error": red, "warning": yellow}[n.Level]
		text := p.with(orElse(sgr, cyan), oneLine(n.Level, 20)+": ")
		if at := place(n.File, n.Line); at != "" {
			text += at + ": "
		}
		if n.Job != "" {
			text += label(n.Job, n.Step) + ": "
		}
		b.WriteString(text + oneLine(n.Message, 300) + "\n")
	}
}
