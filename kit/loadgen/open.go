package loadgen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// Most is how many operations an open loop has under way at most: beyond that the server is lost.
const Most = 1 << 16

// Arrivals is an open loop: operations begin at the times of a Poisson process, whether those
// before have ended or not. Each has a slot.
type Arrivals struct {
	Rate  float64 // operations per second on average
	Until monotime.Time
	// Over reports whether nothing is under way, or the run failed.
	Over func() bool
	// Stopped reports whether the run failed.
	Stopped func() bool
	// Issue begins the operation that was due at a time in a slot. Slots are numbered from 0.
	Issue func(slot uint64, due monotime.Time)
	// Pass lets the event loop do what there is to do.
	Pass func() error

	free  []uint64
	slots uint64
}

// Ended gives a slot back.
func (a *Arrivals) Ended(slot uint64) { a.free = append(a.free, slot) }

// Run begins operations until the time is over, and waits for them. It returns when it began and
// ended. Errors: that of Pass, and that the server does not keep up.
func (a *Arrivals) Run(r *rand.Rand) (began, end monotime.Time, err error) {
	now := monotime.Now()
	began = now
	due := now
	for !(now >= a.Until && a.Over()) && !a.Stopped() {
		now = monotime.Now()
		for ; due <= now && due < a.Until; due = due.Add(Gap(r, a.Rate)) {
			if len(a.free) == 0 {
				if a.slots == Most {
					return began, now, fmt.Errorf("%d operations wait: the server does not keep up", Most)
				}
				a.free = append(a.free, a.slots)
				a.slots++
			}
			slot := a.free[len(a.free)-1]
			a.free = a.free[:len(a.free)-1]
			a.Issue(slot, due)
		}
		if err := a.Pass(); err != nil {
			return began, now, err
		}
	}
	return began, now, nil
}

// Gap draws the time to the next arrival of a Poisson process of a rate, in arrivals per second.
func Gap(r *rand.Rand, rate float64) time.Duration {
	return time.Duration(-math.Log(1-r.Float64()) / rate * 1e9)
}
