package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/claude"
)

// TestClaudesPermissionModes (RUNTIME-03): what validate takes for permission-mode is
// what the Claude Code of the image takes, and all of it.
func TestClaudesPermissionModes(t *testing.T) {
	t.Parallel()
	needEngine(t)
	_, err := claude.New().Command(runtimes.Task{Prompt: "-", Config: runtimes.Config{PermissionMode: "none"}})
	_, list, ok := strings.Cut(err.Error(), "runtime claude has ")
	ours := strings.Split(list, ", ")
	if !ok || len(ours) < 2 {
		t.Fatalf("%v", err)
	}
	m := newMachine(t)
	r := m.run(t, newProject(t, nil), `
on: workflow_dispatch
defaults: {docker: {network: none}}
jobs:
  ask:
    steps:
      - id: all
        run: |
          for mode in none `+strings.Join(ours, " ")+`; do echo "$mode: $(claude -p x --permission-mode=$mode 2>&1)"; done
`).wantCode(t, 0)
	said := r.output("ask", "all")
	_, list, ok = strings.Cut(said, "Allowed choices are ")
	list, _, _ = strings.Cut(list, ".")
	if !ok {
		t.Fatalf("it does not refuse none: %s", said)
	}
	for _, mode := range strings.Split(list, ", ") {
		if !slices.Contains(ours, mode) {
			t.Errorf("it takes %q, which is not in %v", mode, ours)
		}
	}
	for _, mode := range ours {
		if !strings.Contains(said, "\n"+mode+": Not logged in") {
			t.Errorf("it does not take %q: %s", mode, said)
		}
	}
}
