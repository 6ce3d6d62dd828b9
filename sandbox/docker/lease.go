package docker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// leases is the directory where every live runner of this user holds a locked
// file. The kernel gives the lock up when the runner ends, however it ends.
type leases struct {
	dir  string
	host string // random, tells this machine's containers on a shared engine
	id   string
	file *os.File
}

func takeLease(stateDir string) (*leases, error) {
	l := &leases{dir: filepath.Join(stateDir, "leases")}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if l.host, err = hostID(filepath.Join(stateDir, "host-id")); err != nil {
		return nil, err
	}
	l.id = strings.ToLower(rand.Text())
	// Locked before it has its name: no other runner sees it unlocked.
	if l.file, err = os.CreateTemp(l.dir, ".new-"); err != nil {
		return nil, err
	}
	err = syscall.Flock(int(l.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		err = os.Rename(l.file.Name(), l.path(l.id))
	}
	if err != nil {
		_ = os.Remove(l.file.Name())
		_ = l.file.Close()
		return nil, fmt.Errorf("take a lease in %s: %w", l.dir, err)
	}
	return l, nil
}

// hostID reads the id or makes it; two who make it at once agree on one.
func hostID(file string) (string, error) {
	for range 3 {
		b, err := os.ReadFile(file)
		if err == nil && len(b) > 0 {
			return strings.TrimSpace(string(b)), nil
		}
		tmp, err := os.CreateTemp(filepath.Dir(file), ".host-id-")
		if err != nil {
			return "", err
		}
		_, werr := tmp.WriteString(strings.ToLower(rand.Text()) + "\n")
		cerr := tmp.Close()
		lerr := os.Link(tmp.Name(), file)
		_ = os.Remove(tmp.Name())
		if err := errors.Join(werr, cerr); err != nil {
			return "", err
		}
		if lerr != nil && !errors.Is(lerr, os.ErrExist) {
			return "", lerr
		}
	}
	return "", fmt.Errorf("%s can not be read: remove it", file)
}

func (l *leases) path(id string) string { return filepath.Join(l.dir, id+".lock") }

// dead tells whether the runner with this lease is gone.
func (l *leases) dead(id string) bool {
	if id == l.id {
		return false
	}
	if id == "" || strings.ContainsAny(id, "/\\") {
		return true
	}
	f, err := os.OpenFile(l.path(id), os.O_RDWR, 0)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// sweep removes the files of dead runners; call it once their containers are
// gone.
func (l *leases) sweep() {
	entries, _ := os.ReadDir(l.dir)
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".lock"); ok && l.dead(id) {
			_ = os.Remove(l.path(id))
		}
	}
}

func (l *leases) release() {
	_ = os.Remove(l.path(l.id))
	_ = l.file.Close()
}
