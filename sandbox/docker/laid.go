package docker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
)

// layFile gives the path of a file in dir that holds content, readable for all,
// which is written where it is not there yet. Its name has the content's digest:
// runners of other versions have theirs beside it.
func layFile(dir, name, suffix string, content []byte) (string, error) {
	sum := sha256.Sum256(content)
	laid := filepath.Join(dir, name+"-"+hex.EncodeToString(sum[:8])+suffix)
	if old, err := os.ReadFile(laid); err == nil && bytes.Equal(old, content) {
		return laid, nil
	}
	// Whole or not at all: another runner reads it.
	f, err := os.CreateTemp(dir, "."+name+"-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), laid)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return laid, nil
}
