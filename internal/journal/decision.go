package journal

import "github.com/herd-runner/herd-runner/internal/event"

// Decision is how it was decided whether a job or step runs.
type Decision struct {
	// Decided is false while it was not, or was never, come to.
	Decided bool
	// Info is nil for a step without an `if` whose success() held, and for a job
	// with neither `if` nor needs.
	Info *event.ConditionInfo
	Text string // why it was skipped, in a line; empty where it runs
	From string // the run that decided it; empty: this one
	// Before are the steps of the job that had ended by then, in that order; of a
	// job there are none.
	Before []StepResult
}

// StepResult is how a step ended.
type StepResult struct {
	Step                string
	Outcome, Conclusion string
}

// Decision finds how it was decided whether a step of a leg runs; with an empty
// step, whether a job does, whose id then is without matrix values.
func (r *Reader) Decision(job, step string) (Decision, error) {
	var d Decision
	for e, err := range r.Events {
		switch {
		case err != nil:
			return Decision{}, err
		case e.Job != job:
		case e.Type == event.Condition && e.Step == step:
			d.Decided, d.Info, d.Text, d.From = true, e.Condition, e.Text, e.From
			return d, nil
		case e.Step == step && (e.Type == event.StepStarted || e.Type == event.StepFinished):
			d.Decided, d.From = true, e.From // without a word: no `if`, and nothing had failed
			return d, nil
		case step != "" && e.Type == event.StepFinished && e.Outcome != nil:
			d.Before = append(d.Before, StepResult{e.Step, e.Outcome.Outcome, e.Outcome.Conclusion})
		}
	}
	return d, nil
}
