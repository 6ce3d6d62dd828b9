package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
)

// tableMax bounds the steps listed; of more, those that went well are counted.
const tableMax = 100

// stepTable is the table a run ends with: its steps, and totals of the agent
// steps, the run: steps, and the whole.
func stepTable(s journal.RunState, p paint, now time.Time) string {
	steps := s.Steps()
	rows := [][]cell{header("JOB", "STEP", "RESULT", "DURATION", "TOKENS IN", "OUT", "COST")}
	hidden := 0
	for _, st := range steps {
		if len(steps) > tableMax && st.Status == journal.Success {
			hidden++
			continue
		}
		rows = append(rows, stepRow(st, now))
	}
	if len(rows) > tableMax {
		hidden += len(rows) - 1 - tableMax
		rows = rows[:tableMax+1]
	}
	if hidden > 0 {
		rows = append(rows, []cell{{}, {fmt.Sprintf("and %d more", hidden), dim}})
	}
	rows = append(rows, totals(s, now)...)
	return table(p, []bool{false, false, false, true, true, true, true}, rows)
}

func stepRow(st *journal.StepState, now time.Time) []cell {
	sign, sgr := stepMark(st)
	name := oneLine(stepName(st), 40)
	if st.Attempts > 1 {
		name += fmt.Sprintf(" (%d attempts)", st.Attempts)
	}
	took := ""
	if st.Status != journal.Skipped {
		took = Duration(st.Duration(now))
	}
	return []cell{
		{text: oneLine(jobName(st), labelMax)}, {text: name},
		{sign + " " + oneLine(result(st.Status, st.Outcome), 40) + origin(st), sgr},
		{text: took}, {text: tokensIn(st.Usage)}, {text: tokensOut(st.Usage)}, {text: Cost(st.Usage)},
	}
}

// origin says which run a step was taken over from, if one.
func origin(st *journal.StepState) string {
	if st.From == "" {
		return ""
	}
	return ", from " + oneLine(st.From, 40)
}

// jobName is the id of the step's job, and what the person calls it.
func jobName(st *journal.StepState) string {
	if st.JobName == "" || st.JobName == st.Job {
		return st.Job
	}
	return st.Job + ": " + st.JobName
}

// stepName is what the person calls the step; a step of an action that has an id
// alone is shown with those of the steps that use the action.
func stepName(st *journal.StepState) string {
	if strings.HasSuffix(st.ID, "/"+st.Name) {
		return st.ID
	}
	return st.Name
}

func totals(s journal.RunState, now time.Time) [][]cell {
	type total struct {
		n    int
		took time.Duration
		u    event.Usage
	}
	kinds := map[string]*total{"run": {}, "agent": {}}
	for _, st := range s.Steps() {
		// The steps of an action count, the action does not; a wait does nothing.
		k := kinds[st.Info.Kind]
		if k == nil || st.Status == journal.Skipped || st.From != "" {
			continue
		}
		k.n++
		k.took += st.Duration(now)
		k.u = k.u.Add(st.Usage)
	}
	var rows [][]cell
	for _, kind := range []string{"run", "agent"} {
		k := kinds[kind]
		if k.n == 0 {
			continue
		}
		rows = append(rows, []cell{{}, {plural(k.n, kind+" step"), dim}, {}, {Duration(k.took), dim},
			{tokensIn(k.u), dim}, {tokensOut(k.u), dim}, {Cost(k.u), dim}})
	}
	return append(rows, []cell{{"total", bold}, {}, {}, {Duration(s.Duration(now)), bold},
		{tokensIn(s.Usage), bold}, {tokensOut(s.Usage), bold}, {Cost(s.Usage), bold}})
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
