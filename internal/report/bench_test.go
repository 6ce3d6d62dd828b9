package report

import (
	"bytes"
	"io"
	"testing"

	"github.com/herd-runner/herd-runner/internal/event"
)

func benchmarkLines(b *testing.B, perEvent int, make func() sink) {
	data := bytes.Repeat([]byte("123456\n"), perEvent)
	s := make()
	e := event.Event{Type: event.Output, Job: "build", Step: "step-1", Stream: "stdout", Data: data}
	for b.Loop() {
		for range 1_000_000 / perEvent {
			s.Emit(e)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// One iteration is 1,000,000 lines of 7 bytes, each in a write of its own or
// a thousand at once.
func BenchmarkTerminalMillionWrites(b *testing.B) {
	benchmarkLines(b, 1, func() sink { return NewTerminal(io.Discard, TerminalOptions{Color: true}) })
}

func BenchmarkTerminalMillionLines(b *testing.B) {
	benchmarkLines(b, 1000, func() sink { return NewTerminal(io.Discard, TerminalOptions{Color: true}) })
}

func BenchmarkGitHubMillionLines(b *testing.B) {
	benchmarkLines(b, 1000, func() sink { return newGitHub(io.Discard, GitHubOptions{Color: true}, zeros{}) })
}

func BenchmarkJSONMillionLines(b *testing.B) {
	benchmarkLines(b, 1000, func() sink { return NewJSON(io.Discard) })
}
