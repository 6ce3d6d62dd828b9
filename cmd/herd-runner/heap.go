package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// firstHeap is how large the heap may get before garbage is collected for the
// first time, in percent of the 4 MiB that Go begins with.
const firstHeap = 400

// collectLater puts off the first collection, which a short run does not need: it
// costs such a run a fifth of its time. From then on everything is as usual.
func collectLater() {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual := debug.SetGCPercent(firstHeap)
	first := new([64]*byte)
	runtime.AddCleanup(first, func(percent int) { debug.SetGCPercent(percent) }, usual)
}
