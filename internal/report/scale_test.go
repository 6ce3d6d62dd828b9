package report

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
)

// One iteration is the events of 10,000 steps without output, journaled and
// shown: what recording costs a run of many small steps.
func BenchmarkTenThousandSteps(b *testing.B) {
	dir := b.TempDir()
	for i := 0; b.Loop(); i++ {
		w, err := journal.Create(dir, fmt.Sprintf("r%06d", i))
		if err != nil {
			b.Fatal(err)
		}
		t := NewTerminal(io.Discard, TerminalOptions{})
		sink := event.Tee{w, t}
		now := time.Date(2026, 11, 21, 8, 45, 12, 0, time.UTC)
		sink.Emit(event.Event{Type: event.RunStarted, Time: now, Run: &event.RunInfo{ID: "r"}})
		info := &event.StepInfo{Kind: "run", Line: 3}
		ok := &event.Outcome{Outcome: "success", Conclusion: "success", DurationMS: 1}
		for n := range 10_000 {
			job := fmt.Sprint("job", n)
			sink.Emit(event.Event{Type: event.JobStarted, Time: now, Job: job, Name: job})
			sink.Emit(event.Event{Type: event.StepStarted, Time: now, Job: job, Step: "step-1", Attempt: 1, Name: "true", StepInfo: info})
			sink.Emit(event.Event{Type: event.StepFinished, Time: now, Job: job, Step: "step-1", Attempt: 1, Outcome: ok})
			sink.Emit(event.Event{Type: event.JobFinished, Time: now, Job: job, Outcome: ok})
		}
		sink.Emit(event.Event{Type: event.RunFinished, Time: now, Outcome: ok})
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		if err := t.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
