//go:build soak

package e2e

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSoakRerun kills runners at random and has reruns go on until one comes to the
// end: what they did together is what one run does, and of what was done only what
// was under way when a runner was killed is done again (THREATS 13).
func TestSoakRerun(t *testing.T) {
	const rounds = 10
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	m := newMachine(t)
rounds:
	for round := range rounds {
		dir := newProject(t, nil)
		p := m.startRun(t, dir, `
on: workflow_dispatch
defaults: {docker: {image: `+busyboxImage+`, network: none, memory: 64m}}
jobs:
  list: {outputs: {l: "${{ steps.s.outputs.l }}"}, steps: [{id: s, run: "echo list >>count; echo 'l=[1,2,3]' >>$GITHUB_OUTPUT"}]}
  legs:
    needs: list
    strategy: {matrix: {v: "${{ fromJSON(needs.list.outputs.l) }}"}}
    outputs: {"o${{ matrix.v }}": "x${{ matrix.v }}"}
    steps: [{run: "sleep 0.${{ matrix.v }}; echo leg >>count"}]
  last: {needs: legs, steps: [{run: "echo 'last ${{ join(needs.legs.matrix.*.result) }} ${{ needs.legs.outputs.o1 }}${{ needs.legs.outputs.o2 }}${{ needs.legs.outputs.o3 }}' >>count"}]}
`)
		kills := 0
		for {
			select {
			case <-p.done:
			case <-time.After(time.Duration(100+dice.IntN(2500)) * time.Millisecond):
				p.signal(syscall.SIGKILL)
			}
			r := p.wait()
			if r.code == 0 || r.code == 2 && strings.Contains(r.stderr, "has succeeded") {
				break
			}
			if r.code != -1 {
				t.Fatalf("round %d: exit %d after %d kills\n%s", round, r.code, kills, r.stderr)
			}
			kills++
			if _, err := os.Stat(filepath.Join(dir, ".herd/runs", m.newestRun(t, dir), "given.json")); err != nil {
				t.Logf("round %d: it was killed before it began", round)
				continue rounds
			}
			p = m.start(t, "rerun", "--failed", "--json", "-C", dir)
		}
		did := strings.Split(strings.TrimSpace(read(t, filepath.Join(dir, "count"))), "\n")
		t.Logf("round %d: %d kills, %d things done", round, kills, len(did))
		if last := did[len(did)-1]; last != "last success,success,success x1x2x3" {
			t.Errorf("round %d ended with %q", round, last)
		}
		const jobs, atOnce = 5, 3
		if len(did) > jobs+kills*atOnce {
			t.Errorf("round %d: %d things were done after %d kills", round, len(did), kills)
		}
		m.wantNothingLeft(t, dir)
	}
}

func (m *machine) newestRun(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, ".herd/runs"))
	if err != nil || len(entries) == 0 {
		t.Fatalf("no run was recorded: %v", err)
	}
	return entries[len(entries)-1].Name()
}
