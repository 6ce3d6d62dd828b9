package steps

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docker/go-units"
	"github.com/herd-runner/herd-runner/sandbox"
)

// Of a disk that boxes write to stays free what Options.MinFree says; where it
// says nothing a GiB, or a twentieth of a small disk. And a twentieth of the files
// that it can have.
const (
	defaultMinFree = 1 << 30 // bytes
	twentieth      = 20
)

// How often is looked how much room there is, and, where there is little and no
// step to blame, who wrote it.
const (
	diskLook  = 200 * time.Millisecond
	diskBlame = 5 * time.Second
)

// maxWritten bounds the files that written looks at.
const maxWritten = 500_000

// clockSteps is by how much a file system's clock may lag.
const clockSteps = 20 * time.Millisecond

// room is what a file system has.
type room struct {
	id                 uint64 // the same for directories of one file system
	free, size         int64  // bytes
	freeFiles, maxFile int64  // maxFile 0: without a bound
}

// disk watches the room for what boxes write to directories of this machine,
// which no engine bounds: who fills the disk is ended before the others, the
// runner's record and the machine have none (THREATS 11). One for a run. Safe for
// concurrent use.
type disk struct {
	minFree int64 // bytes; 0: the default
	now     func() time.Time
	room    func(dir string) (room, error)
	tell    func(warning string)

	looking sync.Mutex // one watch may end while the next begins

	mu     sync.Mutex
	users  map[*diskUser]bool
	done   chan struct{}        // closed when nobody is left
	blamed map[uint64]time.Time // when a file system was last searched
	told   map[uint64]bool      // that nobody is to blame
}

// diskUser is a process in a box.
type diskUser struct {
	dirs  []string
	since time.Time
	end   func(cause *diskFull)
}

// diskFull is why a step is ended that fills the disk.
type diskFull struct {
	dir  string
	what string // that is left
	own  string // that the step wrote
}

func (e *diskFull) Error() string {
	return fmt.Sprintf("%s were left on the disk of %s, where this step (or one beside it that shares the directory) had written %s since it began", e.what, e.dir, e.own)
}

const diskHint = "have it write less, or make room (herd-runner clean, docker system df); --min-free says what stays free"

func newDisk(minFree int64, now func() time.Time, tell func(string)) *disk {
	return &disk{minFree: minFree, now: now, room: roomOf, tell: tell, users: map[*diskUser]bool{}, blamed: map[uint64]time.Time{}, told: map[uint64]bool{}}
}

// use watches dirs for who writes there from now on, until leave is called. end is
// called at most once, from another goroutine.
func (d *disk) use(dirs []string, end func(*diskFull)) (leave func()) {
	if len(dirs) == 0 || d.minFree < 0 {
		return func() {}
	}
	u := &diskUser{dirs: dirs, since: d.now(), end: end}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users[u] = true
	if d.done == nil {
		d.done = make(chan struct{})
		go d.watch(d.done)
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if delete(d.users, u); len(d.users) == 0 && d.done != nil {
			close(d.done)
			d.done = nil
		}
	}
}

func (d *disk) watch(done <-chan struct{}) {
	tick := time.NewTicker(diskLook)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			d.look()
		}
	}
}

// look blames whoever wrote the most to a file system that is nearly full.
func (d *disk) look() {
	d.looking.Lock()
	defer d.looking.Unlock()
	d.mu.Lock()
	users := make([]*diskUser, 0, len(d.users))
	for u := range d.users {
		users = append(users, u)
	}
	d.mu.Unlock()
	low := map[uint64]room{}
	at := map[string]uint64{}
	for _, u := range users {
		for _, dir := range u.dirs {
			if _, known := at[dir]; known {
				continue
			}
			r, err := d.room(dir)
			if err != nil {
				continue // it is gone with its box
			}
			at[dir] = r.id
			if r.free < d.reserve(r) || r.maxFile > 0 && r.freeFiles < r.maxFile/twentieth {
				low[r.id] = r
			}
		}
	}
	for id, r := range low {
		if d.now().Sub(d.blamed[id]) < diskBlame {
			continue
		}
		d.blamed[id] = d.now()
		d.blame(id, r, users, at)
	}
}

