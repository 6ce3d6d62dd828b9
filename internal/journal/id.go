package journal

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// NewID makes the id of a run: its start in UTC to the second, three hexadecimal
// digits for the part of the second, so that ids sort by age, and a random one.
// random is read for one byte.
func NewID(now time.Time, random io.Reader) (string, error) {
	var last [1]byte
	if _, err := io.ReadFull(random, last[:]); err != nil {
		return "", fmt.Errorf("make a run id: %w", err)
	}
	part := now.Nanosecond() * 4096 / int(time.Second)
	return fmt.Sprintf("%s-%03x%x", now.UTC().Format("20060102-150405"), part, last[0]&15), nil
}

// started is when the run with an id of NewID started, to the second.
func started(id string) (time.Time, bool) {
	stamp, _, ok := strings.Cut(id, "-")
	if rest, _, more := strings.Cut(id[min(len(stamp)+1, len(id)):], "-"); ok && more {
		at, err := time.Parse("20060102-150405", stamp+"-"+rest)
		return at, err == nil
	}
	return time.Time{}, false
}
