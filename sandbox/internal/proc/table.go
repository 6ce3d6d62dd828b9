// Package proc runs processes and ends whole process trees. It is the one
// place that forks: package host uses it on the runner's machine, package
// guest as process 1 of a container.
//
// A process that flees (setsid, double fork) is found again because the
// calling process is a child subreaper on Linux: whoever loses its parent
// becomes our child, and is told apart from our own children by its session.
// Nothing is paid for this per process; a look is taken only when a tree is
// killed or a group closes.
package proc

import (
	"os"
	"sync"
)

// maxRecentEnvs bounds how many environments a group remembers to recognise
// processes that fled from it.
const maxRecentEnvs = 64

// Table knows every process started here. There is one per OS process. It is
// safe for concurrent use.
type Table struct {
	// fork is held for reading while a process is started and entered, for
	// writing while adopted processes are reaped, so that the reaper never
	// takes the exit status of a process it does not know yet.
	fork    sync.RWMutex
	around  func(start func())
	devNull *os.File
	buffers sync.Pool

	mu       sync.Mutex
	roots    map[int]*root
	sessions map[int]*Group
	groups   map[*Group]struct{}
}

// root is a process we started: the head of a session of its own.
type root struct {
	pid   int
	group *Group
	env   []string
}

// Shared returns the table of this program. There is only one because what it
// stands for, being the parent of orphans, belongs to the whole program: two
// tables would take each other's children for orphans.
//
//nolint:gochecknoglobals // see above
var Shared = sync.OnceValues(func() (*Table, error) { return NewTable(nil) })

// NewTable makes this process the reaper of its orphaned descendants. Each
// process is started inside a call of around, where that is not nil.
func NewTable(around func(start func())) (*Table, error) {
	if err := becomeSubreaper(); err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if around == nil {
		around = func(start func()) { start() }
	}
	return &Table{
		around:   around,
		devNull:  null,
		buffers:  sync.Pool{New: func() any { b := make([]byte, chunkSize); return &b }},
		roots:    map[int]*root{},
		sessions: map[int]*Group{},
		groups:   map[*Group]struct{}{},
	}, nil
}

// Group is the set of processes of one box.
type Group struct {
	table *Table
	kill  chan struct{} // closed by Close: every Run ends

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup

	// guarded by table.mu
	sids   []int
	recent [][]string
	drains map[*os.File]struct{}
	//lint:ignore U1000 on Linux the kernel gives orphans to us
	left []int // process groups alive after their root ended
}

// NewGroup opens a group. Close ends it.
func (t *Table) NewGroup() *Group {
	g := &Group{table: t, kill: make(chan struct{}), drains: map[*os.File]struct{}{}}
	t.mu.Lock()
	t.groups[g] = struct{}{}
	t.mu.Unlock()
	return g
}

// enter reports false when the group is closed.
func (g *Group) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.wg.Add(1)
	return true
}

func (t *Table) add(r *root) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := r.group
	t.roots[r.pid] = r
	t.sessions[r.pid] = g
	g.sids = append(g.sids, r.pid)
	if len(g.recent) == maxRecentEnvs {
		copy(g.recent, g.recent[1:])
		g.recent = g.recent[:maxRecentEnvs-1]
	}
	g.recent = append(g.recent, r.env)
}

func (t *Table) remove(r *root) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.roots[r.pid] == r {
		delete(t.roots, r.pid)
	}
}

func (t *Table) forget(g *Group) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, sid := range g.sids {
		if t.sessions[sid] == g {
			delete(t.sessions, sid)
		}
	}
	g.sids, g.recent = nil, nil
	delete(t.groups, g)
}
