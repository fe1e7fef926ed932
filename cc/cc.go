package cc

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// Time is a point on the clock of an endpoint. The alias gives it a name outside this
// module, for implementations of Controller.
type Time = monotime.Time

// Controller is the congestion control of one session. One goroutine at a time
// uses it. Whatever the arguments are (a time that stands still or jumps back, a
// round trip of 0 or of hours) it returns a rate within its own bounds.
type Controller interface {
	// OnAck takes what the answer to one packet tells.
	//
	//	now    the time
	//	rtt    round trip without the server's hold time; 0 if not measured
	//	base   least round trip of the session in the last while; 0 if unknown
	//	bytes  size on the wire of the packet that was answered
	//	ce     the packet met congestion (an echoed CE mark, RFC 3168)
	//
	// It returns the rate to keep to from now on in bytes per second, at most the
	// link's rate, and the bypass limit, not negative: while the rate is the link's,
	// answers without mark whose rtt is at most bypass need not be told.
	OnAck(now Time, rtt, base time.Duration, bytes int, ce bool) (
		rate float64, bypass time.Duration)

	// OnTimeout is called when a retransmission timeout passes without an answer, once for all
	// requests that one loss makes time out. It returns the rate to keep to, bytes per second.
	OnTimeout(now Time) (rate float64)
}

// Algorithm makes the controllers of an endpoint's sessions.
type Algorithm struct {
	// Name is for people: "timely".
	Name string
	// New makes the controller of one session. Its rate is linkRate, bytes per
	// second, until it says otherwise.
	New func(linkRate float64) Controller
	// Bypass is the bypass limit, see Controller.OnAck, of a session that has no
	// controller yet. math.MaxInt64 waits for a congestion mark; a negative value
	// tells the controller every answer.
	Bypass time.Duration
}
