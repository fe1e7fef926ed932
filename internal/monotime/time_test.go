package monotime

import (
	"math"
	"testing"
	"time"
)

func TestArithmetic(t *testing.T) {
	for _, c := range []struct {
		from, to Time
		d        time.Duration
	}{
		{5, 5, 0},
		{5, 5_000_005, 5 * time.Millisecond},
		{5_000_005, 5, -5 * time.Millisecond},
		{0, Never, math.MaxInt64},
		{-3, 4, 7},
		{Never, math.MinInt64, 1}, // neither looks for overflow
	} {
		if got := c.from.Add(c.d); got != c.to {
			t.Errorf("%d.Add(%v) = %d, want %d", c.from, c.d, got, c.to)
		}
		if got := c.to.Sub(c.from); got != c.d {
			t.Errorf("%d.Sub(%d) = %v, want %v", c.to, c.from, got, c.d)
		}
	}
}

func TestNever(t *testing.T) {
	if now := Now(); now >= Never || now.Add(100*365*24*time.Hour) >= Never {
		t.Errorf("Now is %d", now)
	}
}
