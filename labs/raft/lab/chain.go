package lab

import (
	"fmt"

	"github.com/userspace-rpc/erpc/erpc"
)

// A chain is a PUT without the store: the leader's endpoint sends a request to each follower's and
// answers the client when the first of them has answered. The sizes are those of a PUT, as is the
// thread of each endpoint. So it is the least that a PUT can take over this transport; and with
// bare RawNodes that step in between, over this transport and with this Raft.

// The request types of a chain: at the leader, and at a follower; the same with Raft.
const (
	typeChain = 100 + iota
	typeLink
	typeRaftChain
	typeRaftLink
)

// The sizes of the messages that a PUT makes: to a follower, and its answer.
const (
	linkSize   = 240
	linkAnswer = 112
)

// chain is one endpoint's part.
type chain struct {
	raft  *bare
	rpc   *erpc.Rpc
	timer *erpc.Timer // for what raft does when nobody waits
	to    []*erpc.Session
	asked erpc.ReqHandle // waits for the first answer
	open  bool
	done  [2]erpc.Continuation // without Raft, and with it
}

// register adds the handlers of a chain to a replica's.
func (c *chain) register(x *erpc.Nexus) error {
	c.done = [2]erpc.Continuation{
		func(d erpc.Completion) { c.answered(d, true) },
		func(d erpc.Completion) {
			c.raft.take()
			before := c.raft.put
			c.raft.ready()
			c.answered(d, c.raft.put > before)
			c.later()
		}}
	for typ, fn := range map[uint8]erpc.Handler{
		typeChain: func(r erpc.ReqHandle) { c.begin(r, typeLink, c.done[0]) },
		typeLink:  func(r erpc.ReqHandle) { _ = r.RespondBytes(r.Data()[:linkAnswer]) },
		typeRaftChain: func(r erpc.ReqHandle) {
			c.raft.propose(r.Data())
			c.raft.ready()
			c.begin(r, typeRaftLink, c.done[1])
			c.later()
		},
		typeRaftLink: func(r erpc.ReqHandle) {
			c.raft.take()
			c.raft.ready()
			_ = r.RespondBytes(r.Data()[:linkAnswer])
			c.later()
		},
	} {
		if err := x.Register(typ, erpc.Dispatch, fn); err != nil {
			return err
		}
	}
	return nil
}

// connect opens the sessions with the followers. It runs in the endpoint's thread, as all below.
func (c *chain) connect(followers []string) error {
	for _, addr := range followers {
		s, err := c.rpc.CreateSession(addr)
		if err != nil {
			return err
		}
		c.to = append(c.to, s)
	}
	return nil
}

func (c *chain) connected() bool {
	for _, s := range c.to {
		if !s.Connected() {
			return false
		}
	}
	return true
}

// later does the rest of raft's work in the next pass, when the packets have left.
func (c *chain) later() {
	if c.timer == nil {
		c.timer, _ = c.rpc.AfterFunc(0, c.raft.rest) // the loop is open, and this is its thread
		return
	}
	_ = c.timer.Reset(0)
}

func (c *chain) begin(req erpc.ReqHandle, typ uint8, done erpc.Continuation) {
	c.asked, c.open = req, true
	for _, s := range c.to {
		b, err := c.rpc.Alloc(linkSize)
		if err == nil {
			_, err = c.rpc.EnqueueRequest(s, erpc.Request{Type: typ, Req: b, Done: done,
				Timeout: deadline})
		}
		if err != nil {
			_ = req.RespondError(fmt.Errorf("lab: a chain breaks: %w", err))
			c.open = false
			return
		}
	}
}

// answered takes a follower's answer: with enough, the client gets its own.
func (c *chain) answered(d erpc.Completion, enough bool) {
	d.Req.Free()
	if d.Err != nil {
		return // the client's request ends by its deadline
	}
	if c.open && enough {
		c.open = false
		_ = c.asked.RespondBytes(d.Resp.Data()[:echoAnswer])
	}
	d.Resp.Free()
}
