package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const slugMax = 64

// Slug makes a file name out of a job's or step's id. Ids that are plain lower
// case names stay as they are; all others are cleaned and get "~" and a hash of
// the whole id, so that no two ids share a name, also where the file system
// ignores case.
func Slug(id string) string {
	var b strings.Builder
	for _, r := range id {
		if b.Len() == slugMax {
			break
		}
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_', r == '.' && b.Len() > 0:
			b.WriteRune(r)
		case r >= 'A' && r <= 'Z':
			b.WriteRune(r - 'A' + 'a')
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	slug := b.String()
	if slug == id && slug != "" {
		return slug
	}
	sum := sha256.Sum256([]byte(id))
	return strings.TrimRight(slug, "-") + "~" + hex.EncodeToString(sum[:5])
}
