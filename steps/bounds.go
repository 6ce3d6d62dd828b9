package steps

import "sync"

// bounds count what runs at the same time, by class, over a run and all that it
// calls. Safe for concurrent use.
type bounds struct {
	limit [classCount]int // 0: no limit

	mu      sync.Mutex
	active  [classCount]int
	waiting map[chan struct{}]bool // schedulers that found no place
}

func newBounds(scripts, agents int) *bounds {
	b := &bounds{waiting: map[chan struct{}]bool{}}
	b.limit[classRun], b.limit[classAgent] = max(1, scripts), max(1, agents)
	return b
}

// take takes a place. Where there is none, freed, which has room for one value,
// is told once there may be one.
func (b *bounds) take(c class, freed chan struct{}) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit[c] > 0 && b.active[c] >= b.limit[c] {
		b.waiting[freed] = true
		return false
	}
	b.active[c]++
	return true
}

// give gives a place back and wakes all who found none.
func (b *bounds) give(c class) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active[c]--
	if b.limit[c] == 0 {
		return
	}
	for freed := range b.waiting {
		select {
		case freed <- struct{}{}:
		default:
		}
	}
	clear(b.waiting)
}

func (b *bounds) leave(freed chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, freed)
}
