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
