package workspace

import (
	"io/fs"
	"os"
	"syscall"
)

// openPlain opens what is not a regular file without waiting, and no link.
const openPlain = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// How Seek finds the next data and the next hole.
const (
	seekData = 4
	seekHole = 3
)

// changeTime is when the file was last changed in any way, in nanoseconds.
func changeTime(st fs.FileInfo) int64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Ctimespec.Nano()
	}
	return 0
}

// reflink is not had by descriptor here.
func reflink(_, _ *os.File) bool { return false }
