package concurrency

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// The files of a member are its number with one of these ends.
const (
	pendingEnd = ".pending"
	runningEnd = ".running"
	noteEnd    = ".cancel"
	halfEnd    = ".new" // of a note that is being written
)

// entry is a member's file, locked for as long as it is open.
type entry struct {
	dir    string // of the group
	number int
	file   *os.File
	group  string
}

func (e *entry) path(end string) string {
	return filepath.Join(e.dir, fmt.Sprintf("%08d%s", e.number, end))
}

func (e *entry) notePath() string { return e.path(noteEnd) }

// note asks a member to end.
type note struct {
	Cause Cause  `json:"cause"`
	By    Member `json:"by"`
}

// seat is a member as others see it.
type seat struct {
	number    int
	running   bool
	cancelled bool
	member    Member
}

// folder is where a group lies: names are hashed, since they may be anything.
func (g *Groups) folder(scope, name string) string {
	sum := sha256.Sum256([]byte(scope + "\x00" + strings.ToLower(name)))
	return filepath.Join(g.Dir, hex.EncodeToString(sum[:16]))
}

// locked runs fn while no other process reads or changes any group.
func (g *Groups) locked(ctx context.Context, fn func() error) error {
	if err := os.MkdirAll(g.Dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of concurrency groups: %w", err)
	}
	path := filepath.Join(g.Dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the lock of concurrency groups: %w", err)
	}
	defer f.Close()
	bounded, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	for {
		err := flock(f)
		if err == nil {
			return fn()
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", path, err)
		}
		if err := pause(bounded, lockRetry); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s was locked by another process for %s: is a herd-runner stopped (SIGSTOP)?", path, lockTime)
		}
	}
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// join takes the next place in the group, and cancels whom the newcomer
// replaces.
func (g *Groups) join(ctx context.Context, r Request) (*entry, error) {
	e := &entry{dir: g.folder(r.Scope, r.Name), group: r.Name}
	err := g.locked(ctx, func() error {
		seats, err := look(e.dir)
		if err != nil {
			return err
		}
		if err := e.admit(r, seats); err != nil {
			return err
		}
		return e.create(r.Member)
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// admit applies the rules of the group to a newcomer, whose number it sets.
func (e *entry) admit(r Request, seats []seat) error {
	alive := slices.DeleteFunc(slices.Clone(seats), func(s seat) bool { return s.cancelled && !s.running })
	for _, s := range seats {
		e.number = max(e.number, s.number)
		if s.running && s.member.Job == "" && s.member.Run == r.Member.Run && r.Member.Job != "" {
			return &CancelledError{Group: r.Name, Cause: Deadlock, By: s.member}
		}
	}
	e.number++
	if len(alive) == 0 {
		return nil
	}
	// The first one runs, or is about to.
	holder, pending := alive[0], alive[1:]
	if r.Queue == Max {
		if len(pending) >= maxPending {
			return &CancelledError{Group: r.Name, Cause: Full, By: holder.member}
		}
	} else {
		for _, s := range pending {
			if err := writeNote(e.dir, s.number, note{Replaced, r.Member}); err != nil {
				return err
			}
		}
	}
	if r.CancelInProgress && !holder.cancelled {
		return writeNote(e.dir, holder.number, note{TakenOver, r.Member})
	}
	return nil
}

// create makes the member's file. Nobody else looks meanwhile.
func (e *entry) create(m Member) (err error) {
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of a concurrency group: %w", err)
	}
	f, err := os.OpenFile(e.path(pendingEnd), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("join a concurrency group: %w", err)
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = f.Write(text)
	}
	if err = errors.Join(err, flock(f)); err != nil {
		return fmt.Errorf("join a concurrency group: %w", errors.Join(err, f.Close(), os.Remove(f.Name())))
	}
	e.file = f
	return nil
}

// advance makes the member the running one if it is its turn, and else gives
// who is before it.
func (g *Groups) advance(ctx context.Context, e *entry) (before *seat, err error) {
	err = g.locked(ctx, func() error {
		if n, ok := readNote(e.notePath()); ok {
			return &CancelledError{Group: e.group, Cause: n.Cause, By: n.By}
		}
		seats, err := look(e.dir)
		if err != nil {
			return err
		}
		for _, s := range seats {
			if s.number != e.number && (s.running || s.number < e.number && !s.cancelled) {
				before = &s
				return nil
			}
		}
		return os.Rename(e.path(pendingEnd), e.path(runningEnd))
	})
	return before, err
}

// leave gives the member's place up, also after the context has ended.
func (g *Groups) leave(e *entry) error {
	err := g.locked(context.Background(), func() error {
		err := removeAll(e.path(pendingEnd), e.path(runningEnd), e.notePath())
		// Empty now, or not: then it stays.
		if rmErr := os.Remove(e.dir); rmErr != nil && !errors.Is(rmErr, syscall.ENOTEMPTY) && !errors.Is(rmErr, syscall.EEXIST) && !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
		return err
	})
	if err = errors.Join(err, e.file.Close()); err != nil {
		return fmt.Errorf("leave a concurrency group: %w", err)
	}
	return nil
}

func removeAll(paths ...string) error {
	var errs error
	for _, p := range paths {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// look gives the living members of a group, the first come first, and removes
// what the dead left.
func look(dir string) ([]seat, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at a concurrency group: %w", err)
	}
	notes := map[int]string{}
	var seats []seat
	for _, f := range entries {
		number, end, ok := parseName(f.Name())
		path := filepath.Join(dir, f.Name())
		switch {
		case strings.HasSuffix(path, halfEnd): // its writer was killed
			if err := removeAll(path); err != nil {
				return nil, err
			}
		case !ok:
		case end == noteEnd:
			notes[number] = path
		default:
			m, alive, err := readMember(path)
			if err != nil {
				return nil, err
			}
			if !alive {
				if err := removeAll(path); err != nil {
					return nil, err
				}
				continue
			}
			seats = append(seats, seat{number: number, running: end == runningEnd, member: m})
		}
	}
	for i := range seats {
		_, seats[i].cancelled = notes[seats[i].number]
		delete(notes, seats[i].number)
	}
	for _, path := range notes { // of members that are gone
		if err := removeAll(path); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(seats, func(a, b seat) int { return a.number - b.number })
	return seats, nil
}

func parseName(name string) (number int, end string, ok bool) {
	end = filepath.Ext(name)
	number, err := strconv.Atoi(strings.TrimSuffix(name, end))
	return number, end, err == nil && (end == pendingEnd || end == runningEnd || end == noteEnd)
}

// readMember reads a member's file; alive says whether its process holds it.
func readMember(path string) (m Member, alive bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, fmt.Errorf("look at a concurrency group: %w", err)
	}
	defer f.Close()
	switch err := flock(f); {
	case err == nil:
		return m, false, nil
	case !errors.Is(err, syscall.EWOULDBLOCK):
		return m, false, fmt.Errorf("look at a concurrency group: lock %s: %w", path, err)
	}
	if err := json.NewDecoder(f).Decode(&m); err != nil {
		return m, false, fmt.Errorf("look at a concurrency group: %s: %w", path, err)
	}
	return m, true, nil
}

// writeNote appears whole: its reader does not take the lock. The first note
// stays.
func writeNote(dir string, number int, n note) error {
	e := entry{dir: dir, number: number}
	if exists(e.notePath()) {
		return nil
	}
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	temp := e.notePath() + halfEnd
	if err := os.WriteFile(temp, text, 0o600); err != nil {
		return fmt.Errorf("cancel a member of a concurrency group: %w", err)
	}
	if err := os.Rename(temp, e.notePath()); err != nil {
		return fmt.Errorf("cancel a member of a concurrency group: %w", err)
	}
	return nil
}

func readNote(path string) (note, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return note{}, false
	}
	var n note
	return n, json.Unmarshal(text, &n) == nil
}
