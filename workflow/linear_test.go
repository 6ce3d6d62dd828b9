package workflow

import (
	"testing"
	"time"
)

// THREATS 21: ten times the file costs about ten times the work, in
// allocations, which do not depend on the machine's load.
func TestCostIsLinear(t *testing.T) {
	cost := func(n int) float64 {
		src := []byte(bigWorkflow(n))
		return testing.AllocsPerRun(1, func() { Validate("big.yml", src) }) / float64(n)
	}
	small, big := cost(100), cost(sized(5000))
	if big > 1.3*small {
		t.Errorf("%.0f allocations for a step of many, %.0f for one of few", big, small)
	}
}

// A small file is checked in a few milliseconds: what a process costs is
// elsewhere.
func TestSmallFileIsCheap(t *testing.T) {
	src := []byte(bigWorkflow(10))
	Validate("small.yml", src) // tables are made when first asked for
	took := time.Hour
	for range 5 {
		start := cpuTime(t)
		Validate("small.yml", src)
		took = min(took, cpuTime(t)-start)
	}
	if took > 10*time.Millisecond && !raceEnabled {
		t.Errorf("took %v", took)
	}
}
