package session

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// rtoEstimator keeps smoothed RTT and its variation and derives the
// retransmission timeout as RFC 6298 does (alpha 1/8, beta 1/4, K 4).
type rtoEstimator struct {
	srtt      time.Duration // 0 before the first sample
	rttvar    time.Duration
	rto       time.Duration // within [min, max]
	hold      uint32        // how long handlers may take, ns
	hasty     uint8         // how often early doubles
	calm      uint8         // samples since hasty changed
	overtaken bool          // an answer has shown that other packets are lost
	min       time.Duration
	max       time.Duration

	base   time.Duration // least sample of this period of baseFor and the last; 0 before the first
	recent time.Duration // least sample of this period
	since  monotime.Time // when this period began
}

// baseFor is how long the path must have been longer before the session believes it. A shorter time
// would take a standing queue for the path; LEDBAT (RFC 6817, section 4.2) remembers 10 minutes as
// well, two periods.
const baseFor = 300 * time.Second

func newRTOEstimator(t *Timing) rtoEstimator {
	return rtoEstimator{rto: t.RTOInitial, min: t.RTOMin, max: t.RTOMax}
}

// sample takes one round-trip time.
func (e *rtoEstimator) sample(rtt time.Duration) {
	if rtt <= 0 {
		return
	}
	if e.hasty > 0 {
		e.calmDown()
	}
	if rtt < e.recent || e.recent == 0 {
		e.recent = rtt
		if rtt < e.base || e.base == 0 {
			e.base = rtt
		}
	}
	if e.srtt == 0 {
		e.srtt = rtt
		e.rttvar = rtt / 2
	} else {
		diff := e.srtt - rtt
		if diff < 0 {
			diff = -diff
		}
		e.rttvar += (diff - e.rttvar) / 4
		e.srtt += (rtt - e.srtt) / 8
	}
	e.rto = min(max(e.srtt+4*e.rttvar, e.min), e.max)
}

// baseAt returns the least round trip of the last while.
func (e *rtoEstimator) baseAt(now monotime.Time) time.Duration {
	if now.Sub(e.since) > baseFor {
		if e.recent != 0 {
			e.base = e.recent
		}
		e.recent, e.since = 0, now
	}
	return e.base
}

// timeout returns the timeout after the given number of retries: it doubles
// with each, up to the maximum.
func (e *rtoEstimator) timeout(retries uint8) time.Duration {
	shift := min(retries, 62)
	if e.rto > e.max>>shift {
		return e.max
	}
	return e.rto << shift
}

// handled takes how long a handler held a request. A longer one counts at once, shorter ones by an
// eighth each.
func (e *rtoEstimator) handled(held time.Duration) {
	if h := uint32(held); h > e.hold {
		e.hold = h
	} else {
		e.hold -= (e.hold - h) / 8
	}
}

// early returns the timeout for packets that a later one has overtaken, and for the last one sent:
// twice what a round trip and its handler may take. It is no less than a sixteenth of the least
// timeout for one packet, and a quarter for more, since all of them are sent again. It doubles when
// an answer comes to what it sent again, since that may not have been lost but late, and halves
// after calmAfter samples: a path on which one packet in some tens is late costs few repeats.
func (e *rtoEstimator) early(packets uint32) time.Duration {
	timeout := e.min / 4
	if packets == 1 {
		timeout = e.min / 16
	}
	timeout = max(2*(e.srtt+4*e.rttvar+time.Duration(e.hold)), timeout)
	if e.srtt == 0 || timeout > e.rto>>e.hasty {
		return e.rto
	}
	return timeout << e.hasty
}

// calmAfter is how many round trips without doubt count as much as one with it.
const calmAfter = 64

// calmDown counts a sample while the early timeout is longer than it need be.
//
//go:noinline
func (e *rtoEstimator) calmDown() {
	if e.calm++; e.calm == calmAfter {
		e.hasty, e.calm = e.hasty-1, 0
	}
}

// backoff is what a session knows of its timeouts. One lost packet can be that of many requests,
// each of which times out and then gets its answer: that is one loss, and counts once.
type backoff struct {
	firsts lossClock     // first timeouts of requests
	rto    time.Duration // the timeout at the last of these losses
	told   lossClock     // timeouts that congestion control learned of
	hasty  lossClock     // answers to what was sent again early
}

// lossClock holds when the last loss was noticed.
type lossClock monotime.Time

// another reports whether a timeout at now shows another loss, of something that has waited since a
// time. What waited already when the last loss was noticed belongs to that one.
func (l *lossClock) another(since, now monotime.Time) bool {
	if since < monotime.Time(*l) {
		return false
	}
	*l = lossClock(now)
	return true
}

// keep keeps the timeouts that the given numbers of retries have reached, until the next sample. It
// is for an answer, now, to what was sent again at a time. Such an answer cannot be a sample, and
// without one a path that has become slow would cost as many retries with each packet (RFC 6298,
// section 5.7).
func (c *Client) keep(retries, fast uint8, sent, now monotime.Time) {
	if retries > 0 {
		at := rtoEstimator{rto: c.backoff.rto, max: c.rtt.max}
		c.rtt.rto = max(c.rtt.rto, at.timeout(retries))
	}
	if fast > 0 && c.backoff.hasty.another(sent, now) {
		c.rtt.hasty, c.rtt.calm = min(c.rtt.hasty+1, maxHasty), 0
	}
}

// maxHasty doublings of the early timeout are more than the usual timeout.
const maxHasty = 16

// SRTT returns the smoothed round-trip time, or 0 before the first sample.
func (c *Client) SRTT() time.Duration { return c.rtt.srtt }

// RoundTrips says what the session knows of its path.
type RoundTrips struct {
	Smoothed time.Duration // 0 before the first sample, as the others
	Least    time.Duration // of the last minutes
	Timeout  time.Duration // for retransmission, without backoff
}

// RoundTrips returns the round-trip times of the session, without the server's hold.
func (c *Client) RoundTrips() RoundTrips {
	return RoundTrips{c.rtt.srtt, c.rtt.base, c.rtt.rto}
}
