package report

import (
	"fmt"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
)

// happening shows all events but Output.
func (t *Terminal) happening(e event.Event) {
	if e.Type == event.Condition {
		return // shown where what it skips ends
	}
	var v *stepView
	if e.Job != "" {
		v = t.view(e.Job, e.Step)
	}
	if e.From != "" {
		t.takenOver(v, e)
		return
	}
	switch e.Type {
	case event.StepStarted:
		if v != nil {
			t.stepStarted(v, e)
		}
	case event.StepFinished:
		if v != nil && e.Outcome != nil {
			t.stepFinished(v, e)
		}
	case event.StepRetry:
		if v != nil && e.Outcome != nil {
			t.finishOutput(v)
			t.say(v, t.p.with(yellow, "↻ "+oneLine(v.name, 60)+": "+result(journal.Failure, e.Outcome)+", trying again"))
			t.sayDetail(v, *e.Outcome)
		}
	case event.JobFinished:
		if v != nil && e.Outcome != nil {
			t.jobFinished(v, e)
		}
	case event.Agent:
		if v != nil && e.Message != nil {
			t.message(v, *e.Message)
		}
	case event.Annotation, event.Notice:
		if e.Note != nil {
			t.note(v, *e.Note)
		}
	case event.Group:
		if e.Text != "" && v != nil {
			t.say(v, t.p.with(bold, "▸ "+oneLine(e.Text, 120)))
		}
	case event.BoxStarted:
		if e.Box != nil && t.opts.Verbose {
			t.say(v, t.p.with(dim, oneLine(fmt.Sprintf("box %s %.12s %s ready in %s", e.Box.Backend, e.Box.ID, e.Box.Image, milliseconds(e.Box.StartMS)), 200)))
		}
	case event.Exchange:
		if e.Exchange != nil {
			t.exchange(v, *e.Exchange)
		}
	case event.Egress:
		if e.Egress != nil && v != nil {
			t.egress(v, e)
		}
	case event.Waiting:
		if e.Wait != nil {
			t.say(v, t.p.with(yellow, "⧖ "+oneLine(Waiting(*e.Wait), 200)))
		}
	case event.RunFinished:
		t.finishRun(e)
	}
}

// takenOver tells in a line of a job that an earlier run has run, or of a step of
// one that goes on.
func (t *Terminal) takenOver(v *stepView, e event.Event) {
	if v == nil || e.Outcome == nil || e.Type == event.StepFinished && t.fold.Job(e.Job).From != "" {
		return
	}
	sign, _ := mark(journal.Status(e.Outcome.Conclusion))
	t.say(v, t.p.with(dim, sign+" taken over from run "+oneLine(e.From, 40)))
}

// Waiting says in words why a model call waits, and until when.
func Waiting(w event.Wait) string {
	text := "the model's rate limit"
	if w.Reason == event.WaitBudget {
		text = "calls under way that may use up the budget of " + w.What
	}
	text = "waits for " + text
	if !w.Until.IsZero() {
		text += " until " + w.Until.Local().Format("15:04:05")
	}
	return text
}

func (t *Terminal) stepStarted(v *stepView, e event.Event) {
	if e.Name != "" {
		v.name = e.Name
	}
	what := ""
	if i := e.StepInfo; i != nil && i.Kind == "agent" {
		what = "  (" + i.Engine
		if i.Engine == "" {
			what = "  (agent"
		}
		if i.Model != "" {
			what += ", " + i.Model
		}
		what += ")"
	}
	if e.Attempt > 1 {
		what += fmt.Sprintf("  attempt %d", e.Attempt)
	}
	t.say(v, t.p.with(bold, "▶ "+oneLine(v.name, 80))+t.p.with(dim, cut(Clean(what), 80)))
}

