//go:build !linux

package proc

import "syscall"

// Without subreapers only process groups can be followed: a process that
// leaves its group (setsid) is not found again.

// newSession starts a process in a session of its own.
func newSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func becomeSubreaper() error { return nil }

// Reap has nothing to do where nothing is adopted.
func (t *Table) Reap() map[int]struct{} { return nil }

func (t *Table) killTree(r *root, _ bool, _ map[int]bool) (left, settled bool) {
	return syscall.Kill(-r.pid, syscall.SIGKILL) == nil, true
}

// noteLeft remembers the group of r if something in it outlived r; its number
// is not given to others while it exists.
func (g *Group) noteLeft(r *root) {
	if syscall.Kill(-r.pid, 0) != nil {
		return
	}
	g.table.mu.Lock()
	g.left = append(g.left, r.pid)
	g.table.mu.Unlock()
}

func (g *Group) killLeft() bool {
	g.table.mu.Lock()
	defer g.table.mu.Unlock()
	alive := g.left[:0]
	for _, pgid := range g.left {
		if syscall.Kill(-pgid, syscall.SIGKILL) == nil {
			alive = append(alive, pgid)
		}
	}
	g.left = alive
	return len(alive) > 0
}
