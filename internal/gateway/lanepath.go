package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
)

// path is where the lane lies in a cassette directory.
func (l Lane) path(dir string) string {
	return filepath.Join(dir, slug(l.Job), slug(l.Step), fmt.Sprintf("attempt-%d", l.Attempt))
}

// slug makes a name fit for every file system, and keeps different names apart:
// a name that had to change bears a digest of the original.
func slug(name string) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	s = strings.Trim(s, ".-")
	if len(s) > 60 {
		s = s[:60]
	}
	if s == name && s != "" {
		return s
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimLeft(s+"-"+hex.EncodeToString(sum[:3]), "-")
}
