package idle

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

const (
	// offCore is a gap between two passes that only a thread that keeps the core explains.
	// Interrupts and threads that do little take less.
	offCore = 500 * time.Microsecond
	// Others want the core if they had it for tooMuch, not counting an eighth of the time: two
	// time slices or so. The odd thread of the system gets less.
	tooMuch = 2 * time.Millisecond
	leak    = 8
	// That is believed for minHold, and each time that it is found true again soon for twice
	// as long: to find out costs about tooMuch.
	minHold = 20 * time.Millisecond
	maxHold = time.Second
	// A quota is a setting, and lasts. To find out costs a good part of a period of 100 ms.
	minQuotaHold = 2 * time.Second
	maxQuotaHold = 2 * time.Minute
)

// rivals tracks how much other threads want a loop's core.
type rivals struct {
	lost  time.Duration // time off the core, less the part that is forgiven
	at    monotime.Time // when it was
	until monotime.Time // others are supposed to want the core
	hold  time.Duration
	quota monotime.Time // until then the process is supposed to have a quota
}

func (r *rivals) want(now monotime.Time) bool { return now < r.until }

// off notes that the loop was off the core for a gap that ends now.
//
//go:noinline
func (r *rivals) off(now monotime.Time, gap time.Duration) {
	r.lost = max(0, r.lost-now.Sub(r.at)/leak) + gap
	r.at = now
	if r.lost < tooMuch || r.want(now) {
		return
	}
	r.believe(now, minHold, maxHold)
}

// throttle notes that a quota was used up.
func (r *rivals) throttle(now monotime.Time) {
	r.believe(now, minQuotaHold, maxQuotaHold)
	r.quota = r.until
}

// throttled reports whether want is true for a quota.
func (r *rivals) throttled(now monotime.Time) bool { return now < r.quota }

// believe makes the loop sleep for twice as long as the last time, if that was not long ago.
func (r *rivals) believe(now monotime.Time, least, most time.Duration) {
	if now.Sub(r.until) > 2*r.hold {
		r.hold = 0
	}
	r.lost = 0
	r.hold = max(least, min(2*r.hold, most))
	r.until = now.Add(r.hold)
}

const (
	// A loop is busy if it does busyCalls or more from one spell to the next, and its work takes at
	// least one part in busyPart of the time that its spells take. Both on average, over loadOf
	// spells or so.
	busyCalls = 8
	busyPart  = 3
	loadOf    = 16
	// busyCost is the least cost of a sleep of a busy loop, whatever its own tries say. They compare
	// lengths of its spells. They don't see that many calls wait for its wake-up, and that a spin
	// takes a core from the very threads whose packets it awaits, when these sleep as well.
	busyCost = 25 * time.Microsecond
)

// load tracks how much a loop works.
type load struct {
	ended monotime.Time // the last spell
	work  time.Duration // between two spells, on average
	idle  time.Duration // in a spell, on average
	calls int64         // between two spells, on average, times loadOf
	count uint64        // State.Calls when the last spell began
}

// begin notes that a spell began, with the last work. All calls so far are count.
func (l *load) begin(at monotime.Time, count uint64) {
	if l.ended != 0 {
		l.work += (at.Sub(l.ended) - l.work) / loadOf
		l.calls += int64(count-l.count) - l.calls/loadOf
	}
	l.count = count
}

// end notes that a spell ended at now, and took so long. It reports whether the loop is busy.
func (l *load) end(now monotime.Time, took time.Duration) bool {
	l.ended = now
	l.idle += (took - l.idle) / loadOf
	return l.calls >= busyCalls*loadOf && busyPart*l.work >= l.idle
}
