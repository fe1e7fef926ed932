package simtest

import "testing"

// TestLeftFirstSeed: a member that was to go had heard first that it might, and had the longest
// log. The others needed its vote to go on; it gave none and could not be elected itself.
func TestLeftFirstSeed(t *testing.T) {
	var sum totals
	runSeed(t, 1795454164510, true, &sum)
	if sum.joint == 0 || sum.kills == 0 {
		t.Errorf("the run is another one now: %+v", sum)
	}
}
