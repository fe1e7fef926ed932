package failures

import (
	"slices"
	"testing"
)

// TestAllPairs: what CI runs has all pairs of values, in few cells, and each cell that is missing
// has a reason.
func TestAllPairs(t *testing.T) {
	cells, voids := allCells()
	all := 1
	for _, d := range dimensions {
		all *= len(d)
	}
	void := 0
	for _, n := range voids {
		void += n
	}
	chosen := allPairs(cells)
	t.Logf("%d cells, %d void, %d have all pairs", all, void, len(chosen))
	if len(cells)+void != all || len(chosen) < 30 || len(chosen) > 48 {
		t.Errorf("%d cells and %d void of %d; %d chosen", len(cells), void, all, len(chosen))
	}
	have := make(map[couple]bool)
	for _, c := range chosen {
		for _, p := range c.couples() {
			have[p] = true
		}
	}
	for _, c := range cells {
		if i := slices.IndexFunc(c.couples(), func(p couple) bool { return !have[p] }); i >= 0 {
			t.Fatalf("%v: nothing chosen has %v", c, c.couples()[i])
		}
	}
}
