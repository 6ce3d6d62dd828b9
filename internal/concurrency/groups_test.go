package concurrency

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be another process that holds a group until its
// stdin ends, or until it is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("HOLD_GROUP_IN"); dir != "" {
		g := &Groups{Dir: dir}
		held, err := g.Acquire(context.Background(), request("child"), nil)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		select {
		case <-held.Lost():
			fmt.Println(held.Why())
		case <-eof():
		}
		if err := held.Release(); err != nil {
			fmt.Println(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func eof() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for in := bufio.NewReader(os.Stdin); ; {
			if _, err := in.ReadByte(); err != nil {
				return
			}
		}
	}()
	return done
}

func request(run string) Request {
	return Request{Scope: "example/project", Name: "deploy", Member: Member{Run: run, Dir: "/project", PID: os.Getpid()}}
}

// asked is one who asks for a group in a goroutine.
type asked struct {
	waiting chan Member
	held    chan *Held
	failed  chan error
	cancel  context.CancelFunc
}

func ask(t *testing.T, g *Groups, r Request) *asked {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	a := &asked{waiting: make(chan Member, 100), held: make(chan *Held, 1), failed: make(chan error, 1), cancel: cancel}
	t.Cleanup(cancel)
	go func() {
		held, err := g.Acquire(ctx, r, func(m Member) { a.waiting <- m })
		if err != nil {
			a.failed <- err
			return
		}
		a.held <- held
	}()
	return a
}

