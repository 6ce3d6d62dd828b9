//go:build soak

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
)

// soakBoxes is how many boxes a soak starts; SOAK_BOXES says otherwise.
const soakBoxes = 200

// perRun is how many boxes one run of the soak has.
const perRun = 20

const soakFlow = `
on: workflow_dispatch
defaults: {docker: {image: herd-test/busybox:1, network: none, memory: 64m}}
jobs:
  leg:
    strategy:
      fail-fast: false
      matrix: {n: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]}
    steps:
      - {id: work, run: "(setsid sleep MARK &); seq 2000; sleep 0.$RANDOM"}
  last:
    needs: leg
    if: always()
    steps:
      - {id: work, run: echo over}
`

// TestSoak: runs whose boxes, runners and engine are killed at random leave
// nothing behind, and no record of theirs is lost (THREATS 13, FR-009).
func TestSoak(t *testing.T) {
	boxes := soakBoxes
	if s := os.Getenv("SOAK_BOXES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("SOAK_BOXES=%q: expected a number", s)
		}
		boxes = n
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	mark := fmt.Sprintf("4242.%d", seed) // no other process has it
	flow := strings.ReplaceAll(soakFlow, "MARK", mark)
	e := newOwnEngine(t, busyboxImage)
	m := e.machine()
	dir := newProject(t, nil)
	for started, round := 0, 1; started < boxes; started, round = started+perRun, round+1 {
		killRunner, killBoxes, killEngine := dice.IntN(3) == 0, dice.IntN(2) == 0, dice.IntN(3) == 0
		p := m.startRun(t, dir, flow, "--max-parallel", "4")
		var hit sync.WaitGroup
		if killBoxes {
			for range 3 {
				hit.Go(func() { m.killSomeBox(t, p) })
			}
		}
		if killEngine {
			after := time.Duration(500+dice.IntN(4000)) * time.Millisecond
			hit.Go(func() {
				time.Sleep(after)
				e.Kill()
			})
		}
		if killRunner {
			after := time.Duration(500+dice.IntN(6000)) * time.Millisecond
			select {
			case <-p.done:
			case <-time.After(after):
				p.signal(syscall.SIGKILL)
			}
		}
		r := p.wait()
		hit.Wait()
		if killEngine {
			e.Start()
		}
		t.Logf("round %d: killed runner %v, boxes %v, engine %v; exit %d", round, killRunner, killBoxes, killEngine, r.code)
		if !killRunner && r.code != 0 && r.code != 1 && r.code != 3 {
			t.Errorf("round %d: exit %d\n%s", round, r.code, r.stderr)
		}
		wantJournal(t, dir, r)
	}
	// The next start clears up after the killed.
	m.run(t, dir, "on: workflow_dispatch\njobs: {a: {steps: [{run: 'true', docker: "+busyboxImage+"}]}}\n").wantCode(t, 0)
	for _, c := range m.engine.boxes(t, m.state) {
		t.Errorf("left on the engine: %s %s %v", c.ID[:12], c.State, c.Labels)
	}
	if left := processesNaming(t, mark); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	for _, pattern := range []string{"boxes", "temp", "git"} {
		if left, _ := filepath.Glob(filepath.Join(dir, ".herd/runs/*", pattern)); len(left) > 0 {
			t.Errorf("left on disk: %v", left)
		}
	}
}

// killSomeBox kills a box of the run that has just started.
func (m *machine) killSomeBox(t *testing.T, p *process) {
	n := 1 + rand.IntN(perRun/2)
	limit := time.After(20 * time.Second)
	for {
		p.mu.Lock()
		events, changed := p.events, p.changed
		p.mu.Unlock()
		seen := 0
		for _, e := range events {
			if e.Type != event.BoxStarted {
				continue
			}
			if seen++; seen == n {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				_ = m.engine.ContainerKill(ctx, e.Box.ID, "KILL") // it may be gone
				return
			}
		}
		select {
		case <-changed:
		case <-p.done:
			return
		case <-limit:
			return
		}
	}
}
