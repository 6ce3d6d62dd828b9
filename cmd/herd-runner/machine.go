package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// freeBytes is what an ordinary user may still write where dir lies.
func freeBytes(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}

// agentMemory is what one agent's box may use by default, in bytes.
const agentMemory = 2 << 30

// defaultMaxAgents is what memory allows: agents wait on the network, not on
// cores.
func defaultMaxAgents() int {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 4
	}
	for _, line := range strings.Split(string(b), "\n") {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == "MemAvailable:" {
			kb, err := strconv.ParseInt(fields[1], 10, 64)
			if err == nil {
				return int(max(1, kb<<10/agentMemory))
			}
		}
	}
	return 4
}
