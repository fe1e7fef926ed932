package wire

import (
	"testing"
	"time"
)

// TestRemaining: a time comes back no shorter, and at most a sixteenth longer; the try beside it.
func TestRemaining(t *testing.T) {
	for d := time.Nanosecond; d < 18*time.Hour; d += d/7 + 1 {
		f := TryRemaining(67, d)
		got, ok := Remaining(f)
		if !ok || got < d || got > d+d/16+time.Microsecond || Try(f) != 3 {
			t.Fatalf("%v came back as %v, %v, try %d", d, got, ok, Try(f))
		}
	}
	for _, x := range []struct{ in, want time.Duration }{
		{0, time.Microsecond}, {-time.Hour, time.Microsecond}, {1, time.Microsecond},
		{31 * time.Microsecond, 31 * time.Microsecond}, {33 * time.Microsecond, 34 * time.Microsecond},
		{31 * time.Microsecond << 31, 31 * time.Microsecond << 31},
	} {
		if got, ok := Remaining(TryRemaining(0, x.in)); got != x.want || !ok {
			t.Errorf("%v came back as %v, %v", x.in, got, ok)
		}
	}
	for _, none := range []uint16{TryHold(9, 0), TryRemaining(9, 31*time.Microsecond<<31+1), TryRemaining(9, 1<<63-1)} {
		if left, ok := Remaining(none); ok || left != 0 || Try(none) != 9 {
			t.Errorf("no limit came back as %v, %v, try %d", left, ok, Try(none))
		}
	}
}

// TestCuts: sizes fall, the least is that of any path, and flags carry each cut.
func TestCuts(t *testing.T) {
	for c := Cut(1); c <= MaxCut; c++ {
		if c > 1 && CutSizes[c] >= CutSizes[c-1] {
			t.Errorf("cut %d is %d bytes", c, CutSizes[c])
		}
		if f := c.Flags() | FlagCE | FlagGap; f.Cut() != c || f > 15 {
			t.Errorf("cut %d came back as %d", c, f.Cut())
		}
	}
	if CutSizes[MaxCut] < HeaderSize+MaxErrorSize {
		t.Error("an error answer does not fit the least packet")
	}
}
