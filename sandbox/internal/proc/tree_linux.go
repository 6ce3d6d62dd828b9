package proc

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func becomeSubreaper() error {
	if os.Getpid() == 1 {
		return nil // all orphans are process 1's, and gVisor's kernel has no other reaper
	}
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// newSession starts a process in a session of its own, and has the kernel kill
// it when we are killed ourselves. (The kernel means the thread that started it;
// Go ends threads only with goroutines locked to them, and none here is.)
func newSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

type stat struct {
	ppid, sid int
	zombie    bool
}

// readStat reads one line of /proc; ok is false when the process is gone.
func readStat(pid int) (s stat, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, false
	}
	// The command is in parentheses and may hold anything, also ")".
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return s, false
	}
	f := bytes.Fields(b[i+1:])
	if len(f) < 4 {
		return s, false
	}
	s.zombie = f[0][0] == 'Z' || f[0][0] == 'X'
	s.ppid, _ = strconv.Atoi(string(f[1]))
	s.sid, _ = strconv.Atoi(string(f[3]))
	return s, true
}

// scan looks at every process. settled is false where one of them ended
// meanwhile: what it started just before is not among them.
func scan() (all map[int]stat, settled bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, true
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	all, settled = make(map[int]stat, len(names)), true
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		s, ok := readStat(pid)
		if !ok {
			settled = false
			continue
		}
		all[pid] = s
	}
	return all, settled
}

// adopted lists our children that we did not start: processes that lost their
// parent. Children that other code of this program started are in our own
// session and are none of ours.
func (t *Table) adopted() map[int]stat {
	self := os.Getpid()
	own, _ := unix.Getsid(0)
	out := map[int]stat{}
	// Orphans go to the thread group's leader, so its list is enough.
	b, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(self) + "/children")
	if err != nil {
		all, _ := scan()
		for pid, s := range all {
			if s.ppid == self && s.sid != own {
				out[pid] = s
			}
		}
	} else {
		for _, f := range bytes.Fields(b) {
			pid, _ := strconv.Atoi(string(f))
			if s, ok := readStat(pid); ok && s.sid != own {
				out[pid] = s
			}
		}
	}
	t.mu.Lock()
	for pid := range out {
		if _, ours := t.roots[pid]; ours {
			delete(out, pid)
		}
	}
	t.mu.Unlock()
	return out
}

// Reap takes the exit status of adopted processes that have ended, and returns
// the adopted ones still alive.
func (t *Table) Reap() map[int]stat {
	t.fork.Lock()
	defer t.fork.Unlock()
	alive := t.adopted()
	for pid, s := range alive {
		if s.zombie {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			delete(alive, pid)
		}
	}
	return alive
}

// killTree kills what belongs to r and reports whether anything was alive, and
// whether the look missed nothing (see scan). sids are the sessions seen to be r's; it grows from call to call, so that
// what is adopted between two looks is known again.
func (t *Table) killTree(r *root, rootAlive bool, sids map[int]bool) (left, settled bool) {
	t.Reap()
	// One look for everything: between two, what has its parent or its session
	// still is what has fled already.
	all, settled := scan()
	self := os.Getpid()
	own, _ := unix.Getsid(0)
	victims := map[int]bool{}
	if rootAlive {
		victims[r.pid] = true
	}
	for pid, s := range all {
		adopted := s.ppid == self && s.sid != own
		if sids[s.sid] || adopted && t.sessionOwner(s.sid) == nil && t.fledFrom(r, pid) {
			victims[pid] = true
		}
	}
	left = killDescendants(all, victims, sids)
	for pid := range victims {
		// It may have ended during the look.
		settled = settled && !all[pid].zombie
	}
	return left, settled
}

// killLeft kills what the closing group left and reports whether anything was
// alive. It costs one read of /proc where nothing was left.
func (g *Group) killLeft() bool {
	t := g.table
	orphans := t.Reap()
	victims := map[int]bool{}
	for pid, s := range orphans {
		if t.owner(pid, s.sid) == g {
			victims[pid] = true
		}
	}
	if len(victims) == 0 {
		return false
	}
	sids := map[int]bool{}
	all, _ := scan()
	left := killDescendants(all, victims, sids)
	t.mu.Lock()
	defer t.mu.Unlock()
	for sid := range sids {
		if t.sessions[sid] == nil {
			t.sessions[sid] = g
			g.sids = append(g.sids, sid)
		}
	}
	return left
}

// killDescendants kills victims and all below them, and adds their sessions
// to sids.
func killDescendants(all map[int]stat, victims, sids map[int]bool) bool {
	for grown := true; grown; {
		grown = false
		for pid, s := range all {
			if !victims[pid] && victims[s.ppid] {
				victims[pid], grown = true, true
			}
		}
	}
	own, _ := unix.Getsid(0)
	left := false
	for pid := range victims {
		s, ok := all[pid]
		if !ok {
			continue
		}
		if s.sid != own && s.sid != 0 {
			sids[s.sid] = true
		}
		if !s.zombie && syscall.Kill(pid, syscall.SIGKILL) == nil {
			left = true
		}
	}
	return left
}

func (t *Table) sessionOwner(sid int) *Group {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sessions[sid]
}

// owner tells which group an adopted process fled from: by its session, by
// there being only one, or by its environment. nil: can not be told; then the
// last group that closes ends it.
func (t *Table) owner(pid, sid int) *Group {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.sessions[sid]; g != nil {
		return g
	}
	if len(t.groups) == 1 {
		for g := range t.groups {
			return g
		}
	}
	environ := readEnviron(pid)
	var found *Group
	for g := range t.groups {
		for _, env := range g.recent {
			if contains(environ, env) {
				if found != nil && found != g {
					return nil
				}
				found = g
			}
		}
	}
	return found
}

// fledFrom tells whether an adopted process of an unknown session came from r
// and from no other running process.
func (t *Table) fledFrom(r *root, pid int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	others := 0
	for _, o := range t.roots {
		if o != r {
			others++
		}
	}
	if others == 0 && len(t.groups) == 1 {
		return true
	}
	environ := readEnviron(pid)
	if !contains(environ, r.env) {
		return false
	}
	for _, o := range t.roots {
		if o != r && contains(environ, o.env) {
			return false
		}
	}
	return true
}

func readEnviron(pid int) map[string]bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	set := map[string]bool{}
	for _, kv := range bytes.Split(b, []byte{0}) {
		set[string(kv)] = true
	}
	return set
}

// contains is false for an empty env: that tells nothing.
func contains(environ map[string]bool, env []string) bool {
	for _, kv := range env {
		if !environ[kv] {
			return false
		}
	}
	return len(env) > 0
}

func (*Group) noteLeft(*root) {}
