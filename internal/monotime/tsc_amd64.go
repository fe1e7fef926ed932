package monotime

import (
	"os"
	"strings"
	"time"
)

// ticks reads the processor's time stamp counter. It does not wait for instructions
// before it, so it may be early by the time that the processor needs for them.
//
//go:noescape
func ticks() uint64

// tsc is the clock of this process.
var tsc = newCounter(ticks, system, linuxUsesIt)

// clocksource is where Linux says which clock it trusts.
const clocksource = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

func linuxUsesIt() bool {
	name, err := os.ReadFile(clocksource)
	return err == nil && strings.TrimSpace(string(name)) == "tsc"
}

// Now returns the time since the process started, plus one nanosecond, on a clock that
// never goes backwards and that nobody sets. It is always positive.
//
// Where Linux itself takes the time from the time stamp counter, one call costs about
// 8 ns, else about 25 ns (a vDSO call). Every 10 ms it is compared with the system's clock.
// One that was reset, jumps or runs at another speed is not used any more, and the time was never
// more than these 10 ms ahead of the system's clock. Two things cannot be seen, and are for callers
// who need it to guard against: Linux may let the counters of two processors differ by some
// nanoseconds, and one may be set back to where it was less than 10 ms ago.
func Now() Time {
	turn := tsc.turn.Load()
	if now, ok := tsc.sheets[turn&1].read(ticks()); ok && tsc.turn.Load() == turn {
		return now
	}
	return tsc.slow()
}

// base carries the monotonic clock reading that Now counts from.
var base = time.Now()

// system reads the system's clock. Since looks at the monotonic reading only and is
// half the price of time.Now.
func system() Time { return Time(time.Since(base)) + 1 }
