package proc

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// outputPipe is os.Pipe, but that the end which the process gets is none that we
// wait for: that one would be told to the kernel's poller, and wake us.
func outputPipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, os.NewSyscallError("fcntl", errors.Join(err, unix.Close(fds[0]), unix.Close(fds[1])))
	}
	return os.NewFile(uintptr(fds[0]), "output"), os.NewFile(uintptr(fds[1]), "output"), nil
}
