package guest

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// pidsEvents has a line "max N": how often the box wanted more processes than it
// may have. Version 2 of control groups, then version 1.
var pidsEvents = [...]string{"/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events"}

// pidsRefused is how often the kernel has refused the box a process.
func pidsRefused() int64 {
	for _, file := range pidsEvents {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if f := bytes.Fields(b); len(f) >= 2 && string(f[0]) == "max" {
			n, _ := strconv.ParseInt(string(f[1]), 10, 64)
			return n
		}
	}
	return 0
}

// fullFileSystems are the mount points where nothing more can be written, for
// want of blocks or of files, sorted.
func fullFileSystems() []string {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	var full []string
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 4 || strings.HasPrefix(f[1], "/proc") || strings.HasPrefix(f[1], "/sys") || !slices.Contains(strings.Split(f[3], ","), "rw") {
			continue
		}
		var st unix.Statfs_t
		if unix.Statfs(f[1], &st) != nil || st.Blocks == 0 {
			continue // it counts nothing
		}
		if st.Bavail == 0 || st.Files > 0 && st.Ffree == 0 {
			full = append(full, f[1])
		}
	}
	slices.Sort(full)
	return slices.Compact(full)
}
