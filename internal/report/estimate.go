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
	took   []time.Duration
	tokens []int64
	cost   []float64
	least  bool // of some the cost is not known
}

func (s *samples) add(took time.Duration, u event.Usage) {
	s.took = append(s.took, took)
	if u.Requests == 0 {
		return
	}
	s.tokens = append(s.tokens, u.InputTokens+u.OutputTokens+u.CacheReadTokens+u.CacheWriteTokens)
	s.cost = append(s.cost, u.CostUSD)
	s.least = s.least || !u.CostKnown
}

// median is of the lower half's end and the upper half's beginning.
func median[T int64 | float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (s *samples) cells() []cell {
	row := []cell{{text: fmt.Sprint(len(s.took))}, {}, {}, {}, {}, {}, {}}
	if len(s.took) > 0 {
		row[1].text, row[2].text = Duration(median(s.took)), Duration(slices.Max(s.took))
	}
	if len(s.tokens) > 0 {
		row[3].text, row[4].text = number(median(s.tokens)), number(slices.Max(s.tokens))
		for i, c := range []float64{median(s.cost), slices.Max(s.cost)} {
			row[5+i].text = dollars(event.Usage{Requests: 1, CostUSD: c, CostKnown: !s.least})
		}
	}
	return row
}

// Estimate tells what a workflow's steps and runs took before: the median and
// the most. Legs of a matrix count as executions of one step; what was skipped,
// cancelled or cut off does not count, nor do replays, which take no time and
// cost nothing.
func Estimate(w io.Writer, steps []PlannedStep, runs []journal.RunState, color bool) error {
	bySteps := map[PlannedStep]*samples{}
	var whole samples
	left := 0
	for _, r := range runs {
		if r.Usage.Requests > 0 && r.Usage.CostBasis == "" {
			left++
			continue
		}
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
	if len(bySteps) == 0 {
		_, err := fmt.Fprintf(w, "nothing is known of this workflow yet: no run of it is recorded in this project%s\n", besides(left))
		return err
	}
	rows := [][]cell{header("JOB", "STEP", "N", "TIME", "MOST", "TOKENS", "MOST", "COST", "MOST")}
	for _, s := range steps {
		row := []cell{{text: oneLine(s.Job, labelMax)}, {text: oneLine(s.Step, 40)}}
		if got := bySteps[s]; got != nil {
			row = append(row, got.cells()...)
		} else {
			row = append(row, cell{"0", dim}, cell{"never ran", dim})
		}
		rows = append(rows, row)
	}
	rows = append(rows, append([]cell{{"a successful run", bold}, {}}, whole.cells()...))
	var b strings.Builder
	b.WriteString(table(paint(color), []bool{2: true, 3: true, 4: true, 5: true, 6: true, 7: true, 8: true}, rows))
	fmt.Fprintf(&b, "\nTIME, TOKENS and COST are medians of N earlier executions in %s%s.\n", plural(len(runs)-left, "run"), besides(left))
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
