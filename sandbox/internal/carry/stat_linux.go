package carry

import (
	"io/fs"
	"syscall"
)

// changeTime is when the file was last changed in any way, in nanoseconds.
func changeTime(st fs.FileInfo) int64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Ctim.Nano()
	}
	return 0
}
