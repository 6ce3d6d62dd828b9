package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Bounds of the board.
const (
	boardLockTime = 200 * time.Millisecond
	boardKeyFile  = "key"
	boardEnd      = ".json"
	boardStamp    = "2006-01-02T15:04:05.000Z" // of one length, so that a notice is written over in one piece
)

// board is where the runners of one user on this machine tell each other until
// when a credential is limited: a file for each, named by a keyed hash, so that
// neither the name nor what is in it tells the credential. Nothing depends on
// it: what can not be read or written is not told. Safe for concurrent use, by
// processes too.
type board struct {
	dir string
	key []byte
}

// notice is what a file holds.
type notice struct {
	Until string `json:"until"` // UTC, boardStamp
}

// openBoard makes dir and its key, and removes what is long over.
func openBoard(dir string, now time.Time) (*board, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	key, err := boardKey(dir)
	if err != nil {
		return nil, err
	}
	b := &board{dir: dir, key: key}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), boardEnd); ok && now.Sub(b.until(name)) > bookKept {
			_ = os.Remove(filepath.Join(dir, e.Name())) // another runner may have been faster
		}
	}
	return b, err
}

// boardKey reads the key, or makes it: whole or not at all.
func boardKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, boardKeyFile)
	key, err := os.ReadFile(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	f, err := os.CreateTemp(dir, ".key-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = io.CopyN(f, rand.Reader, sha256.Size)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}

// name is the credential's, at a host.
func (b *board) name(host, credential string) string {
	mac := hmac.New(sha256.New, b.key)
	fmt.Fprintf(mac, "%s\x00%s", host, credential)
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// until is when the limit ends of which there is a notice; zero: there is none.
func (b *board) until(name string) time.Time {
	data, err := os.ReadFile(filepath.Join(b.dir, name+boardEnd))
	if err != nil {
		return time.Time{}
	}
	var n notice
	if json.Unmarshal(data, &n) != nil {
		return time.Time{}
	}
	at, err := time.Parse(boardStamp, n.Until)
	if err != nil {
		return time.Time{}
	}
	return at
}

// post tells others of a limit, unless they know of one that ends later.
func (b *board) post(name string, until time.Time) {
	f, err := os.OpenFile(filepath.Join(b.dir, name+boardEnd), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	defer f.Close() // which unlocks it
	ctx, cancel := context.WithTimeout(context.Background(), boardLockTime)
	defer cancel()
	if lockFile(ctx, f) != nil || !b.until(name).Before(until) {
		return
	}
	text, err := json.Marshal(notice{until.UTC().Format(boardStamp)})
	if err == nil {
		_, _ = f.WriteAt(append(text, '\n'), 0)
	}
}
