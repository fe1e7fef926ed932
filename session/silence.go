package session

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// Owed returns since when the peer has owed an answer to the oldest packet that is outstanding, and
// the retransmission timeout without backoff. Ok is false if the peer owes none: requests that wait
// there have been heard of, and those that no packet has left of are this side's. It looks at all
// slots, so it is for sessions with timeouts.
func (c *Client) Owed() (since monotime.Time, rto time.Duration, ok bool) {
	since = monotime.Never
	for i := range c.slots {
		s := &c.slots[i]
		if g := s.gaveUp; !s.busy && s.held() && !g.runs {
			since, ok = min(since, g.since), true // the answer to its CANCEL
		}
		if !s.busy || s.waits || max(s.numTx, s.highTx) <= s.numRx {
			continue
		}
		from := s.progress // of the last timeout; each of those before took its time
		for n := range s.retries {
			from = from.Add(-c.rtt.timeout(n))
		}
		since, ok = min(since, from), true
	}
	return since, c.rtt.timeout(0), ok
}

// LastHeard returns when a packet of the peer has arrived last.
func (w *Watch) LastHeard() monotime.Time { return w.lastRx }
