package monotime

import (
	"testing"
	"time"
)

func TestNow(t *testing.T) {
	last := Time(0)
	changed := false
	for i := 0; i < 100_000 || !changed; i++ { // a clock that stands still never ends
		now := Now()
		if now <= 0 || now < last {
			t.Fatalf("Now = %d after %d", now, last)
		}
		changed = changed || last != 0 && now != last
		last = now
	}
}

// TestUnit brackets Now by the standard clock: it must count nanoseconds.
func TestUnit(t *testing.T) {
	outer := time.Now()
	a := Now()
	inner := time.Now()
	var in time.Duration
	for in < time.Millisecond {
		in = time.Since(inner)
	}
	b := Now()
	out := time.Since(outer)
	if d := b.Sub(a); d < in || d > out {
		t.Fatalf("Now moved by %v, the standard clock between %v and %v", d, in, out)
	}
}

func TestNoAllocation(t *testing.T) {
	if n := testing.AllocsPerRun(1000, func() { Now() }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

var sink Time

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		sink += Now()
	}
}
