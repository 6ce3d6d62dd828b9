// Package memexec starts programs that another one carries.
package memexec

import (
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exec has this process become the program, which is kept in memory: there may be no
// place to write to from which programs may be started. name is what it is called in
// /proc. It returns only on failure.
func Exec(name string, program io.Reader, argv, environ []string) error {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if _, err := io.Copy(f, program); err != nil {
		return err
	}
	return os.NewSyscallError("exec", syscall.Exec("/proc/self/fd/"+strconv.Itoa(fd), argv, environ))
}
