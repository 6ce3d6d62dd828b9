package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/internal/event"
)

// TestMatrixOfBoxes: legs in boxes of their own, a few at a time, do not meet.
func TestMatrixOfBoxes(t *testing.T) {
	t.Parallel()
	const legs = 12
	m := newMachine(t)
	dir := newRepository(t, map[string]string{"a.txt": "a\n"})
	r := m.run(t, dir, `
on: workflow_dispatch
defaults: {docker: {network: none, memory: 128m}}
jobs:
  plan:
    outputs: {legs: "${{ steps.list.outputs.legs }}"}
    steps:
      - id: list
        run: echo "legs=[$(seq -s, 1 12)]" >>"$GITHUB_OUTPUT"
  leg:
    needs: plan
    strategy: {matrix: {n: "${{ fromJSON(needs.plan.outputs.legs) }}"}}
    outputs: {last: "${{ steps.say.outputs.n }}"}
    steps:
      - {run: 'test ! -e "$HOME/mark" -a ! -e "$RUNNER_TEMP/mark" -a ! -e /tmp/mark && touch "$HOME/mark" "$RUNNER_TEMP/mark" /tmp/mark'}
      - id: say
        env: {N: "${{ matrix.n }}"}
        run: test -e "$HOME/mark" && echo "$N" >"leg-$N.txt" && echo "n=$N" >>"$GITHUB_OUTPUT"
  sum:
    needs: leg
    steps:
      - {id: sum, run: cat leg-*.txt | sort -n | paste -sd+}
`, "--max-parallel", "4").wantCode(t, 0)
	boxes := map[string]bool{}
	for _, e := range r.events {
		if e.Type == event.BoxStarted {
			boxes[e.Box.ID] = true
		}
	}
	if got, want := r.output("sum", "sum"), "1+2+3+4+5+6+7+8+9+10+11+12\n"; got != want {
		t.Errorf("the last job saw %q, want %q", got, want)
	}
	if len(boxes) != legs+2 {
		t.Errorf("%d boxes, want one for each of %d legs and 2 jobs", len(boxes), legs)
	}
	for n := range legs {
		if got := read(t, filepath.Join(dir, fmt.Sprintf("leg-%d.txt", n+1))); got != fmt.Sprintln(n+1) {
			t.Errorf("leg %d wrote %q", n+1, got)
		}
	}
	m.wantNothingLeft(t, dir)
}

// TestLogsFollowARunElsewhere: `logs -f`, `ps` and `show` in another terminal
// while the run goes on.
func TestLogsFollowARunElsewhere(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newProject(t, nil)
	p := m.startRun(t, dir, `
on: workflow_dispatch
jobs:
  a:
    steps:
      - id: wait
        run: echo before; while ! test -e go.txt; do sleep 0.1; done; echo after
`)
	p.awaitOutput("before")
	run := p.await("run", func(e event.Event) bool { return e.Type == event.RunStarted }).Run.ID
	follower := m.start(t, "logs", "-f", "-C", dir, run, "a/wait")
	for _, verb := range []string{"ps", "show"} {
		if got := m.call(t, verb, "-C", dir).wantCode(t, 0); !strings.Contains(got.stdout, run) || !strings.Contains(got.stdout, "running") {
			t.Errorf("%s while it runs:\n%s", verb, got.stdout)
		}
	}
	write(t, filepath.Join(dir, "go.txt"), "")
	p.wait().wantCode(t, 0)
	if got := follower.wait().wantCode(t, 0); !strings.Contains(got.stdout, "before\n") || !strings.Contains(got.stdout, "after\n") {
		t.Errorf("logs -f:\n%s", got.stdout)
	}
	if got := m.call(t, "ps", "-C", dir).wantCode(t, 0); strings.Contains(got.stdout, "running") {
		t.Errorf("ps after it:\n%s", got.stdout)
	}
	m.wantNothingLeft(t, dir)
}

// TestBoundedDisk: what a box has in memory is bounded, and full is said.
// THREATS 11.
func TestBoundedDisk(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newProject(t, nil)
	r := m.run(t, dir, `
on: workflow_dispatch
jobs:
  a:
    steps:
      - id: fill
        docker: {memory: 64m, network: none, tmpfs: ["/scratch:size=1m"], ulimits: {nofile: 64}}
        run: |
          head -c 200M /dev/zero >/tmp/full && echo "no end to /tmp" || echo "tmp is bounded"
          rm -f /tmp/full
          head -c 2M /dev/zero >/scratch/full && echo "no end to /scratch" || echo "scratch is bounded"
          test "$(ulimit -n)" = 64 && echo "files are bounded"
          perl -e 'my @f; for (1..200) { open(my $f, "<", "/dev/null") or do { print "out of files\n"; exit }; push @f, $f } print "no end to files\n"'
          touch /usr/local/x || echo "the root is read-only"
`).wantCode(t, 0)
	got := r.output("a", "fill")
	for _, want := range []string{"tmp is bounded", "scratch is bounded", "files are bounded", "out of files", "the root is read-only"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q:\n%s", want, got)
		}
	}
	m.wantNothingLeft(t, dir)
}
