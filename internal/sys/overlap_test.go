package sys

import "testing"

// TestOverlap: slices of an array overlap if they have a byte in common, and others never do.
func TestOverlap(t *testing.T) {
	a := make([]byte, 16)
	for _, c := range []struct {
		a, b []byte
		want bool
	}{
		{a, a, true}, {a[:8], a[7:], true}, {a[7:], a[:8], true}, {a[:8], a[8:], false},
		{a[8:], a[:8], false}, {a, a[5:6], true}, {a[5:6], a, true}, {a, a[5:5], false},
		{nil, a, false}, {a, nil, false}, {nil, nil, false}, {a, make([]byte, 16), false},
	} {
		if got := Overlap(c.a, c.b); got != c.want {
			t.Errorf("%d and %d bytes: %v, want %v", len(c.a), len(c.b), got, c.want)
		}
	}
}
