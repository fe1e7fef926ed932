package client

import (
	"errors"
	"slices"

	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
)

// lane is a session of the store: one write at a time.
type lane struct {
	session uint64 // 0: to be opened
	seq     uint64
}

// lanes are those of a client. Each has a write or is free. Writes for which there is none wait.
type lanes struct {
	free    []*lane
	made    int           // those in use and the free ones
	full    monotime.Time // until then the store has no further session
	waiting []uint32      // calls without a lane, in their order
	soonest monotime.Time // no deadline of these is earlier
	giving  bool
}

// lane returns a lane, or nil if a write has to wait for one. The first lane is always made: nobody
// would give one back otherwise.
func (c *Client) lane() *lane {
	l := &c.lanes
	if n := len(l.free); n > 0 {
		got := l.free[n-1]
		l.free = l.free[:n-1]
		return got
	}
	if l.made >= c.cfg.Sessions || l.made > 0 && c.cfg.Clock() < l.full {
		return nil
	}
	l.made++
	return &lane{}
}

// write begins a write, or lets it wait behind others.
func (c *Client) write(i uint32) {
	if len(c.lanes.waiting) == 0 {
		if n := c.lane(); n != nil {
			c.ride(i, n)
			return
		}
	}
	c.wait(i, ErrSessions)
}

// ride begins a write in a lane.
func (c *Client) ride(i uint32, n *lane) {
	k := &c.calls[i]
	k.lane, k.opening = n, n.session == 0
	k.number()
	c.try(i)
}

// wait lets a write wait for a lane.
func (c *Client) wait(i uint32, why error) {
	l, k := &c.lanes, &c.calls[i]
	k.last = why
	if len(l.waiting) == 0 {
		l.soonest = k.deadline
	}
	l.soonest = min(l.soonest, k.deadline)
	l.waiting = append(l.waiting, i)
	c.give()
}

// give begins the writes that wait, as far as there are lanes.
func (c *Client) give() {
	l := &c.lanes
	if l.giving {
		return // a write has ended at once: the loop below goes on
	}
	l.giving = true
	for len(l.waiting) > 0 {
		n := c.lane()
		if n == nil {
			break
		}
		i := l.waiting[0]
		l.waiting = l.waiting[1:]
		c.ride(i, n)
	}
	l.giving = false
}

// crowded takes that the store has no further session. A client with others uses those. It asks
// for more only after a while: each time is an entry of the log.
func (c *Client) crowded(i uint32) {
	l, k := &c.lanes, &c.calls[i]
	if !k.opening || l.made == 1 || c.closed {
		c.repeat(i, kv.ErrFull)
		return
	}
	k.lane, k.opening = nil, false
	l.made--
	l.full = c.cfg.Clock().Add(c.cfg.Attempt)
	c.wait(i, kv.ErrFull)
}

// late ends the writes that have waited for a lane up to their deadline.
func (c *Client) late(now monotime.Time) {
	l := &c.lanes
	if len(l.waiting) == 0 || now < l.soonest {
		return
	}
	var late []uint32
	l.soonest = monotime.Never
	l.waiting = slices.DeleteFunc(l.waiting, func(i uint32) bool {
		d := c.calls[i].deadline
		if d <= now {
			late = append(late, i)
			return true
		}
		l.soonest = min(l.soonest, d)
		return false
	})
	for _, i := range late {
		c.end(i, Result{Err: errors.Join(ErrDeadline, c.calls[i].last)})
	}
}

// Leave ends the sessions that have no write under way, so that others can have them. Done is
// called when all are answered, at the deadline at the latest. A store whose version has no
// kv.Close keeps them until they expire.
func (c *Client) Leave(deadline monotime.Time, done func()) {
	lanes := c.lanes.free
	c.lanes.free, c.lanes.made = nil, c.lanes.made-len(lanes)
	left := 1
	one := func(Result) {
		if left--; left == 0 {
			done()
		}
	}
	for _, n := range lanes {
		if n.session != 0 && !c.closed {
			left++
			c.try(c.begin(kv.Command{Op: kv.Close, Format: 1, Session: n.session}, deadline, one))
		}
	}
	one(Result{})
}
