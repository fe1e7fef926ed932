package sys

import "testing"

// TestYield: the processor comes back, and nothing is allocated.
func TestYield(t *testing.T) {
	if n := testing.AllocsPerRun(100, Yield); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
