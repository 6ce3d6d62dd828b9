package workflow

import "testing"

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
