package journal

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
)

const childEnv = "JOURNAL_TEST_PROJECT"

// A runner killed with SIGKILL leaves a record that can be read up to its last
// event, and is known to be dead at once.
// THREATS 13.
func TestAKilledRunner(t *testing.T) {
	if project := os.Getenv(childEnv); project != "" {
		w, err := Create(project, "20260101-000000-0001")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range run("20260101-000000-0001")[:6] {
			w.Emit(e)
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed
		return
	}
	project := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestAKilledRunner$")
	child.Env = append(os.Environ(), childEnv+"="+project)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r := waitForRun(ctx, t, project)
	killed := false
	err = r.Stream(ctx, StreamOptions{Follow: true}, sinkFunc(func(e event.Event) {
		if e.Type == event.Output && !killed {
			killed = true
			if live, err := r.Alive(); !live || err != nil {
				t.Errorf("before the kill: alive = %v, %v", live, err)
			}
			if err := child.Process.Kill(); err != nil {
				t.Error(err)
			}
			if err := child.Wait(); err == nil {
				t.Error("the child ended well")
			}
		}
	}))
	if !errors.Is(err, ErrDied) {
		t.Errorf("follow: %v", err)
	}
	s, err := State(r)
	if err != nil || s.Status != Died || s.Step("build", "step-1").Status != Died {
		t.Errorf("%+v %v", s, err)
	}
	if got := read(t, r.Dir, "logs", "build", "step-1.log"); !strings.HasPrefix(got, "hello\n") {
		t.Errorf("log = %q", got)
	}
	if removed, err := Prune(project, time.Now().Add(time.Hour), false); err != nil || len(removed) != 1 {
		t.Errorf("prune: %v %v", removed, err)
	}
}

func waitForRun(ctx context.Context, t *testing.T, project string) *Reader {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if r, err := Open(project, "20260101-000000-0001"); err == nil {
			return r
		}
		select {
		case <-ctx.Done():
			t.Fatal("the run did not appear")
		case <-tick.C:
		}
	}
}
