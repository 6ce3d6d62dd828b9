// Package guests holds Linux executables of cmd/herd-guest, what runs inside of
// boxes, for this machine's architecture and, in release builds, for engines with
// another one. scripts/build.sh lays them here.
package guests

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNone says that this build carries no guest for an architecture.
var ErrNone = errors.New("this build of herd-runner carries none")

const (
	prefix = "herd-guest-linux-"
	// unusedFor is how long a guest of another version is kept: a runner that has
	// its path may still be at work.
	unusedFor = 14 * 24 * time.Hour
)

// Open reads the Linux executable for arch. The error is ErrNone where there is none.
func Open(arch string) (fs.File, error) { return open(embedded, arch) }

func open(from fs.FS, arch string) (fs.File, error) {
	f, err := from.Open("embedded/linux-" + arch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	return f, err
}

// Write gives the path of the Linux executable for arch, as GOARCH names it. It is
// written to dir, under a name that its build gives, where it is not there yet; those
// of other versions, unused for two weeks, are removed then. The error is ErrNone
// where there is none. It is safe to call from several processes at once.
func Write(dir, arch string) (string, error) { return write(embedded, dir, arch) }

func write(from fs.FS, dir, arch string) (string, error) {
	in, err := open(from, arch)
	if err != nil {
		return "", err
	}
	defer in.Close()
	id, err := fs.ReadFile(from, "embedded/linux-"+arch+".id")
	if err != nil {
		return "", err
	}
	want, err := in.Stat()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(id)
	name := filepath.Join(dir, prefix+arch+"-"+hex.EncodeToString(sum[:8]))
	if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() || st.Size() != want.Size() {
		if err := lay(in, name); err != nil {
			return "", fmt.Errorf("write %s: %w", name, err)
		}
		removeOld(dir)
	} else if time.Since(st.ModTime()) > unusedFor/4 {
		now := time.Now()
		_ = os.Chtimes(name, now, now) // at worst it is written again one day
	}
	if err := unix.Access(name, unix.X_OK); err != nil {
		return "", fmt.Errorf("%s can not be executed: %w; is its file system mounted noexec? XDG_STATE_HOME says where it lies", name, err)
	}
	return name, nil
}

// lay never shows name before all of it is there.
func lay(from io.Reader, name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*") // removeOld finds what a killed runner leaves
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = io.Copy(f, from)
	if err := errors.Join(err, f.Chmod(0o755), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func removeOld(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), prefix) && time.Since(info.ModTime()) > unusedFor {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
