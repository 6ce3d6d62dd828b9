package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
)

// Status is where a run, job or step stands.
type Status string

// The statuses. All but Running and Died are GitHub's words for a result.
const (
	Running   Status = "running"
	Success   Status = "success"
	Failure   Status = "failure"
	Cancelled Status = "cancelled"
	Skipped   Status = "skipped"
	Died      Status = "died" // its process ended without finishing it
)

// RunState is a run as its events tell it.
type RunState struct {
	ID      string
	Dir     string // of the run's record; empty where there is none
	Info    event.RunInfo
	Status  Status
	Started time.Time
	// Finished is the zero time while Running; for Died the time of the last event.
	Finished time.Time
	Outcome  *event.Outcome // nil while not finished
	Jobs     []*JobState    // in the order they were first heard of
	Notes    []NoteState    // annotations and notices, the first 200
	// Usage is the sum over all steps and their attempts.
	Usage event.Usage
}

// JobState is one leg of a job.
type JobState struct {
	ID, Name          string
	Status            Status
	Started, Finished time.Time
	Outcome           *event.Outcome
	Condition         string       // why it was skipped
	From              string       // the run it was taken over from; empty: it is of this one
	Steps             []*StepState // in the order of the workflow
}

// StepState is one step of a leg.
type StepState struct {
	Job, ID, Name     string
	JobName           string // what the person calls the job
	Info              event.StepInfo
	Box               *event.BoxInfo
	Status            Status
	Started, Finished time.Time
	Attempts          int // begun so far, at least 1 once started
	Retries           []event.Outcome
	Outcome           *event.Outcome
	Condition         string
	From              string // as in JobState
	// Waiting is why its model call waits; nil: none does.
	Waiting *event.Wait
	Summary string // markdown of the step's own
	Log     StepLog
	// Usage is that of all attempts; while the step runs, what the gateway
	// has counted so far.
	Usage event.Usage
}

// NoteState is a note with its place in the run.
type NoteState struct {
	Job, Step string
	event.Note
}

const maxNotes = 200

// Cause is why the step failed, empty for all else.
func (s *StepState) Cause() event.Cause {
	if s.Outcome == nil {
		return ""
	}
	return s.Outcome.Cause
}

// Duration is how long it took, or has taken at now.
func (s *StepState) Duration(now time.Time) time.Duration {
	return duration(s.Outcome, s.Started, s.Finished, now)
}

// Duration is how long it took, or has taken at now.
func (j *JobState) Duration(now time.Time) time.Duration {
	return duration(j.Outcome, j.Started, j.Finished, now)
}

// Duration is how long it took, or has taken at now.
func (r RunState) Duration(now time.Time) time.Duration {
	return duration(r.Outcome, r.Started, r.Finished, now)
}

func duration(o *event.Outcome, from, to, now time.Time) time.Duration {
	switch {
	case o != nil && o.DurationMS > 0:
		return time.Duration(o.DurationMS) * time.Millisecond
	case from.IsZero():
		return 0
	case to.IsZero():
		return max(now.Sub(from), 0)
	}
	return to.Sub(from)
}

// Steps gives all steps of the run, job by job.
func (r RunState) Steps() []*StepState {
	var steps []*StepState
	for _, j := range r.Jobs {
		steps = append(steps, j.Steps...)
	}
	return steps
}

// Step finds a step; nil where there is none.
func (r RunState) Step(job, step string) *StepState {
	for _, j := range r.Jobs {
		if j.ID != job {
			continue
		}
		for _, s := range j.Steps {
			if s.ID == step {
				return s
			}
		}
	}
	return nil
}

// Fold builds a RunState event by event. The zero Fold is ready. It is not safe
// for concurrent use.
type Fold struct {
	state RunState
	jobs  map[string]*JobState
	steps map[stepKey]*StepState
	last  time.Time
}

// Add takes the next event into account. Output and Agent events are none of
// its business and cost nothing.
func (f *Fold) Add(e event.Event) {
	if e.Type == event.Output || e.Type == event.Agent {
		return
	}
	f.add(e)
}

func (f *Fold) addRecord(r record) {
	f.add(r.event())
	if r.Type == event.StepFinished && r.Log != nil {
		f.stepOf(r.event()).Log = *r.Log
	}
}

