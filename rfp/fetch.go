package rfp

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"

	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// mode holds the state of a request type.
type mode struct {
	reply   bool
	slow    int           // messages in a row that speak for replies
	fast    int           // ... for fetching
	process time.Duration // reported last
}

// first plans the first READ of a message.
func (c *Client) first(i int, m *mode) {
	switch c.cfg.First {
	case Behind:
		c.read(i)
	case Paced:
		if m.process == 0 {
			c.read(i)
			return
		}
		c.plan(i, c.now.Add(m.process*3/2))
	}
}

// plan posts a READ at time at.
func (c *Client) plan(i int, at Time) {
	c.slots[i].next = at
	c.wake = min(c.wake, at)
}

// readDue posts the READs whose time has come.
func (c *Client) readDue() {
	c.wake = never
	for busy := c.busy; busy != 0; busy &= busy - 1 {
		i := bits.TrailingZeros64(busy)
		s := &c.slots[i]
		if s.next <= c.now {
			c.read(i)
		}
		c.wake = min(c.wake, s.next)
	}
}

// read puts a READ of F bytes into the doorbell.
func (c *Client) read(i int) {
	s := &c.slots[i]
	s.reading, s.next, s.have = true, never, 0
	c.stats.Reads++
	c.batch.Read(clientPrivate, c.cfg.landingAt(i), serverResponses, c.cfg.responseAt(i), c.cfg.F,
		opID(opRead, i, s.seq))
}

// ask changes a message that is fetched to a reply. The READ behind the word finds a result that
// came before the server saw the word.
func (c *Client) ask(i int) {
	s := &c.slots[i]
	if s.reply || c.view != nil {
		return
	}
	s.reply, s.asked = true, true
	c.stats.Asked++
	at := c.cfg.stagingAt(i)
	binary.LittleEndian.PutUint64(c.private[at:], uint64(s.seq))
	c.batch.Write(clientPrivate, at, serverRequests, c.cfg.wantedAt(i), 8, 0, false)
	c.read(i)
}

// completions takes what the link has done.
func (c *Client) completions() {
	for {
		n := c.link.Poll(c.done[:])
		for _, d := range c.done[:n] {
			if d.Err != nil {
				return // Poll sees the link's error
			}
			c.completed(d.ID)
			if c.err != nil {
				return
			}
		}
		if n < len(c.done) {
			return
		}
	}
}

func (c *Client) completed(id uint64) {
	what, i := int(id>>56), int(id>>32&0xff)
	if what == opControl {
		c.opening = false
		c.learn(c.private[c.cfg.controlAt():])
		return
	}
	s := &c.slots[i]
	if c.busy>>i&1 == 0 || uint32(id) != s.seq {
		return // of a message that has ended
	}
	switch what {
	case opWrite:
		if !s.reply && !s.reading {
			c.read(i)
		}
	case opRead:
		s.reading, s.have = false, c.cfg.F
		c.landed(i)
	case opRest:
		s.reading, s.have = false, stride(c.cfg.Response)
		c.landed(i)
	}
}

// landing is where a response is put together.
func (c *Client) landing(i int) []byte {
	at := c.cfg.landingAt(i)
	return c.private[at : at+stride(c.cfg.Response)]
}

// landed looks at what READs have brought.
func (c *Client) landed(i int) {
	s, mem := &c.slots[i], c.landing(i)
	h := parseHead(binary.LittleEndian.Uint64(mem), binary.LittleEndian.Uint64(mem[8:]))
	if h.seq != s.seq {
		c.missed(i)
		return
	}
	if !c.plausible(&h) {
		return
	}
	if total := messageBytes(h.size); total > s.have {
		c.rest(i, total)
		return
	}
	if !c.whole(&h, mem) {
		c.missed(i) // torn
		return
	}
	c.accept(i, &h, mem)
}

// rest READs what F did not cover. The tail vouches for what one READ has seen; this one sees only
// what is complete, as the first word was there before it. So it fetches all behind that word
// again, unless a checksum covers both READs.
func (c *Client) rest(i, total int) {
	s := &c.slots[i]
	from := wordBytes
	if c.cfg.Checksum {
		from = s.have
	}
	s.reading = true
	c.stats.Rests++
	c.batch.Read(clientPrivate, c.cfg.landingAt(i)+from, serverResponses, c.cfg.responseAt(i)+from,
		total-from, opID(opRest, i, s.seq))
}

