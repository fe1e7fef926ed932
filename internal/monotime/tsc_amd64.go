package monotime

import (
	"math/bits"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// ticks reads the processor's time stamp counter. It does not wait for instructions
// before it, so it may be early by the time that the processor needs for them.
//
//go:noescape
func ticks() uint64

// scale turns ticks into the time.
type scale struct {
	at   uint64 // ticks
	time Time   // the time then
	mult uint64 // ns per tick, 2^-32 ns
}

var (
	current  atomic.Pointer[scale] // nil: the system's clock
	starting atomic.Bool           // somebody looks whether the counter can be used
	first    = sample()
)

// warmUp is how long the counter is compared with the system's clock before it is used.
// Each comparison may be wrong by some 50 ns: 2 parts in a million of this time.
const warmUp = 50 * time.Millisecond

// clocksource is where Linux says which clock it trusts.
const clocksource = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

// Now returns the time since the process started, plus one nanosecond, on a clock that
// never goes backwards and that nobody sets. It is always positive.
//
// Where Linux itself takes the time from the time stamp counter, one call costs about
// 8 ns, else about 25 ns (a vDSO call). The counter is compared with the system's clock once: after
// that the two drift apart by a few parts in a million.
func Now() Time {
	if s := current.Load(); s != nil {
		if d := ticks() - s.at; int64(d) >= 0 {
			hi, lo := bits.Mul64(d, s.mult)
			return s.time + Time(hi<<32|lo>>32)
		}
		// The machine slept and the counter was reset, or it is not what it seemed.
	}
	return slow()
}

// slow is Now by the system's clock.
func slow() Time {
	now := system()
	if now.Sub(first.time) > warmUp && !starting.Load() && starting.CompareAndSwap(false, true) {
		if name, err := os.ReadFile(clocksource); err == nil && strings.TrimSpace(string(name)) == "tsc" {
			current.Store(scaleFrom(first, sample()))
		}
	}
	return now
}

// base carries the monotonic clock reading that Now counts from.
var base = time.Now()

// system reads the system's clock. Since looks at the monotonic reading only and is
// half the price of time.Now.
func system() Time { return Time(time.Since(base)) + 1 }

// moment is one reading of both clocks.
type moment struct {
	ticks uint64
	time  Time
}

// sample reads both clocks, the counter first: so what is counted from a moment is never
// before the system's time. It takes the quickest of some readings, since the thread may
// be stopped between the two.
func sample() moment {
	var best moment
	least := uint64(1 << 63)
	for range 10 {
		m := moment{ticks(), system()}
		if took := ticks() - m.ticks; took < least {
			best, least = m, took
		}
	}
	return best
}

// scaleFrom returns the scale that two moments give, nil if they make no sense.
func scaleFrom(a, b moment) *scale {
	dt, dn := b.ticks-a.ticks, b.time.Sub(a.time)
	// From 100 MHz to 100 GHz; it keeps Div64 from overflow too.
	if dn <= 0 || dt < uint64(dn)/10 || dt/100 > uint64(dn) {
		return nil
	}
	mult, _ := bits.Div64(uint64(dn)>>32, uint64(dn)<<32, dt)
	return &scale{at: b.ticks, time: b.time, mult: mult}
}