func (t *Terminal) stepFinished(v *stepView, e event.Event) {
	t.finishOutput(v)
	if e.Name != "" && v.name == e.Step {
		v.name = e.Name
	}
	o := *e.Outcome
	st := t.fold.Step(e.Job, e.Step)
	sign, sgr := stepMark(st)
	name := oneLine(v.name, 80)
	switch {
	case st.Status == journal.Skipped:
		t.say(v, t.p.with(sgr, sign+" "+name+" skipped"+because(st.Condition)))
	case o.Outcome == "failure":
		at := ""
		if st.Info.Line > 0 {
			at = "  " + t.p.with(dim, place(st.Info.File, st.Info.Line))
		}
		t.say(v, t.p.with(sgr, fmt.Sprintf("✗ %s: %s, after %s", name, result(st.Status, &o), milliseconds(o.DurationMS)))+at)
		t.sayDetail(v, o)
		if st.Status == journal.Failure && len(t.fails) < failsMax {
			t.fails = append(t.fails, failed{v, st.Info, o})
		}
	default:
		text := t.p.with(sgr, fmt.Sprintf("%s %s", sign, name))
		if st.Status == journal.Cancelled {
			text += " cancelled"
		}
		text += t.p.with(dim, "  "+milliseconds(o.DurationMS))
		if c := Cost(st.Usage); c != "" {
			text += t.p.with(dim, "  "+c)
		}
		t.say(v, text)
		t.sayDetail(v, o)
	}
	delete(t.steps, [2]string{e.Job, e.Step})
	t.last = nil
}

func because(condition string) string {
	if condition == "" {
		return ""
	}
	return ": " + oneLine(condition, 160)
}

// jobFinished speaks up where the job's steps did not say it all.
func (t *Terminal) jobFinished(v *stepView, e event.Event) {
	o := *e.Outcome
	j := t.fold.Job(e.Job)
	sign, sgr := mark(j.Status)
	switch {
	case j.Status == journal.Skipped:
		t.say(v, t.p.with(sgr, sign+" job skipped"+because(j.Condition)))
	case j.Status == journal.Cancelled:
		t.say(v, t.p.with(sgr, sign+" job cancelled"))
	case t.opts.Verbose || o.Message != "":
		t.say(v, t.p.with(sgr, sign+" job "+result(j.Status, &o))+t.p.with(dim, "  "+milliseconds(o.DurationMS)))
	}
	t.sayDetail(v, o)
}

func (t *Terminal) note(v *stepView, n event.Note) {
	sgr := map[string]string{"error": red, "warning": yellow, "debug": dim}[n.Level]
	if n.Level == "debug" && !t.opts.Verbose {
		return
	}
	if sgr == "" {
		sgr = cyan
	}
	text := t.p.with(sgr, oneLine(n.Level, 20)+": ")
	if n.File != "" {
		at := place(n.File, n.Line)
		if n.Line > 0 && n.Column > 0 {
			at += fmt.Sprintf(":%d", n.Column)
		}
		text += at + ": "
	}
	if n.Title != "" {
		text += oneLine(n.Title, 120) + ": "
	}
	lines, more := textLines(n.Message, 20)
	for i, l := range lines {
		if i > 0 {
			text = "  "
		}
		t.say(v, text+l)
	}
	if more > 0 {
		t.say(v, fmt.Sprintf("  … %d more lines", more))
	}
	if n.Hint != "" {
		t.say(v, "  "+t.p.with(cyan, "hint: ")+oneLine(n.Hint, 500))
	}
}

func (t *Terminal) exchange(v *stepView, x event.ModelCall) {
	bad := x.Mode == "refused" || x.Status >= 400
	if !bad && !t.opts.Verbose {
		return
	}
	text := fmt.Sprintf("model call %s: %d", x.Model, x.Status)
	if x.Mode == "refused" {
		text = "model call refused"
	}
	if x.Reason != "" {
		text += ": " + x.Reason
	}
	sgr := dim
	if bad {
		sgr = yellow
	}
	t.say(v, t.p.with(sgr, "⇄ "+oneLine(text, 300)))
}
