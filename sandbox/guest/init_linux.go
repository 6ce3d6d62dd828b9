package guest

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/herd-runner/herd-runner/sandbox/internal/proc"
)

// oomScore is added for the children, so that the kernel takes one of them
// and not the guest.
const oomScore = 500

// harden keeps the other processes of the box, which have the same user id,
// from reaching this process's memory and files, and from ending it with a
// signal. It changes nothing outside a box.
func harden() error {
	if os.Getpid() != 1 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	// Caught and dropped, not ignored: children would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	_, _ = syscall.Setsid() // it is one already under most runtimes
	return nil
}

// preferForOOM lets children be born with a raised oom_score_adj: it is the
// guest's own for as long as a child is started.
func preferForOOM() (around func(start func())) {
	if os.Getpid() != 1 {
		return nil
	}
	const file = "/proc/self/oom_score_adj"
	own, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	before, _ := strconv.Atoi(string(bytes.TrimSpace(own)))
	// Opened while that is still possible: an undumpable process's files are root's.
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return nil
	}
	var mu sync.Mutex
	return func(start func()) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = f.WriteAt([]byte(strconv.Itoa(min(before+oomScore, 1000))), 0)
		start()
		_, _ = f.WriteAt([]byte(strconv.Itoa(before)), 0)
	}
}

// reapOn takes the status of adopted processes as they end, so that they do
// not count against the box's limit.
func reapOn(t *proc.Table) (stop func()) {
	ended := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		defer close(done)
		for range ended {
			t.Reap()
		}
	}()
	return func() {
		signal.Stop(ended)
		close(ended)
		<-done
	}
}

// killAll ends every process of the box. Process 1 needs no list for it.
func killAll(g *proc.Group) {
	if os.Getpid() == 1 {
		_ = syscall.Kill(-1, syscall.SIGKILL)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = g.Close(ctx)
}
