package report

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
)

// PlannedStep is a step of a workflow, for what earlier runs tell of it.
type PlannedStep struct{ Job, Step string }

// samples are what runs or executions of a step took.
type samples struct {
	took   []int64 // ms
	tokens []int64
	cost   []float64
	least  bool // of some the cost is not known
}

func (s *samples) add(took time.Duration, u event.Usage) {
	s.took = append(s.took, took.Milliseconds())
	if u.Requests == 0 {
		return
	}
	s.tokens = append(s.tokens, u.InputTokens+u.OutputTokens+u.CacheReadTokens+u.CacheWriteTokens)
	s.cost = append(s.cost, u.CostUSD)
	s.least = s.least || !u.CostKnown
}

// median is of the lower half's end and the upper half's beginning.
func median[T int64 | float64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (t *Took) cells() []cell {
	ms := func(n int64) string { return Duration(time.Duration(n) * time.Millisecond) }
	row := []cell{{text: fmt.Sprint(t.Executions)}, {text: ms(t.DurationMS.Median)}, {text: ms(t.DurationMS.Most)}, {}, {}, {}, {}}
	if t.Tokens != nil {
		row[3].text, row[4].text = number(t.Tokens.Median), number(t.Tokens.Most)
		for i, c := range []float64{t.CostUSD.Median, t.CostUSD.Most} {
			row[5+i].text = dollars(event.Usage{Requests: 1, CostUSD: c, CostKnown: t.CostKnown})
		}
	}
	return row
}

// Forecast is what earlier runs tell of a workflow.
type Forecast struct {
	Runs    int            `json:"runs"`             // that are told of
	Replays int            `json:"replays_left_out"` // they take no time and cost nothing
	Steps   []StepForecast `json:"steps"`
	Run     *Took          `json:"run"` // a successful one; null: there was none
}

// StepForecast is of one step; legs of a matrix count as executions of it.
type StepForecast struct {
	Job  string `json:"job"`
	Step string `json:"step"`
	*Took
}

// Took is what executions took, median and most. Nil where nothing was: of
// tokens and cost where no model was asked.
type Took struct {
	Executions int              `json:"executions"`
	DurationMS Spread[int64]    `json:"duration_ms"`
	Tokens     *Spread[int64]   `json:"tokens,omitempty"` // of all kinds
	CostUSD    *Spread[float64] `json:"cost_usd,omitempty"`
	CostKnown  bool             `json:"cost_known"` // false: the cost is a lower bound
}

// Spread is of several values.
type Spread[T int64 | float64] struct {
	Median T `json:"median"`
	Most   T `json:"most"`
}

func spread[T int64 | float64](values []T) Spread[T] {
	return Spread[T]{median(values), slices.Max(values)}
}

func (s *samples) sum() *Took {
	if s == nil || len(s.took) == 0 {
		return nil
	}
	t := &Took{Executions: len(s.took), DurationMS: spread(s.took), CostKnown: !s.least}
	if len(s.tokens) > 0 {
		tokens, cost := spread(s.tokens), spread(s.cost)
		t.Tokens, t.CostUSD = &tokens, &cost
	}
	return t
}

// Foresee tells what a workflow's steps and runs took before. What was skipped,
// cancelled or cut off does not count.
func Foresee(steps []PlannedStep, runs []journal.RunState) Forecast {
	bySteps := map[PlannedStep]*samples{}
	var whole samples
	f := Forecast{Steps: []StepForecast{}}
	for _, r := range runs {
		if r.Usage.Requests > 0 && r.Usage.CostBasis == "" {
			f.Replays++
			continue
		}
		f.Runs++
		if r.Status == journal.Success {
			whole.add(r.Duration(r.Finished), r.Usage)
		}
		for _, st := range r.Steps() {
			if st.Status != journal.Success && st.Status != journal.Failure {
				continue
			}
			key := PlannedStep{jobOfLeg(st.Job), st.ID}
			if bySteps[key] == nil {
				bySteps[key] = &samples{}
				if !slices.Contains(steps, key) {
					steps = append(steps, key) // of an action or a called workflow
				}
			}
			bySteps[key].add(st.Duration(st.Finished), st.Usage)
		}
	}
	for _, s := range steps {
		f.Steps = append(f.Steps, StepForecast{s.Job, s.Step, bySteps[s].sum()})
	}
	f.Run = whole.sum()
	return f
}

// Estimate prints f as a table.
func Estimate(w io.Writer, f Forecast, color bool) error {
	if !slices.ContainsFunc(f.Steps, func(s StepForecast) bool { return s.Took != nil }) {
		_, err := fmt.Fprintf(w, "nothing is known of this workflow yet: no run of it is recorded in this project%s\n", besides(f.Replays))
		return err
	}
	rows := [][]cell{header("JOB", "STEP", "N", "TIME", "MOST", "TOKENS", "MOST", "COST", "MOST")}
	for _, s := range f.Steps {
		row := []cell{{text: oneLine(s.Job, labelMax)}, {text: oneLine(s.Step, 40)}}
		if s.Took != nil {
			row = append(row, s.cells()...)
		} else {
			row = append(row, cell{"0", dim}, cell{"never ran", dim})
		}
		rows = append(rows, row)
	}
	last := []cell{{"a successful run", bold}, {}}
	if f.Run != nil {
		last = append(last, f.Run.cells()...)
	} else {
		last = append(last, cell{text: "0"})
	}
	rows = append(rows, last)
	var b strings.Builder
	b.WriteString(table(paint(color), []bool{2: true, 3: true, 4: true, 5: true, 6: true, 7: true, 8: true}, rows))
	fmt.Fprintf(&b, "\nTIME, TOKENS and COST are medians of N earlier executions in %s%s.\n", plural(f.Runs, "run"), besides(f.Replays))
	_, err := io.WriteString(w, b.String())
	return err
}

func besides(replays int) string {
	if replays == 0 {
		return ""
	}
	return ", " + plural(replays, "replay") + " left out"
}

var matrixValues = regexp.MustCompile(` \([^()]*\)`)

// jobOfLeg is the job's id without the values of a matrix.
func jobOfLeg(leg string) string { return matrixValues.ReplaceAllString(leg, "") }
