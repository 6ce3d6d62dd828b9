// Package guests holds Linux executables of herd-runner, which release builds
// carry for the boxes of engines that can not run the executable itself: those of
// another architecture, and all of them where herd-runner runs on macOS.
package guests

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNone says that this build carries no guest for an architecture.
var ErrNone = errors.New("this build of herd-runner carries none")

// Write gives the path of the Linux executable for arch, as GOARCH names it. It is
// written to dir, under a name that its content gives, where it is not there yet.
// The error is ErrNone where there is none.
func Write(dir, arch string) (string, error) { return write(embedded, dir, arch) }

func write(from fs.FS, dir, arch string) (string, error) {
	packed, err := fs.ReadFile(from, "embedded/linux-"+arch+".gz")
	if errors.Is(err, fs.ErrNotExist) {
		return "", ErrNone
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(packed)
	name := filepath.Join(dir, "herd-runner-linux-"+arch+"-"+hex.EncodeToString(sum[:8]))
	if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
		return name, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := unpack(packed, name); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return name, nil
}

// unpack never shows name before all of it is there.
func unpack(packed []byte, name string) error {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".guest-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = io.Copy(f, r) // the build's own, of the size it had then
	if err := errors.Join(err, f.Chmod(0o755), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
