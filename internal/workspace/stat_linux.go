package workspace

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openPlain opens what is not a regular file without waiting, and no link.
const openPlain = unix.O_NONBLOCK | unix.O_NOFOLLOW

// How Seek finds the next data and the next hole.
const (
	seekData = unix.SEEK_DATA
	seekHole = unix.SEEK_HOLE
)

// changeTime is when the file was last changed in any way, in nanoseconds.
func changeTime(st fs.FileInfo) int64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Ctim.Nano()
	}
	return 0
}

// reflink makes out share the blocks of in, where the file system can.
func reflink(out, in *os.File) bool {
	return unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) == nil
}
