package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/herd-runner/herd-runner/internal/event"
)

// TestMemoryHog: a step that eats its box's memory fails with that cause, be it
// a script or an agent's tool, and the step beside it does not notice.
// THREATS 11.
func TestMemoryHog(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newProject(t, nil)
	r := m.run(t, dir, `
on: workflow_dispatch
jobs:
  hog:
    steps:
      - id: eat
        docker: {memory: 64m}
        timeout-minutes: 1
        run: tail /dev/zero
  beside:
    steps:
      - run: echo fine
`).wantCode(t, 1)
	out := r.step(t, "hog", "eat")
	if out.Cause != event.CauseOOM || !strings.Contains(out.Hint, "docker.memory") {
		t.Errorf("the hog: %+v, want cause oom and a hint at docker.memory", out)
	}
	if out := r.step(t, "beside", "step-1"); out.Outcome != "success" {
		t.Errorf("the step beside the hog: %+v", out)
	}
	m.wantNothingLeft(t, dir)
}

// TestForkBomb stays inside its box's pids-limit and ends with its step.
// THREATS 11.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	const limit = 48
	m := newMachine(t)
	dir := newProject(t, nil)
	p := m.startRun(t, dir, `
on: workflow_dispatch
jobs:
  bomb:
    steps:
      - id: fork
        docker: {pids-limit: 48}
        timeout-minutes: 0.1
        run: |
          echo lit
          bomb() { bomb | bomb & }
          bomb 2>/dev/null
          sleep 4330
  beside:
    steps:
      - run: for i in 1 2 3 4 5 6 7 8 9; do sh -c true; done; echo fine
`)
	box := p.awaitBox("bomb", "fork")
	p.awaitOutput("lit")
	most := uint64(0)
	limitReached := time.After(30 * time.Second)
	for ended := false; !ended && most < limit; {
		select {
		case <-p.done:
			ended = true
		case <-limitReached:
			t.Errorf("the bomb holds %d processes, want it at its limit of %d", most, limit)
			ended = true
		default:
			most = max(most, m.engine.processes(t, box))
		}
	}
	if most > limit {
		t.Errorf("the bomb had %d processes, limit %d", most, limit)
	}
	if most < limit/2 {
		t.Errorf("the bomb had only %d processes: it did not go off", most)
	}
	r := p.wait().wantCode(t, 1)
	if out := r.step(t, "bomb", "fork"); out.Cause != event.CauseTimeout && out.Cause != event.CauseResourceLimit && out.Cause != event.CauseExitCode {
		t.Errorf("the bomb: %+v", out)
	}
	if out := r.step(t, "beside", "step-1"); out.Outcome != "success" {
		t.Errorf("the step beside the bomb: %+v", out)
	}
	m.wantNothingLeft(t, dir)
}

// processes is how many the engine counts in a container; 0 when it is gone.
func (e engine) processes(t *testing.T, id string) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got, err := e.ContainerStatsOneShot(ctx, id)
	if err != nil {
		return 0
	}
	defer got.Body.Close()
	var stats container.StatsResponse
	if err := json.NewDecoder(got.Body).Decode(&stats); err != nil {
		return 0
	}
	return stats.PidsStats.Current
}

// TestTimeoutEndsTheWholeTree, also what has detached itself, stopped itself or
// does not listen. The next step of the job shares the box and looks.
// THREATS 12.
func TestTimeoutEndsTheWholeTree(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newProject(t, nil)
	r := m.run(t, dir, `
on: workflow_dispatch
jobs:
  slow:
    steps:
      - id: slow
        timeout-minutes: 0.05
        run: |
          (setsid sleep 4331 >/dev/null 2>&1 &)
          (setsid sh -c 'trap "" INT TERM HUP; sleep 4332; sleep 4333' >/dev/null 2>&1 &)
          setsid sleep 4334 & kill -STOP $!
          echo begun
          wait
      - id: look
        if: always()
        run: |
          for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' <"$f"; echo; done 2>/dev/null | grep '^sleep 433' || echo none runs on
`).wantCode(t, 1)
	out := r.step(t, "slow", "slow")
	if out.Cause != event.CauseTimeout || !strings.Contains(out.Message, "timeout-minutes: 0.05") {
		t.Errorf("the slow step: %+v, want cause timeout", out)
	}
	if took := time.Duration(out.DurationMS) * time.Millisecond; took > 3*time.Second+15*time.Second {
		t.Errorf("the slow step took %v", took)
	}
	if got := strings.TrimSpace(r.output("slow", "look")); got != "none runs on" {
		t.Errorf("in the next step's box there is:\n%s", got)
	}
	m.wantNothingLeft(t, dir)
}

// THREATS 11: a box whose memory is used up by more than a process can answer for
// (files in memory count, and nobody can be killed for them) fails its step with
// the cause oom; a hog of file descriptors ends at the box's limits. The steps
// beside them do not notice.
func TestHogsOfTheWholeBox(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newProject(t, nil)
	p := m.startRun(t, dir, `
on: workflow_dispatch
defaults: {docker: {network: none}, workspace: ro}
jobs:
  memory:
    steps:
      - id: eat
        docker: {memory: 64m, tmpfs: ["/scratch:size=200m"]}
        timeout-minutes: 1
        run: cat /dev/zero >/scratch/all
  crowd:
    steps:
      - id: eat
        docker: {memory: 96m, pids-limit: 64}
        timeout-minutes: 1
        run: |
          for i in $(seq 40); do tail /dev/zero & done
          wait -n; wait
          exit 9
  files:
    steps:
      - id: open
        docker: {memory: 128m, ulimits: {nofile: 256}}
        timeout-minutes: 1
        run: |
          exec perl -e 'my @f; while (1) { open(my $f, "<", "/dev/null") or die "out of files: $!"; push @f, $f }'
  all-files:
    steps:
      - id: open
        docker: {memory: 64m}
        timeout-minutes: 1
        run: |
          exec perl -e 'my @f; while (1) { open(my $f, "<", "/dev/null") or die "out of files: $!"; push @f, $f }'
  beside:
    steps:
      - id: work
        run: while ! test -e over; do sh -c 'cat /proc/self/status' >/dev/null || exit 5; sleep 0.1; done; echo fine
`)
	for _, job := range []string{"memory", "crowd", "files", "all-files"} {
		p.await("the end of "+job, func(e event.Event) bool { return e.Type == event.JobFinished && e.Job == job })
	}
	write(t, dir+"/over", "")
	r := p.wait().wantCode(t, 1)
	for job, step := range map[string]string{"memory": "eat", "crowd": "eat"} {
		if out := r.step(t, job, step); out.Cause != event.CauseOOM || !strings.Contains(out.Hint, "memory") {
			t.Errorf("%s: %+v, want cause oom", job, out)
		}
	}
	for _, job := range []string{"files", "all-files"} {
		if out := r.step(t, job, "open"); out.Cause != event.CauseResourceLimit || !strings.Contains(out.Hint, "nofile") {
			t.Errorf("%s: %+v, want cause resource_limit", job, out)
		}
	}
	if out := r.step(t, "beside", "work"); out.Outcome != "success" || r.output("beside", "work") != "fine\n" {
		t.Errorf("beside them: %+v", out)
	}
	m.wantNothingLeft(t, dir)
}
