package idle

import (
	"testing"
	"time"
)

// TestRegularPackets: packets that come at equal intervals are met by a spin if the wake-up took
// more than a tenth of the rate, and if the loop may spin for that long. So a caller that waits for
// each answer, and then does something before its next call, has nine tenths of the calls that it
// would have of a loop that always spins.
func TestRegularPackets(t *testing.T) {
	for _, wake := range []time.Duration{5 * us, 10 * us, 18 * us, 30 * us, 60 * us, 100 * us} {
		for _, d := range []time.Duration{3 * us, 10 * us, 20 * us, 40 * us, 70 * us, 100 * us,
			150 * us, 190 * us, 250 * us, 300 * us, 600 * us, ms} {
			for _, before := range []time.Duration{2 * us, 10 * ms} {
				m := newMachine(adaptive)
				m.wake = wake
				m.spells(2000, before)
				m.spells(1000, d)
				m.taken()
				var delay time.Duration
				for range 1000 {
					delay += m.spell(d)
				}
				n := m.taken()[Sleep]
				if spins := d < min(regularTimes*wake, 200*us); spins && n > 20 || !spins && n < 950 {
					t.Errorf("wake-ups of %v, packets after %v: slept %d of 1,000 times", wake, d, n)
				}
				if rate := float64(d) / float64(d+delay/1000-pass); rate < .89 && d < 200*us {
					t.Errorf("wake-ups of %v, packets after %v: a caller has %.2f of its rate",
						wake, d, rate)
				}
			}
		}
	}
}

// TestBunches: calls of several callers come in two bunches, and then all of them pause. The loop
// spins: each wake-up would delay them all.
func TestBunches(t *testing.T) {
	m := newMachine(adaptive)
	for i := range 4000 {
		if i == 2000 {
			m.taken()
		}
		if m.spell(70 * us); i%2 == 0 {
			m.spell(100 * us)
		}
	}
	if n := m.taken()[Sleep]; n > 100 {
		t.Errorf("slept %d of 3,000 times", n)
	}
}

// TestOddPacket: of regular packets one of forty may be late, one of twenty may not.
func TestOddPacket(t *testing.T) {
	for _, c := range []struct {
		of     int
		sleeps bool
	}{{40, false}, {20, true}} {
		m := newMachine(adaptive)
		for i := range 4000 {
			if i == 2000 {
				m.taken()
			}
			d := 100 * us
			if i%c.of == 0 {
				d = ms
			}
			m.spell(d)
		}
		if n := m.taken()[Sleep]; c.sleeps && n < 1900 || !c.sleeps && n > 150 {
			t.Errorf("one late of %d: slept %d of 2,000 times", c.of, n)
		}
	}
}
