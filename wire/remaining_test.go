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
	for _, none := range []uint16{TryHold(9, 0), TryRemaining(9, 31*time.Microsecond<<31+1),
		TryRemaining(9, 1<<63-1)} {
		if left, ok := Remaining(none); ok || left != 0 || Try(none) != 9 {
			t.Errorf("no limit came back as %v, %v, try %d", left, ok, Try(none))
		}
	}
}

// TestRemainingFields compares fields with the layout that the wire has: six bits of try, above
// them five bits of mantissa and five of exponent. Times are in microseconds.
func TestRemainingFields(t *testing.T) {
	for _, x := range []struct {
		try      uint16
		us       time.Duration
		mantissa uint16
		exponent uint16
		back     time.Duration
	}{
		{0, 1, 1, 0, 1},
		{63, 30, 30, 0, 30},
		{1, 31, 31, 0, 31},
		{64, 32, 16, 1, 32},
		{2, 33, 17, 1, 34},
		{3, 62, 31, 1, 62},
		{4, 63, 16, 2, 64}, // 32 halves do not fit
		{5, 3000, 24, 7, 3072},
		{6, 1 << 35, 16, 31, 1 << 35},
		{7, 31 << 31, 31, 31, 31 << 31},
	} {
		want := x.try&63 | x.mantissa<<6 | x.exponent<<11
		if got := TryRemaining(x.try, x.us*time.Microsecond); got != want {
			t.Errorf("TryRemaining(%d, %d us) = %#x, want %#x", x.try, x.us, got, want)
		}
		if left, ok := Remaining(want); left != x.back*time.Microsecond || !ok {
			t.Errorf("Remaining(%#x) = %v, %v, want %d us", want, left, ok, x.back)
		}
	}
	if got := TryRemaining(0, 31*time.Microsecond+1); got != 16<<6|1<<11 {
		t.Errorf("a nanosecond more than 31 us is %#x", got)
	}
	if left, ok := Remaining(9 | 31<<11); left != 0 || ok { // an exponent of nothing
		t.Errorf("no limit came back as %v, %v", left, ok)
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
	if CutSizes != [4]int{0, 1452, 1232, 1024} || Cut(3).Flags() != 0b1100 || Cut(1).Flags() != 4 {
		t.Errorf("cuts of %v bytes", CutSizes)
	}
	if CutSizes[MaxCut] < HeaderSize+MaxErrorSize {
		t.Error("an error answer does not fit the least packet")
	}
}