func (f *Fold) add(e event.Event) {
	if !e.Time.IsZero() {
		f.last = e.Time
	}
	switch e.Type {
	case event.RunStarted:
		f.state.Status, f.state.Started = Running, e.Time
		if e.Run != nil {
			f.state.Info, f.state.ID = *e.Run, e.Run.ID
		}
	case event.RunFinished:
		f.state.Status, f.state.Outcome, f.state.Finished = status(e.Outcome), e.Outcome, e.Time
	case event.JobStarted:
		j := f.jobOf(e.Job)
		j.Status, j.Started, j.Name, j.From = Running, e.Time, e.Name, e.From
	case event.JobFinished:
		j := f.jobOf(e.Job)
		j.Status, j.Outcome, j.Finished, j.From = status(e.Outcome), e.Outcome, e.Time, e.From
	case event.Annotation, event.Notice:
		if e.Note != nil && len(f.state.Notes) < maxNotes {
			f.state.Notes = append(f.state.Notes, NoteState{e.Job, e.Step, *e.Note})
		}
	default:
		f.addToStep(e)
	}
}

func (f *Fold) addToStep(e event.Event) {
	if e.Job == "" {
		return
	}
	if e.Step == "" {
		if e.Type == event.Condition && e.Text != "" {
			f.jobOf(e.Job).Condition = e.Text
		}
		return
	}
	if e.Type == event.Condition && e.Text == "" {
		return // it runs: what follows says so
	}
	s := f.stepOf(e)
	switch e.Type {
	case event.StepStarted:
		if s.Started.IsZero() {
			s.Started = e.Time
		}
		s.Status = Running
		s.Attempts = max(s.Attempts, e.Attempt, 1)
		f.describe(s, e)
	case event.StepRetry:
		if e.Outcome != nil {
			s.Retries = append(s.Retries, *e.Outcome)
		}
		s.Attempts = max(s.Attempts, len(s.Retries)) + 1
	case event.StepFinished:
		s.Status, s.Outcome, s.Finished, s.Waiting = status(e.Outcome), e.Outcome, e.Time, nil
		s.Attempts, s.From = max(s.Attempts, e.Attempt), e.From
		if s.Started.IsZero() {
			f.describe(s, e)
		}
		f.settle(s)
	case event.BoxStarted:
		s.Box = e.Box
	case event.Waiting:
		s.Waiting = e.Wait
	case event.Exchange:
		s.Waiting = nil
		if e.Exchange != nil {
			u := e.Exchange.Usage
			// A call that used nothing has no price to be missed.
			u.CostKnown = u.CostKnown || u.InputTokens+u.OutputTokens == 0
			s.Usage = s.Usage.Add(u)
		}
	case event.Summary:
		s.Summary += e.Text
	case event.Condition:
		s.Condition = e.Text
	}
}

// describe takes what the executor says of a step, and puts the step where it
// stands in its job: steps at the same time may end in any order.
func (f *Fold) describe(s *StepState, e event.Event) {
	if e.Name != "" {
		s.Name = e.Name
	}
	if e.StepInfo == nil {
		return
	}
	file := s.Info.File // older records do not name it
	s.Info = *e.StepInfo
	s.Info.File = cmp.Or(s.Info.File, file)
	steps := f.jobOf(s.Job).Steps
	i := len(steps) - 1
	for steps[i] != s {
		i--
	}
	for ; i > 0 && comesBefore(s.Info.Number, steps[i-1].Info.Number); i-- {
		steps[i-1], steps[i] = s, steps[i-1]
	}
}

// comesBefore compares numbers of steps, such as 2.1 and 10; what has none stays
// where it is.
func comesBefore(a, b string) bool {
	for a != "" && b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if x != y {
			return len(x) < len(y) || len(x) == len(y) && x < y
		}
	}
	return a == "" && b != ""
}

// settle takes the executor's sum for a finished step where it gives one, and
// else what the exchanges added up to.
func (f *Fold) settle(s *StepState) {
	var told event.Usage
	any := false
	for _, o := range append(slices.Clone(s.Retries), orZero(s.Outcome)) {
		if o.Usage != nil {
			told, any = told.Add(*o.Usage), true
		}
	}
	if any && s.Usage.Requests == 0 {
		s.Usage = told
	}
}

