package monotime

import (
	"testing"
	"time"
)

func TestScale(t *testing.T) {
	for _, c := range []struct {
		a, b moment
		mult uint64 // 0: no scale
	}{
		{moment{1000, 5}, moment{1000 + 2_500_000_000, 5 + 1_000_000_000}, 1717986918}, // 2.5 GHz: 0.4 ns
		{moment{0, 0}, moment{1 << 40, 1 << 40}, 1 << 32},
		{moment{^uint64(0) - 9, 1}, moment{90, 101}, 1 << 32}, // the counter wraps
		{moment{0, 0}, moment{1e9, 0}, 0},
		{moment{0, 10}, moment{1e9, 5}, 0},
		{moment{0, 0}, moment{1e6, 1e9}, 0},   // 1 MHz
		{moment{1e9, 0}, moment{0, 1e9}, 0},   // backwards
		{moment{0, 0}, moment{1e12, 1e9}, 0},  // 1 THz
		{moment{0, 0}, moment{0, 1 << 62}, 0}, // stands still
	} {
		s := scaleFrom(c.a, c.b)
		switch {
		case s == nil && c.mult != 0 || s != nil && c.mult == 0:
			t.Errorf("%+v to %+v: %+v, want mult %d", c.a, c.b, s, c.mult)
		case s != nil && s.mult != c.mult:
			t.Errorf("%+v to %+v: mult %d, want %d", c.a, c.b, s.mult, c.mult)
		case s != nil && (s.at != c.b.ticks || s.time != c.b.time):
			t.Errorf("%+v does not start at %+v", s, c.b)
		}
	}
}

// TestSwitch goes from the system's clock to the counter: the time must not jump back.
func TestSwitch(t *testing.T) {
	defer current.Store(current.Load())
	for range 100 {
		current.Store(nil)
		a := Now()
		from := first
		for system().Sub(from.time) < time.Millisecond { // if this is the first test
		}
		s := scaleFrom(from, sample())
		if s == nil {
			t.Skip("no usable counter")
		}
		last := Now()
		current.Store(s)
		for range 100 {
			now := Now()
			if now < last || now < a {
				t.Fatalf("%d after %d", now, last)
			}
			last = now
		}
	}
}

// TestReset: a counter that has been set back is not believed.
func TestReset(t *testing.T) {
	defer current.Store(current.Load())
	current.Store(&scale{at: ticks() + 1<<40, time: 1 << 50, mult: 1 << 32})
	before := system()
	if now := Now(); now < before || now > before.Add(time.Minute) {
		t.Fatalf("Now = %d, the system's clock says %d", now, before)
	}
}

// TestTogether: the counter keeps the system's time.
func TestTogether(t *testing.T) {
	for start := system(); !starting.Load() || system().Sub(start) < time.Millisecond; {
		Now()
	}
	if current.Load() == nil {
		t.Skip("the system's clock is not the time stamp counter")
	}
	for range 1000 {
		before := system()
		now := Now()
		after := system()
		// 100 parts in a million of a test's few minutes.
		if slack := now / 10_000; now < before-slack-1000 || now > after+slack+1000 {
			t.Fatalf("Now = %d, the system's clock said %d and %d", now, before, after)
		}
	}
}
