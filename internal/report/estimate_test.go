package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
)

func earlier(status journal.Status, basis string, steps ...*journal.StepState) journal.RunState {
	r := journal.RunState{Status: status, Outcome: &event.Outcome{DurationMS: 60_000}}
	for _, s := range steps {
		r.Jobs = append(r.Jobs, &journal.JobState{ID: s.Job, Steps: []*journal.StepState{s}})
		if s.Usage.Requests > 0 {
			s.Usage.CostBasis = basis
		}
		r.Usage = r.Usage.Add(s.Usage)
	}
	return r
}

func took(job, step string, status journal.Status, d time.Duration, tokens int64, cost float64, known bool) *journal.StepState {
	s := &journal.StepState{Job: job, ID: step, Status: status, Outcome: &event.Outcome{DurationMS: d.Milliseconds()}}
	if tokens > 0 {
		s.Usage = event.Usage{Requests: 1, InputTokens: tokens, CostUSD: cost, CostKnown: known}
	}
	return s
}

func TestEstimate(t *testing.T) {
	steps := []PlannedStep{{"fix", "mend"}, {"fix", "test"}, {"fix", "new"}}
	runs := []journal.RunState{
		earlier(journal.Success, "api",
			took("fix (a)", "mend", journal.Success, 10*time.Second, 1000, 0.1, true),
			took("fix (b)", "mend", journal.Failure, 20*time.Second, 3000, 0.3, true),
			took("fix (a)", "test", journal.Success, time.Second, 0, 0, false)),
		earlier(journal.Failure, "api",
			took("fix (c)", "mend", journal.Success, 90*time.Second, 9000, 0.9, true),
			took("fix (c)", "test", journal.Skipped, 0, 0, 0, false),
			took("call / b", "ask", journal.Success, time.Second, 10, 0, false)),
		earlier(journal.Cancelled, "api", took("fix (a)", "mend", journal.Cancelled, time.Hour, 99999, 9, true)),
		earlier(journal.Success, "", took("fix (a)", "mend", journal.Success, time.Millisecond, 1, 0.0001, true)),
	}
	var b strings.Builder
	if err := Estimate(&b, Foresee(steps, runs), false); err != nil {
		t.Fatal(err)
	}
	want := `JOB               STEP  N       TIME   MOST  TOKENS   MOST     COST     MOST
fix               mend  3      20.0s  1m30s   3,000  9,000  $0.3000  $0.9000
fix               test  1       1.0s   1.0s
fix               new   0  never ran
call / b          ask   1       1.0s   1.0s      10     10        ?        ?
a successful run        1      1m00s  1m00s   4,000  4,000  $0.4000  $0.4000

TIME, TOKENS and COST are medians of N earlier executions in 3 runs, 1 replay left out.
`
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
	b.Reset()
	if err := Estimate(&b, Foresee(steps, runs[3:]), false); err != nil || !strings.HasPrefix(b.String(), "nothing is known of this workflow yet") {
		t.Errorf("%v %s", err, b.String())
	}

	// The same for programs.
	data, err := json.Marshal(Foresee(steps[:2], runs))
	wantJSON := `{"runs":3,"replays_left_out":1,"steps":[` +
		`{"job":"fix","step":"mend","executions":3,"duration_ms":{"median":20000,"most":90000},"tokens":{"median":3000,"most":9000},"cost_usd":{"median":0.3,"most":0.9},"cost_known":true},` +
		`{"job":"fix","step":"test","executions":1,"duration_ms":{"median":1000,"most":1000},"cost_known":true},` +
		`{"job":"call / b","step":"ask","executions":1,"duration_ms":{"median":1000,"most":1000},"tokens":{"median":10,"most":10},"cost_usd":{"median":0,"most":0},"cost_known":false}],` +
		`"run":{"executions":1,"duration_ms":{"median":60000,"most":60000},"tokens":{"median":4000,"most":4000},"cost_usd":{"median":0.4,"most":0.4},"cost_known":true}}`
	if string(data) != wantJSON || err != nil {
		t.Errorf("got:\n%s %v\nwant:\n%s", data, err, wantJSON)
	}
	if data, err := json.Marshal(Foresee(steps[:1], nil)); err != nil || string(data) != `{"runs":0,"replays_left_out":0,"steps":[{"job":"fix","step":"mend"}],"run":null}` {
		t.Errorf("%s %v", data, err)
	}
}
