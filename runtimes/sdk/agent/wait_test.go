package agent

import (
	"os"
	"strings"
	"testing"
	"time"
)

// waitForFile waits until path holds something.
func waitForFile(t *testing.T, path string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s was never written", path)
		}
	}
}

// waitGone waits until the process pid has ended (a zombie counts as ended).
func waitGone(t *testing.T, pid string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("process %s still runs", pid)
		}
	}
}
