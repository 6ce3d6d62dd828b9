package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/herd-runner/herd-runner/sandbox"
)

// A session is what a kept box has on this machine: a directory with its HOME
// and temporary files, and links to all else that is mounted. The mounts of a
// container can not be changed, but where the links lead can, so that the box
// can be started again when the run it was made for is gone. Its lock is held
// while the box runs.
type session struct {
	dir  string
	lock *os.File
}

const (
	// sessionsDir is part of every session's path; nothing else is removed.
	sessionsDir = "/.herd/docker-sessions/"

	sessionLock  = "lock"
	sessionHome  = "home"
	sessionTemp  = "temp"
	sessionLinks = "mounts"
	sessionGone  = "gone" // what links lead to when what they led to is no more
)

var errInUse = errors.New("it is in use")

// openSession locks a session; errInUse where another holds it.
func openSession(dir string) (*session, error) {
	if st, err := os.Lstat(dir); err != nil {
		return nil, err
	} else if !st.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	f, err := os.OpenFile(filepath.Join(dir, sessionLock), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errInUse
		}
		return nil, err
	}
	return &session{dir, f}, nil
}

// sessionInUse tells whether a live runner holds a session.
func sessionInUse(dir string) bool {
	if dir == "" {
		return false
	}
	f, err := os.OpenFile(filepath.Join(dir, sessionLock), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

func (s *session) release() {
	if s != nil {
		_ = s.lock.Close()
	}
}

// maker names this machine's user and the engine, as is written in the lock file
// of each session: to others it does not tell whether its box is there.
func (b *Backend) maker() string { return b.lease.host + " " + b.address + "\n" }

// adopt gives spec with its HOME and temporary directory in the session, and
// every other mount by a link of the session.
func (s *session) adopt(spec sandbox.Spec, maker string) (sandbox.Spec, error) {
	uid, gid, err := user(spec)
	if err != nil {
		return spec, err
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return spec, err
	}
	defer root.Close()
	if err := errors.Join(root.WriteFile(sessionLock, []byte(maker), 0o600), root.RemoveAll(sessionTemp), root.RemoveAll(sessionLinks), root.Mkdir(sessionLinks, 0o700)); err != nil {
		return spec, err
	}
	spec.Mounts = slices.Clone(spec.Mounts)
	for i, m := range spec.Mounts {
		name := ""
		switch {
		case m.Source == "":
			continue
		case m.Target == spec.Home:
			name = sessionHome
		case m.Target == spec.Temp:
			name = sessionTemp
		}
		if name == "" {
			name, err = link(root, i, m.Source)
		} else {
			err = ownDir(root, name, uid, gid)
		}
		if err != nil {
			return spec, err
		}
		spec.Mounts[i].Source = filepath.Join(s.dir, name)
	}
	return spec, nil
}

// link makes the link of a mount; its name says what it leads to.
func link(root *os.Root, i int, source string) (string, error) {
	st, err := os.Stat(source)
	if err != nil {
		return "", err
	}
	kind := ".file"
	if st.IsDir() {
		kind = ".dir"
	}
	name := filepath.Join(sessionLinks, strconv.Itoa(i)+kind)
	return name, root.Symlink(source, name)
}

// ownDir makes a directory of the box's user, or takes the one that is there.
func ownDir(root *os.Root, name string, uid, gid int) error {
	if err := root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if st, err := root.Lstat(name); err != nil {
		return err
	} else if !st.IsDir() {
		return fmt.Errorf("%s is not a directory", filepath.Join(root.Name(), name))
	}
	if os.Getuid() == 0 {
		return root.Lchown(name, uid, gid)
	}
	return nil
}

// mend lets links whose end is gone lead to something empty, so that the box
// can be looked at. It tells the ends that are gone.
func (s *session) mend() (gone []string, err error) {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	links, err := os.ReadDir(filepath.Join(s.dir, sessionLinks))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, l := range links {
		name := filepath.Join(sessionLinks, l.Name())
		if _, err := os.Stat(filepath.Join(s.dir, name)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		end, err := root.Readlink(name)
		if err != nil {
			return nil, err
		}
		empty := sessionGone + filepath.Ext(name)
		if filepath.Ext(name) == ".dir" {
			err = root.Mkdir(empty, 0o755)
		} else {
			err = root.WriteFile(empty, nil, 0o644)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if err := errors.Join(root.Remove(name), root.Symlink(filepath.Join(s.dir, empty), name)); err != nil {
			return nil, err
		}
		gone = append(gone, end)
	}
	return gone, nil
}

// removeSession removes a session that no box has any more, and the directories
// above it that it leaves empty, up to .herd.
func removeSession(dir string) error {
	if !strings.Contains(dir, sessionsDir) || sessionInUse(dir) {
		return nil
	}
	if err := os.RemoveAll(dir); errors.Is(err, fs.ErrPermission) {
		// Programs in the box have made directories that can not be written.
		_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(name, 0o700)
			}
			return nil
		})
		err = os.RemoveAll(dir)
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	for up := filepath.Dir(dir); filepath.Base(up) != ".herd" && len(up) > 1; up = filepath.Dir(up) {
		if os.Remove(up) != nil {
			break
		}
	}
	return nil
}

// fingerprint is the same for requests that the same container answers: all but
// what tells who asked.
func fingerprint(r request) (string, error) {
	config := *r.Config
	config.Labels = maps.Clone(config.Labels)
	for _, l := range []string{labelLease, labelRun, labelSpec} {
		delete(config.Labels, l)
	}
	r.Config = &config
	b, err := json.Marshal(r)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16]), err
}