// plausible ends the client if a header cannot be the server's.
func (c *Client) plausible(h *head) bool {
	if h.size > c.cfg.Response || h.flags&^flagSum != 0 {
		c.fail(fmt.Errorf("%w: a response of %d bytes, flags %#x", ErrProtocol, h.size, h.flags))
		return false
	}
	return true
}

// whole reports whether a message in private memory is all there.
func (c *Client) whole(h *head, mem []byte) bool {
	end := headBytes + (h.size+7)&^7
	return binary.LittleEndian.Uint64(mem[end:]) ==
		tail(c.control.nonce, h, mem[headBytes:headBytes+h.size])
}

// look looks for results where no READ is needed: replies, and responses in a view.
func (c *Client) look() {
	for busy := c.busy; busy != 0 && c.err == nil; busy &= busy - 1 {
		i := bits.TrailingZeros64(busy)
		s := &c.slots[i]
		var mem []byte
		switch {
		case s.reply:
			at := c.cfg.replyAt(i)
			mem = c.replies[at : at+stride(c.cfg.Response)]
		case c.view != nil:
			at := c.cfg.responseAt(i)
			mem = c.view[at : at+stride(c.cfg.Response)]
		default:
			continue
		}
		first := onesided.Load(mem, 0)
		if uint32(first) == s.seq {
			c.inPlace(i, first, mem)
		}
	}
}

// inPlace copies a message out of memory that the server can write to, then looks at it.
func (c *Client) inPlace(i int, first uint64, mem []byte) {
	h := parseHead(first, 0)
	if !c.plausible(&h) {
		return
	}
	total, to := messageBytes(h.size), c.landing(i)
	last := onesided.Load(mem, total-tailBytes)
	h = parseHead(first, onesided.Load(mem, 8))
	copy(to[headBytes:], mem[headBytes:total-tailBytes])
	if last != tail(c.control.nonce, &h, to[headBytes:headBytes+h.size]) {
		return // not all there
	}
	if c.slots[i].reply {
		c.stats.Replies++
	} else {
		c.stats.Reads++
	}
	c.accept(i, &h, to)
}

// missed is a READ that found no result.
func (c *Client) missed(i int) {
	s := &c.slots[i]
	c.stats.Missed++
	s.reads++
	if s.reply {
		return // the reply comes
	}
	m := &c.modes[s.entries[0].kind]
	tooOften := s.reads > c.cfg.R && c.cfg.Mode == Hybrid
	switch {
	case c.cfg.Paper && tooOften && m.slow+1 >= c.cfg.SwitchAfter:
		c.toReply(s.entries[0].kind, m)
	case c.cfg.Paper:
		c.read(i)
	case tooOften:
		c.ask(i)
	default:
		c.plan(i, c.now.Add(max(m.process/4, 0))) // Poll posts it, this one if it is due
	}
}

// toReply changes the mode of a type, for its messages under way too.
func (c *Client) toReply(kind uint8, m *mode) {
	m.reply, m.slow, m.fast = true, 0, 0
	c.stats.ToReply++
	for busy := c.busy; busy != 0; busy &= busy - 1 {
		i := bits.TrailingZeros64(busy)
		if c.slots[i].entries[0].kind == kind {
			c.ask(i)
		}
	}
}

// accept takes a response that is whole.
func (c *Client) accept(i int, h *head, mem []byte) {
	s := &c.slots[i]
	kind := s.entries[0].kind
	m := &c.modes[kind]
	m.process = unitsTime(h.aux)
	if c.cfg.Mode == Hybrid {
		c.judge(kind, m, s, messageBytes(h.size))
	}
	c.deliver(i, h, mem)
}

// judge changes the mode of a type by the message that has ended.
func (c *Client) judge(kind uint8, m *mode, s *slot, size int) {
	slow, fast := m.process >= c.cfg.SwitchTime, m.process < c.cfg.BackTime
	if c.cfg.Paper {
		slow = !s.reply && s.reads > c.cfg.R
		fast = fast && s.reply
	}
	if size > c.cfg.ReplyAbove {
		slow, fast = true, false
	}
	if !slow {
		m.slow = 0
	}
	if !fast {
		m.fast = 0
	}
	switch {
	case slow && !m.reply:
		if m.slow++; m.slow >= c.cfg.SwitchAfter {
			c.toReply(kind, m)
		}
	case fast && m.reply:
		if m.fast++; m.fast >= c.cfg.SwitchAfter || c.cfg.Paper {
			m.reply, m.slow, m.fast = false, 0, 0
			c.stats.ToFetch++
		}
	}
}
