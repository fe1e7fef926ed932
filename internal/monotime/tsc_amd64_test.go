package monotime

import (
	"testing"
	"time"
)

// TestSwitch goes from the system's clock to the counter: the time must not jump back.
func TestSwitch(t *testing.T) {
	if !linuxUsesIt() {
		t.Skip("no usable counter")
	}
	for range 5 {
		c := newCounter(ticks, system, linuxUsesIt)
		last, used := Time(0), 0
		for end := system().Add(2 * time.Second); used < 1000 && system() < end; {
			now := c.now()
			if now < last {
				t.Fatalf("%d after %d", now, last)
			}
			if last = now; c.used() {
				used++
			}
		}
		if used == 0 {
			t.Error("the counter was not used")
		}
	}
}

// TestTogether: the counter keeps the system's time, to within what the processor may do between
// two readings.
func TestTogether(t *testing.T) {
	for start := system(); system().Sub(start) < 3*warmUp; {
		before := system()
		now := Now()
		after := system()
		if now < before-1000 || now > after.Add(span) {
			t.Fatalf("Now = %d, the system's clock said %d and %d", now, before, after)
		}
	}
}