// got waits for what must come.
func got[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

func mustHold(t *testing.T, g *Groups, r Request) *Held {
	t.Helper()
	return got(t, ask(t, g, r).held, "the group for "+r.Member.Run)
}

func release(t *testing.T, h *Held) {
	t.Helper()
	if err := h.Release(); err != nil {
		t.Fatal(err)
	}
}

func mustBeCancelled(t *testing.T, a *asked, cause Cause, by string) {
	t.Helper()
	err := got(t, a.failed, "the cancel")
	var cancelled *CancelledError
	if !errors.As(err, &cancelled) || cancelled.Cause != cause || cancelled.By.Run != by {
		t.Fatalf("got %v, want %s by %s", err, cause, by)
	}
}

// left says what is left in the state directory beside its lock.
func left(t *testing.T, g *Groups) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(g.Dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestOneAtATimeFirstComeFirstServed(t *testing.T) {
	g := &Groups{Dir: t.TempDir()}
	first := mustHold(t, g, request("first"))
	r := request("second")
	r.Queue, r.Name = Max, "DEPLOY" // case does not matter
	second := ask(t, g, r)
	if m := got(t, second.waiting, "the wait"); m.Run != "first" {
		t.Fatalf("waits for %v", m)
	}
	r.Member.Run = "third"
	third := ask(t, g, r)
	got(t, third.waiting, "the wait")

	release(t, first)
	h := got(t, second.held, "the group for the second")
	if m := got(t, third.waiting, "the new holder"); m.Run != "second" {
		t.Fatalf("the third waits for %v", m)
	}
	select {
	case <-third.held:
		t.Fatal("two hold the group")
	default:
	}
	release(t, h)
	release(t, got(t, third.held, "the group for the third"))
	if files := left(t, g); len(files) > 0 {
		t.Fatalf("left behind: %v", files)
	}
}

func TestNewcomerReplacesWhoWaits(t *testing.T) {
	g := &Groups{Dir: t.TempDir()}
	first := mustHold(t, g, request("first"))
	second := ask(t, g, request("second"))
	got(t, second.waiting, "the wait")
	third := ask(t, g, request("third"))
	got(t, third.waiting, "the wait")
	mustBeCancelled(t, second, Replaced, "third")
	select {
	case <-first.Lost():
		t.Fatal("the one that runs was cancelled, nobody asked for it")
	default:
	}
	release(t, first)
	release(t, got(t, third.held, "the group for the third"))
}

func TestCancelInProgress(t *testing.T) {
	g := &Groups{Dir: t.TempDir()}
	first := mustHold(t, g, request("first"))
	waits := ask(t, g, request("waits"))
	got(t, waits.waiting, "the wait")
	r := request("newest")
	r.CancelInProgress = true
	newest := ask(t, g, r)
	got(t, first.Lost(), "the cancel of the one that runs")
	if why := first.Why(); why == nil || why.Cause != TakenOver || why.By.Run != "newest" {
		t.Fatalf("got %v", why)
	}
	mustBeCancelled(t, waits, Replaced, "newest")
	select {
	case <-newest.held:
		t.Fatal("the newcomer runs before the old one has ended")
	default:
	}
	release(t, first)
	release(t, got(t, newest.held, "the group for the newest"))
}

func TestOtherGroupsAreIndependent(t *testing.T) {
	g := &Groups{Dir: t.TempDir()}
	first := mustHold(t, g, request("first"))
	otherName, otherScope := request("a"), request("b")
	otherName.Name, otherScope.Scope = "staging", "example/other"
	release(t, mustHold(t, g, otherName))
	release(t, mustHold(t, g, otherScope))
	release(t, first)
}

func TestQueueIsFull(t *testing.T) {
	g := &Groups{Dir: t.TempDir()}
	first := mustHold(t, g, request("first"))
	defer release(t, first)
	r := request("waits")
	r.Queue = Max
	for range maxPending {
		e, err := g.join(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		defer e.file.Close()
	}
	mustBeCancelled(t, ask(t, g, r), Full, "first")
}

func TestRunDoesNotWaitForItself(t *testing.T) {
	g := &Groups{Dir: t.TempDir()}
	first := mustHold(t, g, request("run"))
	defer release(t, first)
	job := request("run")
	job.Member.Job = "deploy"
	mustBeCancelled(t, ask(t, g, job), Deadlock, "run")

	// Two jobs of one run wait for each other as any others do.
	a, b := request("run"), request("run")
	a.Name, a.Member.Job = "jobs", "a"
	b.Name, b.Member.Job = "jobs", "b"
	held := mustHold(t, g, a)
	second := ask(t, g, b)
	got(t, second.waiting, "the wait")
	release(t, held)
	release(t, got(t, second.held, "the group for the second job"))
}

func TestContextEndsTheWait(t *testing.T) {
	g := &Groups{Dir: t.TempDir()}
	first := mustHold(t, g, request("first"))
	second := ask(t, g, request("second"))
	got(t, second.waiting, "the wait")
	second.cancel()
	if err := got(t, second.failed, "the end of the wait"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	release(t, first)
	if files := left(t, g); len(files) > 0 {
		t.Fatalf("left behind: %v", files)
	}
}

// child starts another process that holds the group.
func child(t *testing.T, g *Groups) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "HOLD_GROUP_IN="+g.Dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "held\n" {
		t.Fatalf("the child said %q: %v", line, err)
	}
	return cmd, lines
}

// THREATS 13.
func TestKilledHolderLetsGo(t *testing.T) {
	g := &Groups{Dir: t.TempDir()}
	cmd, _ := child(t, g)
	a := ask(t, g, request("heir"))
	if m := got(t, a.waiting, "the wait"); m.PID != cmd.Process.Pid {
		t.Fatalf("waits for %v, not for process %d", m, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	release(t, got(t, a.held, "the group of the killed one"))
	if files := left(t, g); len(files) > 0 {
		t.Fatalf("left behind: %v", files)
	}
}

func TestCancelReachesAnotherProcess(t *testing.T) {
	g := &Groups{Dir: t.TempDir()}
	cmd, lines := child(t, g)
	r := request("newest")
	r.CancelInProgress = true
	a := ask(t, g, r)
	line, err := lines.ReadString('\n')
	if err != nil || !strings.Contains(line, "taken over by run newest in /project") {
		t.Fatalf("the child said %q: %v", line, err)
	}
	release(t, got(t, a.held, "the group"))
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestNeverTwo has many ask at once and counts who holds.
func TestNeverTwo(t *testing.T) {
	g := &Groups{Dir: t.TempDir()}
	flag := filepath.Join(t.TempDir(), "held")
	done := make(chan error, 12)
	for i := range cap(done) {
		go func() {
			r := request(fmt.Sprint(i))
			r.Queue = Max
			h, err := g.Acquire(context.Background(), r, nil)
			if err != nil {
				done <- err
				return
			}
			f, err := os.OpenFile(flag, os.O_CREATE|os.O_EXCL, 0o600)
			if err == nil {
				err = errors.Join(f.Close(), os.Remove(flag))
			}
			done <- errors.Join(err, h.Release())
		}()
	}
	for range cap(done) {
		if err := got(t, done, "the group for all"); err != nil {
			t.Fatal(err)
		}
	}
}
