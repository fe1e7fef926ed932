package lab

import (
	"fmt"

	"github.com/userspace-rpc/erpc/erpc"
)

// A chain is what a PUT is without Raft: the leader's endpoint sends a request to each follower's
// and answers the client when the first of them has answered. The sizes are those of a PUT, as is
// the thread of each endpoint. So it is the least that a PUT can take over this transport.

// The request types of a chain: at the leader, and at a follower.
const (
	typeChain = 100 + iota
	typeLink
)

// The sizes of the messages that a PUT makes: to a follower, and its answer.
const (
	linkSize   = 240
	linkAnswer = 112
)

// chain is the leader's part.
type chain struct {
	rpc   *erpc.Rpc
	to    []*erpc.Session
	asked erpc.ReqHandle // waits for the first answer
	open  bool
	done  erpc.Continuation
}

// register adds the handlers of a chain to a replica's.
func (c *chain) register(x *erpc.Nexus) error {
	c.done = c.answered
	if err := x.Register(typeChain, erpc.Dispatch, c.begin); err != nil {
		return err
	}
	return x.Register(typeLink, erpc.Dispatch, func(r erpc.ReqHandle) {
		_ = r.RespondBytes(r.Data()[:linkAnswer])
	})
}

// connect opens the sessions with the followers. It runs in the leader's thread.
func (c *chain) connect(r *erpc.Rpc, followers []string) error {
	c.rpc = r
	for _, addr := range followers {
		s, err := r.CreateSession(addr)
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

func (c *chain) begin(req erpc.ReqHandle) {
	c.asked, c.open = req, true
	for _, s := range c.to {
		b, err := c.rpc.Alloc(linkSize)
		if err == nil {
			_, err = c.rpc.EnqueueRequest(s, erpc.Request{Type: typeLink, Req: b, Done: c.done,
				Timeout: deadline})
		}
		if err != nil {
			_ = req.RespondError(fmt.Errorf("lab: a chain breaks: %w", err))
			c.open = false
			return
		}
	}
}

func (c *chain) answered(d erpc.Completion) {
	d.Req.Free()
	if d.Err != nil {
		return // the client's request ends by its deadline
	}
	if c.open {
		c.open = false
		_ = c.asked.RespondBytes(d.Resp.Data()[:echoAnswer])
	}
	d.Resp.Free()
}
