package steps

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// THREATS 11: of those who write to a disk that is nearly full the one is ended
// who filled it, by bytes or by files, and nobody where it was none of them.
func TestWhoFillsTheDiskIsEnded(t *testing.T) {
	const mib = 1 << 20
	roomy := room{free: 100 * mib, size: 1000 * mib, freeFiles: 90_000, maxFile: 100_000}
	for name, tc := range map[string]struct {
		room       room
		hog, small func(t *testing.T, dir string)
		hogEnds    bool
		says       string
		warns      bool
	}{
		"there is room": {room: roomy, hog: bytesOf(8 * mib), small: bytesOf(mib)},
		"few bytes": {room: room{free: 4 * mib, size: 1000 * mib, freeFiles: 90_000, maxFile: 100_000},
			hog: bytesOf(9 * mib), small: bytesOf(mib), hogEnds: true, says: "4MiB were left on the disk of "},
		"few files": {room: room{free: 100 * mib, size: 1000 * mib, freeFiles: 900, maxFile: 100_000},
			hog: filesOf(700), small: bytesOf(mib), hogEnds: true, says: "900 files were left on the disk of "},
		"somebody else": {room: room{free: 4 * mib, size: 1000 * mib}, hog: filesOf(3), small: filesOf(2), warns: true},
	} {
		t.Run(name, func(t *testing.T) {
			warned := 0
			d := newDisk(0, time.Now, func(string) { warned++ })
			d.room = func(string) (room, error) { return tc.room, nil }
			hog, small := t.TempDir(), t.TempDir()
			earlier := t.TempDir()
			var ended []string
			for dir, write := range map[string]func(*testing.T, string){hog: tc.hog, small: tc.small, earlier: bytesOf(50 * mib)} {
				began := time.Now()
				if dir == earlier { // what was written before it began is not its own
					began = began.Add(time.Hour)
				}
				d.users[&diskUser{dirs: []string{dir}, since: began, end: func(why *diskFull) { ended = append(ended, dir+": "+why.Error()) }}] = true
				write(t, dir)
			}
			d.look()
			d.look()
			if tc.hogEnds != (len(ended) == 1) || tc.hogEnds && !strings.HasPrefix(ended[0], hog+": "+tc.says+hog) {
				t.Errorf("ended: %q", ended)
			}
			if tc.warns != (warned == 1) {
				t.Errorf("warned %d times", warned)
			}
		})
	}
}

func bytesOf(n int) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.WriteFile(filepath.Join(dir, "bytes"), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
		// What a file says of its time counts for nothing.
		if err := os.Chtimes(filepath.Join(dir, "bytes"), time.Unix(0, 0), time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
	}
}

func filesOf(n int) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		for range n {
			f, err := os.CreateTemp(dir, "file")
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
}