// reserve is what stays free, in bytes.
func (d *disk) reserve(r room) int64 {
	if d.minFree > 0 {
		return d.minFree
	}
	return min(defaultMinFree, r.size/twentieth)
}

// blame ends who has written the most, and who comes near to that. Who has not
// written much is not to blame for what others did.
func (d *disk) blame(id uint64, r room, users []*diskUser, at map[string]uint64) {
	byFiles := r.free >= d.reserve(r)
	much := d.reserve(r) / 8
	if byFiles {
		much = r.maxFile / twentieth / 8
	}
	type suspect struct {
		*diskUser
		dir   string
		wrote int64
	}
	var suspects []suspect
	most := much
	for _, u := range users {
		s := suspect{diskUser: u}
		for _, dir := range u.dirs {
			if at[dir] != id {
				continue
			}
			bytes, files := written(dir, u.since)
			own := bytes
			if byFiles {
				own = files
			}
			s.wrote += own
			if s.dir == "" || own > s.wrote/2 {
				s.dir = dir
			}
		}
		most = max(most, s.wrote)
		suspects = append(suspects, s)
	}
	say := func(n int64) string {
		if byFiles {
			return fmt.Sprintf("%d files", n)
		}
		return units.BytesSize(float64(n))
	}
	left := r.free
	if byFiles {
		left = r.freeFiles
	}
	ended := false
	for _, s := range suspects {
		if s.wrote > most/2 && s.wrote >= much {
			ended = true
			d.mu.Lock()
			there := d.users[s.diskUser]
			delete(d.users, s.diskUser)
			d.mu.Unlock()
			if there {
				s.end(&diskFull{dir: s.dir, what: say(left), own: say(s.wrote)})
			}
		}
	}
	if !ended && len(suspects) > 0 && !d.told[id] {
		d.told[id] = true
		d.tell(fmt.Sprintf("%s are left on the disk of %s, and no running step has written much of it", say(left), suspects[0].dirs[0]))
	}
}

// written is what was written below dir since then: what files take on the disk,
// and how many entries are new or changed. It goes by the time that no program can
// set. Links are not followed.
func written(dir string, since time.Time) (bytes, entries int64) {
	left, records := maxWritten, filepath.Join(dir, ".herd")
	since = since.Add(-clockSteps)
	_ = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if left--; left < 0 {
			return fs.SkipAll
		}
		if name == records { // not the box's, and where other boxes write
			return fs.SkipDir
		}
		var st unix.Stat_t
		if err != nil || unix.Lstat(name, &st) != nil {
			return nil //nolint:nilerr // what is gone again takes no room
		}
		//nolint:unconvert // the types differ between systems
		if changed := time.Unix(int64(st.Ctim.Sec), int64(st.Ctim.Nsec)); !changed.Before(since) {
			bytes += int64(st.Blocks) * 512
			entries++
		}
		return nil
	})
	return bytes, entries
}

func roomOf(dir string) (room, error) {
	var st unix.Statfs_t
	var at unix.Stat_t
	if err := unix.Statfs(dir, &st); err != nil {
		return room{}, err
	}
	if err := unix.Stat(dir, &at); err != nil {
		return room{}, err
	}
	block := int64(st.Bsize)
	//nolint:unconvert // the types differ between systems
	return room{
		id: uint64(at.Dev), free: int64(st.Bavail) * block, size: int64(st.Blocks) * block,
		freeFiles: int64(st.Ffree), maxFile: int64(st.Files),
	}, nil
}

// guard has the disk that the box writes to watched while a process of the step
// runs there. kill is closed when the process is to be killed at once: by the
// person, or because it fills the disk.
func (s *stepRun) guard(info sandbox.Info) (kill <-chan struct{}, leave func()) {
	now := make(chan struct{})
	end := sync.OnceFunc(func() { close(now) })
	left := make(chan struct{})
	attempt := s.stop
	unwatch := s.disk.use(info.HostDirs, func(cause *diskFull) {
		attempt(cause)
		end()
	})
	go func() {
		select {
		case <-s.Kill:
			end()
		case <-left:
		}
	}()
	return now, func() { unwatch(); close(left) }
}
