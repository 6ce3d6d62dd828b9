package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A run is alive as long as its process holds the lock on this file: unlike a
// process id, a lock cannot outlive its process and is never given to another.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// alive says whether a process holds the lock of the run in dir. A shared lock
// is tried, so that two who ask at once do not take each other for the runner.
func alive(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = flock(f, syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// HeldBy says whether process pid is the one of the run: a process id alone may
// have been given to another since. Where the system does not show the files of
// processes, that the run is alive has to do.
func (r *Reader) HeldBy(pid int) bool {
	if live, err := r.Alive(); err != nil || !live || pid <= 1 {
		return false
	}
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(fds)
	if errors.Is(err, fs.ErrNotExist) {
		_, err := os.Stat("/proc/self/fd")
		return err != nil
	}
	if err != nil {
		return true // another user's: the kernel will say so
	}
	lock, err := os.Stat(filepath.Join(r.Dir, lockName))
	if err != nil {
		return false
	}
	for _, e := range entries {
		if st, err := os.Stat(filepath.Join(fds, e.Name())); err == nil && os.SameFile(st, lock) {
			return true
		}
	}
	return false
}
