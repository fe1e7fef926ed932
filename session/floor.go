package session

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

const (
	// The floor is sure after sureAnswers answers, or after surePings pings: a path that many
	// endpoints begin to use at the same time looks longer than it is, and a peer may be silent.
	sureAnswers = 3
	surePings   = 8
	// floorEvery is the time between the first two pings. It doubles with each, up to maxFloorEvery.
	floorEvery    = 20 * time.Millisecond
	maxFloorEvery = time.Second
)

// pathFloor bounds what hold times take off round trips: a server that lies about them would make
// each round trip look like none, and congestion control would not see a queue. Nothing is faster
// than half of what the path took at best, holds included. That is too much where all handlers are
// slow. So when a hold time leaves less, the session's owner asks the peer by a ping, which is
// never held; until the answers have come hold times are believed.
type pathFloor struct {
	min      time.Duration // that an answer took, with nothing taken off; 0 before the first
	at       monotime.Time // when the next ping is due
	unsure   bool          // a hold time left too little
	pings    uint8
	answered uint8
}

// took notes how long an answer took.
func (f *pathFloor) took(d time.Duration) {
	if d < f.min || f.min == 0 {
		f.min = max(d, 1)
	}
}

// check takes a round trip of which hold times have left rtt, and returns it, or half of the floor
// if that is more and the floor is sure. It is rare that there is anything to do.
//
//go:noinline
func (f *pathFloor) check(took, rtt time.Duration) time.Duration {
	f.took(took)
	if rtt >= f.min/2 {
		return rtt
	}
	f.unsure = true
	if f.answered >= sureAnswers || f.pings >= surePings {
		return max(f.min/2, 1)
	}
	return rtt
}

// PathPingDue reports whether the owner is to measure the path with a ping now, and notes that it
// does.
func (c *Client) PathPingDue(now monotime.Time) bool {
	f := &c.floor
	if !f.unsure || now < f.at {
		return false
	}
	f.at = now.Add(min(floorEvery<<f.pings, maxFloorEvery))
	f.pings = min(f.pings+1, surePings)
	return true
}

// PathTook takes the round trip of such a ping.
func (c *Client) PathTook(d time.Duration) {
	f := &c.floor
	f.took(d)
	f.unsure = false
	f.answered = min(f.answered+1, sureAnswers)
}
