package session

import (
	"math"

	"github.com/userspace-rpc/erpc/cc/cubic"
	"github.com/userspace-rpc/erpc/internal/monotime"
)

// slowStart begins a session that follows losses, as a flow of TCP begins (RFC 6928).
func (c *Client) slowStart() {
	w := cubic.New(firstFlight)
	c.path = c.newPath(false, 0)
	c.path.cubic = &w
	c.first = math.MaxUint16 // below it each packet asks for an answer
	c.opening, c.credits = firstFlight, int32(c.window)
	c.sizeTo(w.Size)
}

// sizeTo sets the window of a session that follows losses.
func (c *Client) sizeTo(size float64) {
	c.path.low = true // it may be below the first one
	c.resize(int(size))
}

// noLoss grows the window for n packets that were answered now, if half of it was in use.
func (c *Client) noLoss(n uint32, now monotime.Time) {
	p, flight := c.path, float64(c.window)-float64(c.credits)+float64(n)
	p.began = now
	if 2*flight >= p.cubic.Size {
		p.cubic.Acked(float64(n), now, c.rtt.srtt)
		p.cubic.Size = min(p.cubic.Size, float64(c.Params.Credits))
		c.sizeTo(p.cubic.Size)
	}
}

// loss takes a loss; silent if nothing that was sent since has come back.
func (c *Client) loss(silent bool, now monotime.Time) {
	w := c.path.cubic
	if silent {
		w.Expired(now, w.Size)
	} else {
		w.Lost(now, w.Size)
		c.hush(now)
	}
	c.sizeTo(w.Size)
}

// hush has nothing leave for half a round trip after a loss. What is behind the lost packets counts
// as under way no longer, so the window has room at once: what filled it would meet the queue that
// has just overflowed, and the session would lose more, and its window again, a round trip later.
func (c *Client) hush(now monotime.Time) {
	p := &c.pace
	p.gated = true
	p.next = max(p.next, now.Add(c.rtt.srtt/2))
}
