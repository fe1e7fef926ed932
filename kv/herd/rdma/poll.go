package rdma

import (
	"fmt"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/kv/herd"
)

// Poll takes the answers that have come, gives their results to the Dones, and posts the requests
// that were started. It returns how many operations ended. Errors: ErrPeer, *verbs.Error.
func (c *Client) Poll() (n int, err error) {
	if c.err != nil {
		return 0, c.err
	}
	now := monotime.Now()
	before := c.over
	if c.ud != nil {
		err = c.datagrams(now)
	} else {
		c.look(now)
	}
	c.window.Tick(now, c.ended)
	if c.behind > 0 {
		c.advance(now)
	}
	if err == nil {
		err = c.post()
	}
	if err == nil && c.gone.Load() {
		err = ErrPeer
	}
	if err != nil {
		c.fail(err)
	}
	return int(c.over - before), c.err
}

// Run polls until the function returns true, and rests when there is nothing to do. Errors: those
// of Poll.
func (c *Client) Run(until func() bool) error {
	for !until() {
		n, err := c.Poll()
		if err != nil {
			return err
		}
		c.Rest(n > 0)
	}
	return nil
}

// Rest is called after a Poll by a thread that has nothing else to do, with whether that did
// anything: it yields the core, or sleeps for 50 us.
func (c *Client) Rest(worked bool) { c.rest.pass(monotime.Now(), worked) }

// datagrams takes answers that came over UD.
func (c *Client) datagrams(now monotime.Time) error {
	list, err := c.ring.poll(len(c.ring.wc))
	if err != nil {
		return err
	}
	for i := range list {
		wc := &list[i]
		frame := c.ring.frame(wc)
		if wc.Status != verbs.StatusOK {
			return fmt.Errorf("herd: receiving answers: %s", verbs.StatusText(wc.Status))
		}
		if d, ok := c.window.Answer(int(wc.Imm), frame, now); ok {
			c.finish(d)
		}
		c.ring.free(wc.ID)
	}
	return c.ring.flush()
}

// look takes answers that the server wrote.
func (c *Client) look(now monotime.Time) {
	for i := range c.g.Slots() {
		if d, ok := c.window.Look(i, c.replies, now); ok {
			c.finish(d)
		}
	}
}

// advance sends what waits, as far as there are slots.
func (c *Client) advance(now monotime.Time) {
	for part := range c.backlog {
		for list := c.backlog[part]; len(list) > 0; list = c.backlog[part] {
			w := list[0]
			if c.window.Start(part, c.ops[w.op].typ, w.body, uint64(w.op), now) != nil {
				break
			}
			list[0] = waiting{}
			c.backlog[part] = list[1:]
			c.behind--
		}
	}
}

// post posts all requests that were started, as one list.
func (c *Client) post() error {
	posts := c.window.Posts()
	if len(posts) == 0 {
		return nil
	}
	c.list = c.list[:0]
	for i := range posts {
		c.list = append(c.list, c.request(&posts[i]))
	}
	n, err := c.queue.post(c.list)
	if err == nil && c.queue.status != verbs.StatusOK {
		err = fmt.Errorf("%w: %s", ErrPeer, verbs.StatusText(c.queue.status))
	}
	if n < len(posts) {
		c.window.Unpost(posts[n:])
	}
	return err
}

// request is the work request of a frame.
func (c *Client) request(p *herd.Post) verbs.SendWR {
	wr := verbs.SendWR{Num: 1, Pieces: [2]verbs.Piece{{Addr: c.memory.Base() + uint64(p.At),
		Len: uint32(p.Size), LKey: c.memory.LKey()}}}
	if c.cfg.Design == Send {
		wr.Opcode, wr.Imm = verbs.OpSendImm, uint32(c.number)<<16|uint32(p.Slot)
		wr.AH, wr.QPN, wr.QKey = c.ah.Handle(), c.offer.UD[p.Slot/c.g.Window], c.offer.QKey
		return wr
	}
	wr.Opcode, wr.RKey = verbs.OpWrite, c.offer.RKey
	wr.Remote = c.offer.Base + uint64((p.Slot+1)*c.g.Slot-p.Size)
	return wr
}
