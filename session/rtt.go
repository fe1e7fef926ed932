package session

import "time"

// rtoEstimator keeps smoothed RTT and its variation and derives the
// retransmission timeout as RFC 6298 does (alpha 1/8, beta 1/4, K 4).
type rtoEstimator struct {
	srtt   int64 // ns; 0 before the first sample
	rttvar int64 // ns
	rto    int64 // ns, within [min, max]
	min    int64
	max    int64

	base   int64 // least sample of this period of baseFor and the last one, ns; 0 before the first
	recent int64 // least sample of this period, ns
	since  int64 // when this period began, ns
}

// baseFor is how long a path may have become longer before the session believes it, ns.
// Less would take a queue that stands for the path; LEDBAT (RFC 6817, section 4.2)
// remembers 10 minutes as well, two periods.
const baseFor = 300e9

func newRTOEstimator(t *Timing) rtoEstimator {
	return rtoEstimator{rto: int64(t.RTOInitial), min: int64(t.RTOMin), max: int64(t.RTOMax)}
}

// sample takes one round-trip time in ns.
func (e *rtoEstimator) sample(rtt int64) {
	if rtt <= 0 {
		return
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

// baseAt returns the least round trip of the last while, ns.
func (e *rtoEstimator) baseAt(now int64) int64 {
	if now-e.since > baseFor {
		if e.recent != 0 {
			e.base = e.recent
		}
		e.recent, e.since = 0, now
	}
	return e.base
}

// timeout returns the timeout in ns after the given number of retries: it doubles
// with each, up to the maximum.
func (e *rtoEstimator) timeout(retries uint8) int64 {
	shift := min(retries, 62)
	if e.rto > e.max>>shift {
		return e.max
	}
	return e.rto << shift
}

// early returns the timeout in ns for a packet that a later one has overtaken: twice
// what a round trip may take, but no less than a quarter of the least timeout.
func (e *rtoEstimator) early() int64 {
	return max(2*(e.srtt+4*e.rttvar), e.min/4)
}

// keep makes the timeout that the given number of retries led to the timeout until
// the next sample: their answer cannot be a sample, and without one a path that has
// become slow would cost as many retries with each packet (RFC 6298, section 5.7).
func (e *rtoEstimator) keep(retries uint8) { e.rto = e.timeout(retries) }

// SRTT returns the smoothed round-trip time, or 0 before the first sample.
func (c *Client) SRTT() time.Duration { return time.Duration(c.rtt.srtt) }
