package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/internal/event"
)

// TestRetryGoesOnWhereTheAgentWas: a rate limit in the middle of the work does
// not throw the work away, nor do it twice.
func TestRetryGoesOnWhereTheAgentWas(t *testing.T) {
	for _, test := range []struct{ name, runtime string }{
		{"claude", "{type: cli, engine: claude, model: sonnet}"},
		{"sdk", "{type: sdk, engine: anthropic, model: claude-sonnet-4-5}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			model := newModel(t, `
scenarios:
  - name: count
    prompt: Count once
    turns:
      - calls: [{name: "Bash|bash", input: {command: "echo counted >>count.txt", description: count}}]
      - text: Counted once.
`)
			model.limit(1, afterTool)
			m := newMachine(t, model.asked("sk-ant-test")...)
			dir := newProject(t, nil)
			r := m.run(t, dir, `
on: workflow_dispatch
jobs:
  a:
    steps:
      - id: count
        prompt: Count once
        runtime: `+test.runtime+`
        docker: {network: none}
        retry: {max: 1, on: [rate_limited]}
`)
			out := r.step(t, "a", "count")
			if r.code != 0 || out.Outputs["result"] != "Counted once." {
				t.Errorf("exit %d: %+v", r.code, out)
			}
			if got := strings.Count(read(t, filepath.Join(dir, "count.txt")), "counted"); got != 1 {
				t.Errorf("counted %d times, want once", got)
			}
			if last := r.events[len(r.events)-1]; last.Type != event.RunFinished {
				t.Errorf("the last event is %+v", last)
			}
			m.wantNothingLeft(t, dir)
		})
	}
}
