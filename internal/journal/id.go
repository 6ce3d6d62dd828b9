package journal

import (
	"encoding/hex"
	"fmt"
	"io"
	"time"
)

// NewID makes the id of a run: its start in UTC to the second and four random
// hexadecimal digits, so that ids sort by age. random is read for two bytes.
func NewID(now time.Time, random io.Reader) (string, error) {
	var tail [2]byte
	if _, err := io.ReadFull(random, tail[:]); err != nil {
		return "", fmt.Errorf("make a run id: %w", err)
	}
	return now.UTC().Format("20060102-150405") + "-" + hex.EncodeToString(tail[:]), nil
}
