package guest

import (
	"bytes"
	"os"
	"strconv"
)

// memory reads what the kernel counts for the box's control group.
type memory struct {
	events string // has a line "oom_kill N"
	peaks  string
}

// findMemory looks for version 2 of control groups, then for version 1.
func findMemory() memory {
	for _, m := range []memory{
		{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory.peak"},
		{"/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory/memory.max_usage_in_bytes"},
	} {
		if _, err := os.Stat(m.events); err == nil {
			return m
		}
	}
	return memory{}
}

// kills is how many processes the kernel has killed for memory.
func (m memory) kills() int64 {
	b, err := os.ReadFile(m.events)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if f := bytes.Fields(line); len(f) == 2 && string(f[0]) == "oom_kill" {
			n, _ := strconv.ParseInt(string(f[1]), 10, 64)
			return n
		}
	}
	return 0
}

// peak is the most memory the box has used, in bytes; 0: unknown.
func (m memory) peak() int64 {
	b, err := os.ReadFile(m.peaks)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	return n
}
