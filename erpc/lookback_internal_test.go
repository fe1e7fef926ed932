package erpc

import "testing"

// TestOftenLate: a loop wants stamps once many of its bursts come late, and at least one in eight,
// however many came in time before.
func TestOftenLate(t *testing.T) {
	feed := func(b *burstTimes, n, inTimePerLate int) (wanted int) {
		for range n {
			b.inTime += uint32(inTimePerLate)
			if b.oftenLate() {
				wanted++
			}
		}
		return wanted
	}
	for _, tt := range []struct {
		before uint32 // in time
		n, per int
		wanted bool
	}{
		{0, 3, 0, false}, {0, 4, 0, true}, {0, 1000, 5, true}, {0, 100_000, 9, false},
		{1 << 31, 3, 0, false}, {1 << 31, 1000, 5, true}, {1 << 31, 100_000, 9, false},
		{0, 1000, 1 << 20, false},
	} {
		b := burstTimes{inTime: tt.before}
		if got := feed(&b, tt.n, tt.per) > 0; got != tt.wanted {
			t.Errorf("%+v: wanted %v", tt, got)
		}
	}
}
