package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// When garbage is collected, in percent of what is in use; of 4 MiB at first.
const (
	firstHeap = 200
	laterHeap = 100 // Go's own
)

// collectLater puts off the first collection, which a short run does not need: it
// costs such a run a fifth of its time.
func collectLater() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(firstHeap)
	first := new([64]*byte)
	runtime.AddCleanup(first, func(percent int) { debug.SetGCPercent(percent) }, laterHeap)
}