func orZero(o *event.Outcome) event.Outcome {
	if o == nil {
		return event.Outcome{}
	}
	return *o
}

func status(o *event.Outcome) Status {
	switch {
	case o == nil:
		return Failure
	case o.Conclusion != "":
		return Status(o.Conclusion)
	}
	return Status(o.Outcome)
}

func (f *Fold) jobOf(id string) *JobState {
	if j, ok := f.jobs[id]; ok {
		return j
	}
	if f.jobs == nil {
		f.jobs = map[string]*JobState{}
	}
	j := &JobState{ID: id, Name: id}
	f.jobs[id] = j
	f.state.Jobs = append(f.state.Jobs, j)
	return j
}

func (f *Fold) stepOf(e event.Event) *StepState {
	key := stepKey{e.Job, e.Step}
	if s, ok := f.steps[key]; ok {
		return s
	}
	if f.steps == nil {
		f.steps = map[stepKey]*StepState{}
	}
	s := &StepState{Job: e.Job, ID: e.Step, Name: e.Name, Info: event.StepInfo{File: f.state.Info.File}}
	if s.Name == "" {
		s.Name = e.Step
	}
	f.steps[key] = s
	j := f.jobOf(e.Job)
	s.JobName = j.Name
	j.Steps = append(j.Steps, s)
	return s
}

// State is the run so far. It shares memory with f: read it before the next Add.
func (f *Fold) State() RunState {
	f.state.Usage = event.Usage{}
	for _, s := range f.state.Steps() {
		f.state.Usage = f.state.Usage.Add(s.Usage)
	}
	return f.state
}

// Info is what the run said of itself when it started.
func (f *Fold) Info() event.RunInfo { return f.state.Info }

// Job finds a job's leg; nil where there is none.
func (f *Fold) Job(id string) *JobState { return f.jobs[id] }

// Step finds a step; nil where there is none.
func (f *Fold) Step(job, step string) *StepState { return f.steps[stepKey{job, step}] }

// died turns what still runs into Died.
func (f *Fold) died() {
	mark := func(s *Status, finished *time.Time) {
		if *s == Running || *s == "" {
			*s, *finished = Died, f.last
		}
	}
	mark(&f.state.Status, &f.state.Finished)
	for _, j := range f.state.Jobs {
		mark(&j.Status, &j.Finished)
		for _, s := range j.Steps {
			mark(&s.Status, &s.Finished)
		}
	}
}

// State folds what is recorded of the run so far.
func State(r *Reader) (RunState, error) {
	// Asked first: a run that ends between the two has its last record by then.
	live, err := r.Alive()
	if err != nil {
		return RunState{}, err
	}
	var f Fold
	f.state.ID, f.state.Dir, f.state.Status = r.ID, r.Dir, Running
	for rec, err := range r.records {
		if err != nil {
			return RunState{}, err
		}
		f.addRecord(rec)
	}
	if !live && f.state.Outcome == nil {
		f.died()
	}
	return f.State(), nil
}

// UnknownStepError says that a selector names no step of a run.
type UnknownStepError struct {
	Selector string
	Known    []string // what it could have been
}

func (e *UnknownStepError) Error() string {
	return fmt.Sprintf("this run has no step %q", e.Selector)
}

// Hint says what to do next.
func (e *UnknownStepError) Hint() string {
	const most = 20
	if len(e.Known) > most {
		return "it has: " + strings.Join(e.Known[:most], ", ") + ", …"
	}
	return "it has: " + strings.Join(e.Known, ", ")
}

// Select finds the steps that a person means with "job/step", "job" or a step's
// id alone. An empty selector is all steps.
func (r RunState) Select(selector string) ([]*StepState, error) {
	var exact, loose []*StepState
	var known []string
	for _, s := range r.Steps() {
		label := s.Job + "/" + s.ID
		known = append(known, label)
		switch selector {
		case label:
			exact = append(exact, s)
		case "", s.Job, s.ID:
			loose = append(loose, s)
		}
	}
	switch {
	case len(exact) > 0:
		return exact, nil
	case len(loose) > 0 || selector == "":
		return loose, nil
	}
	return nil, &UnknownStepError{Selector: selector, Known: known}
}
