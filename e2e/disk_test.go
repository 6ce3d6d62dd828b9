package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/herd-runner/herd-runner/internal/event"
)

// smallDisk makes a project on a file system of its own.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a file system of its own can be mounted by root alone")
	}
	dir := t.TempDir()
	if err := syscall.Mount("herd-test", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	project := filepath.Join(dir, "project")
	if err := os.Mkdir(project, 0o755); err != nil {
		t.Fatal(err)
	}
	giveToUser(t, dir)
	return project
}

// THREATS 11: who fills this machine's disk, where an engine bounds nothing, is
// ended before it is full, with its cause; the step beside it, which writes there
// all the time, and the run's record do not notice.
func TestDiskHog(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ options, fill, left string }{
		"bytes": {"size=300m", `while :; do head -c 4M /dev/zero >>"$HOME/fill"; sleep 0.05; done`, "MiB were left on the disk of "},
		"files in the project": {"size=300m,nr_inodes=40000",
			`mkdir many; cd many; seq 30000 | xargs touch; i=0; while :; do i=$((i+1)); : >more$i; test $((i % 100)) != 0 || sleep 0.05; done`, " files were left on the disk of "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := smallDisk(t, test.options)
			m := newMachine(t)
			p := m.startRun(t, dir, `
on: workflow_dispatch
defaults: {docker: {network: none, memory: 256m}}
jobs:
  hog: {steps: [{id: fill, run: '`+test.fill+`'}]}
  beside:
    workspace: ro # in a project that both may write nobody could tell who did
    steps:
      - id: write
        run: |
          until test -e "$GITHUB_WORKSPACE/over"; do
            echo x >>"$HOME/mine"; : >"$HOME/new$((i+=1))"; sleep 0.1
          done
          echo fine
`, "--min-free", "100m")
			p.await("the hog's end", func(e event.Event) bool { return e.Type == event.StepFinished && e.Job == "hog" })
			write(t, filepath.Join(dir, "over"), "")
			r := p.wait().wantCode(t, 1)
			out := r.step(t, "hog", "fill")
			if out.Cause != event.CauseResourceLimit || !strings.Contains(out.Message, test.left+dir) || !strings.Contains(out.Hint, "--min-free") {
				t.Errorf("the hog: %+v", out)
			}
			if out := r.step(t, "beside", "write"); out.Outcome != "success" || !strings.HasSuffix(r.output("beside", "write"), "fine\n") {
				t.Errorf("beside it: %+v, %q", out, r.output("beside", "write"))
			}
			wantJournal(t, dir, r)
			m.wantNothingLeft(t, dir)
		})
	}
	m := newMachine(t)
	if r := m.call(t, "run", "--min-free", "much", "flow.yml"); r.code != 2 || !strings.Contains(r.stderr, "expected a size such as 1g") {
		t.Errorf("exit %d, %s", r.code, r.stderr)
	}
}

// THREATS 13: on a disk that is full to the last byte, the record of a run can be
// read up to where there was room, the run says what is missing of it, and once
// there is room the next one works.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "size=24m")
	m := newMachine(t)
	const workflow = `
on: workflow_dispatch
defaults: {docker: {network: none, memory: 256m}}
jobs:
  before: {steps: [{id: s, run: echo early}]}
  fill:
    needs: before
    steps:
      - id: s
        run: |
          cat /dev/zero >fill || true
          for i in $(seq 200000); do echo "line $i that has no room any more"; done
          exit 7
`
	r := m.run(t, dir, workflow, "--min-free", "0")
	if out := r.step(t, "fill", "s"); out.Cause != event.CauseResourceLimit || !strings.Contains(out.Message, "no room was left in") {
		t.Errorf("the step that filled it: %+v", out)
	}
	r.wantCode(t, 3)
	if !strings.Contains(r.stderr+r.stdout, "no space left") || !strings.Contains(r.stderr+r.stdout, "not complete") {
		t.Errorf("nobody says that the record is not complete: exit %d\n%s", r.code, r.stderr)
	}
	if show := m.call(t, "show", "-C", dir).wantCode(t, 0); !strings.Contains(show.stdout, "before") {
		t.Errorf("show:\n%s", show.stdout)
	}
	if logs := m.call(t, "logs", "-C", dir, "latest", "before").wantCode(t, 0); !strings.Contains(logs.stdout, "early") {
		t.Errorf("logs:\n%s", logs.stdout)
	}
	if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
		t.Fatal(err)
	}
	next := m.run(t, dir, "on: workflow_dispatch\njobs: {a: {steps: [{id: s, run: echo again}]}}\n").wantCode(t, 0)
	if got := next.output("a", "s"); got != "again\n" {
		t.Errorf("the next run said %q", got)
	}
	wantJournal(t, dir, next)
	m.wantNothingLeft(t, dir)
}
