package session

import (
	"math"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// slotLines are the lines of slots that wait for credits: those that send a request, and those that
// ask for a response. The lines take turns, so that packets go both ways at once.
//
// Half of a line's turns are for the slot with the fewest packets left, the others for the rest,
// one after the other. So messages that began together do not end together: else all of them are
// requests for some time and all responses for as long, and each way of the path is idle half of
// the time.
type slotLines struct {
	next uint8 // the line whose turn it is
	line [2]slotLine
}

// slotLine is one line. It runs through clientSlot.next, and each slot is in one line at most once.
type slotLine struct {
	head, tail uint8
	n          uint8
	first      uint8 // the slot with the fewest packets left, of those that came since it did
	turns      uint8 // of that slot, and those before it
}

// othersShare is which part of a line's turns the slots get that have more packets left than
// another.
const othersShare = 2

// The lines.
const (
	lineOfRequests = iota
	lineOfResponses
)

// lineOf returns the line of a slot with so many packets sent.
func (c *Client) lineOf(s *clientSlot) *slotLine {
	if s.numTx < s.numReq {
		return &c.lines.line[lineOfRequests]
	}
	return &c.lines.line[lineOfResponses]
}

// left returns how many packets of a slot are left for a line.
func (c *Client) left(i uint8, l *slotLine) uint32 {
	if s := &c.slots[i]; s.busy && s.numTx < s.total() && c.lineOf(s) == l {
		return s.total() - s.numTx
	}
	return math.MaxUint32
}

// lineUp puts slot i into its line: to the end, or to the front if it has the fewest packets left.
func (c *Client) lineUp(i uint8) {
	s := &c.slots[i]
	l := c.lineOf(s)
	if c.left(i, l) < c.left(l.first, l) {
		l.first = i
	}
	switch {
	case l.n == 0:
		l.head, l.tail = i, i
	case l.first != i:
		c.slots[l.tail].next, l.tail = i, i
	case l.turns%othersShare > 0:
		s.next, l.head = l.head, i
	case l.n == 1:
		c.slots[l.tail].next, l.tail = i, i
	default:
		h := &c.slots[l.head]
		s.next, h.next = h.next, i
	}
	if l.first == i {
		l.turns++
	}
	l.n++
	c.stalled++
}

// stepOut takes the first slot out of a line.
func (c *Client) stepOut(l *slotLine) {
	s := &c.slots[l.head]
	s.stalled = false
	l.head = s.next
	l.n--
	c.stalled--
}

// turn returns the line whose turn it is; one of them has slots.
func (c *Client) turn() *slotLine {
	if l := &c.lines.line[c.lines.next]; l.n > 0 {
		return l
	}
	return &c.lines.line[1-c.lines.next]
}

// kick puts slot i in line for credits and hands out what credits there are.
func (c *Client) kick(i uint8, now monotime.Time, out *Out) {
	c.mayLineUp(i)
	c.pump(now, out)
}

// mayLineUp puts slot i in line if it has something to send.
func (c *Client) mayLineUp(i uint8) {
	if s := &c.slots[i]; !s.stalled && s.numTx < s.total() && !c.keepsBack(s) {
		s.stalled = true
		c.lineUp(i)
	}
}

// gather is kick for an answer: credits that come back one by one go out together, when they are as
// many as one return may stand for, or when the packets at hand are taken.
func (c *Client) gather(i uint8, now monotime.Time, out *Out) {
	c.mayLineUp(i)
	if c.credits >= int32(c.together()) {
		c.pump(now, out)
	} else if !c.hungry && c.stalled > 0 {
		c.hungry = true
		out.hungry = append(out.hungry, c)
	}
}

// pump gives credits to waiting slots in turn, a few packets each, as fast as congestion control
// allows.
func (c *Client) pump(now monotime.Time, out *Out) {
	for c.credits > 0 && c.stalled > 0 {
		l := c.turn()
		i := l.head
		s := &c.slots[i]
		if !s.busy || s.waits || s.numTx >= s.total() || c.keepsBack(s) {
			c.stepOut(l) // the request ended, or was rolled back and resent, while it waited
			continue
		}
		if c.pace.gated && !c.may(s.numReq == 1, now, out) {
			return
		}
		n := uint32(1)
		if s.numTx >= s.numReq {
			if n = c.rfrSize(s); n == 0 {
				c.lack()
				return
			}
		}
		c.stepOut(l)
		c.sendNext(s, n, now, out)
		for left := c.together() - 1; left > 0 && c.credits > 0 && s.numTx < s.numReq &&
			!c.keepsBack(s); left-- {
			c.sendNext(s, 1, now, out)
		}
		c.lines.next = 1 - c.lines.next
		c.mayLineUp(i)
	}
	if c.stalled > 0 {
		c.stats.CreditStalls++
		c.lack()
	}
}
