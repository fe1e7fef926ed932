package simtest

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// register gives the node its handlers.
func (n *node) register() {
	for typ, h := range map[uint8]struct {
		mode erpc.Mode
		fn   erpc.Handler
	}{
		typeEcho:       {erpc.Dispatch, n.serve},
		typeBackground: {erpc.Background, n.serve},
		typeNested:     {erpc.Dispatch, n.serveNested},
		typeLate:       {erpc.Dispatch, n.serveLate},
		typeFail: {erpc.Dispatch, func(h erpc.ReqHandle) {
			n.arrived(h)
			n.responded(h.RespondError(errors.New("as asked")))
		}},
	} {
		if err := n.nexus.Register(typ, h.mode, h.fn); err != nil {
			n.c.t.Fatal(err)
		}
	}
}

// request is the content of a message, as a handler reads it.
type request struct {
	id       uint64
	respSize int
	next     int
}

// arrived checks a request and counts that its handler runs.
func (n *node) arrived(h erpc.ReqHandle) (q request) {
	b := h.Data()
	if len(b) < minRequest {
		n.c.fail("node %d: request of %d bytes", n.id, len(b))
		return q
	}
	q.id = binary.LittleEndian.Uint64(b)
	q.respSize = int(binary.LittleEndian.Uint32(b[8:]))
	q.next = int(binary.LittleEndian.Uint16(b[12:]))
	if q.id >= uint64(len(n.c.calls)) {
		n.c.fail("node %d: request %d is unknown", n.id, q.id)
		return request{}
	}
	k := n.c.calls[q.id]
	if len(b) != k.reqSize || h.Type() != k.typ || n.id != k.to || !filled(b[minRequest:], q.id) {
		n.c.fail("node %d: request %d is damaged or astray", n.id, q.id)
	}
	if n.c.onAsked != nil {
		n.c.onAsked(n, h, k)
	}
	if n.c.served[q.id]++; n.c.served[q.id] > 1 {
		n.c.fail("node %d: the handler ran %d times for request %d", n.id, n.c.served[q.id], q.id)
	}
	return q
}

// responded checks what a Respond call said: the session may have ended meanwhile.
func (n *node) responded(err error) {
	if err != nil && !errors.Is(err, erpc.ErrResponded) && !errors.Is(err, erpc.ErrTooLarge) &&
		!errors.Is(err, erpc.ErrClosed) {
		n.c.fail("node %d: respond: %v", n.id, err)
	}
}

// answer sends the response to q.
func (n *node) answer(h erpc.ReqHandle, q request) {
	buf, err := h.Alloc(q.respSize)
	if err != nil {
		n.responded(err)
		return
	}
	fill(buf.Data(), q.id^respSalt)
	if q.id < uint64(len(n.c.calls)) {
		n.c.calls[q.id].secrets[1] = secretOf(buf.Data())
	}
	if err = h.Respond(buf); err != nil {
		n.responded(err)
		buf.Free()
		if errors.Is(err, erpc.ErrTooLarge) {
			n.responded(h.RespondError(erpc.ErrTooLarge))
		}
	}
}

func (n *node) serve(h erpc.ReqHandle) { n.answer(h, n.arrived(h)) }

// stillThere checks that a request outlives its handler's return until it is answered.
func (n *node) stillThere(h erpc.ReqHandle, q request) {
	if b := h.Data(); b != nil && (len(b) != n.c.calls[q.id].reqSize ||
		!filled(b[minRequest:], q.id)) {
		n.c.fail("node %d: request %d changed while it was served", n.id, q.id)
	}
}

// serveLate answers from a timer, outside the event loop's pass.
func (n *node) serveLate(h erpc.ReqHandle) {
	q := n.arrived(h)
	ep := n.ep
	n.c.net.After(time.Duration(n.c.net.Rand().Int64N(int64(n.c.slow)+1)), func() {
		if n.ep != ep || n.down {
			return // the process is another
		}
		n.stillThere(h, q)
		n.answer(h, q)
		ep.Wake()
	})
}

// serveNested asks a third node before it answers.
func (n *node) serveNested(h erpc.ReqHandle) {
	q := n.arrived(h)
	k := &call{from: n, to: q.next, typ: typeEcho, reqSize: minRequest + int(q.id%3000),
		respSize: int(q.id % 2000), respMax: -1, nested: true}
	k.then = func(k *call) {
		n.stillThere(h, q)
		if k.err == nil {
			n.answer(h, q)
		} else {
			n.responded(h.RespondError(errors.New("third node: " + k.err.Error())))
		}
	}
	if n.c.issue(k) != nil {
		n.responded(h.RespondError(errors.New("third node")))
	}
}

// issue starts an RPC. After an error nothing has happened.
func (c *cluster) issue(k *call) error {
	n := k.from
	s, err := n.session(k.to, k.nested)
	if err != nil {
		c.allowed(k, err)
		return err
	}
	return c.issueOn(s, k)
}

func (c *cluster) issueOn(s *erpc.Session, k *call) error {
	n := k.from
	k.id = uint64(len(c.calls))
	c.calls = append(c.calls, k)
	k.issuedAt = c.net.Now()
	req, err := n.rpc.Alloc(k.reqSize)
	if err != nil {
		c.allowed(k, err)
		return err
	}
	b := req.Data()
	binary.LittleEndian.PutUint64(b, k.id)
	binary.LittleEndian.PutUint32(b[8:], uint32(k.respSize))
	binary.LittleEndian.PutUint16(b[12:], uint16((k.to+1)%len(c.nodes)))
	binary.LittleEndian.PutUint16(b[14:], 0)
	fill(b[minRequest:], k.id)
	k.secrets[0] = secretOf(b[minRequest:])
	var resp *erpc.MsgBuffer
	if k.respMax >= 0 {
		if resp, err = n.rpc.Alloc(k.respMax); err != nil {
			req.Free()
			c.allowed(k, err)
			return err
		}
	}
	q := erpc.Request{Type: k.typ, Req: req, Resp: resp, Tag: k.id, Timeout: k.timeout, Done: c.done}
	k.rpcID, err = n.rpc.EnqueueRequest(s, q)
	if err != nil {
		req.Free()
		if resp != nil {
			resp.Free()
		}
		c.allowed(k, err)
		return err
	}
	c.pending++
	n.ep.Wake()
	return nil
}

// done is the continuation of every RPC of a cluster.
func (c *cluster) done(e erpc.Completion) {
	k := c.calls[e.Tag]
	if k.ends++; k.ends > 1 {
		c.fail("request %d ended %d times", k.id, k.ends)
		return
	}
	c.pending--
	k.err = e.Err
	k.endedAt = c.net.Now()
	if e.Err != nil {
		c.allowed(k, e.Err)
	} else {
		if c.served[k.id] != 1 {
			c.fail("request %d has a response after %d runs of its handler", k.id, c.served[k.id])
		}
		if e.Resp.Size() != k.respSize || !filled(e.Resp.Data(), k.id^respSalt) {
			c.fail("request %d: the response is damaged: %d bytes, want %d", k.id, e.Resp.Size(), k.respSize)
		}
	}
	c.spoil(e.Req)
	e.Req.Free()
	if e.Resp != nil {
		c.spoil(e.Resp)
		e.Resp.Free()
	}
	if k.then != nil {
		k.then(k)
	}
}

// named holds the errors that an RPC may end with when the network or a peer fails.
// Nobody refuses sessions here, but for want of room.
var named = []error{erpc.ErrConnect, erpc.ErrPeerLost, erpc.ErrPeerRestarted, erpc.ErrDeadline,
	erpc.ErrCancelled, erpc.ErrExhausted, erpc.ErrClosed, erpc.ErrPeerClosed, erpc.ErrDraining}

// allowed checks that an RPC's error is one of the named, and fits the RPC.
func (c *cluster) allowed(k *call, err error) {
	var remote *erpc.Error
	if errors.As(err, &remote) {
		switch {
		case k.typ == typeFail && remote.Reason == erpc.ReasonApplication && remote.Text == "as asked",
			k.typ == typeNone && errors.Is(err, erpc.ErrNoHandler),
			k.typ == typeNested && remote.Reason == erpc.ReasonApplication,
			errors.Is(err, erpc.ErrExhausted):
			return
		}
	}
	if errors.Is(err, erpc.ErrTooLarge) && k.respMax >= 0 && k.respMax < k.respSize {
		return
	}
	if c.refusing && errors.Is(err, erpc.ErrRefused) {
		return
	}
	if c.steps > 0 && errors.Is(err, erpc.ErrDenied) {
		return // a clock that jumps ahead ends a handshake in its middle; the next one succeeds
	}
	for _, e := range slices.Concat(named, c.also) {
		if errors.Is(err, e) {
			return
		}
	}
	c.fail("request %d of type %d ended with an unexpected error: %v", k.id, k.typ, err)
}

// settle runs until no RPC is pending, at most for bound, and says whether it got there.
func (c *cluster) settle(bound time.Duration) bool {
	return c.net.RunWhile(func() bool { return c.pending > 0 }, c.net.Now().Add(bound))
}

// run lets virtual time pass.
func (c *cluster) run(d time.Duration) { c.net.RunUntil(c.net.Now().Add(d)) }

// closeAll closes every node and checks that nothing is left.
func (c *cluster) closeAll() {
	for _, n := range c.nodes {
		if n.down {
			continue
		}
		for to, s := range n.sessions {
			if s.Connected() && s.Credits() != s.Window() {
				c.fail("node %d: session to %d has %d of %d credits", n.id, to, s.Credits(), s.Window())
			}
			if a, b := s.Pending(); a+b != 0 {
				c.fail("node %d: session to %d still has %d+%d requests", n.id, to, a, b)
			}
		}
		n.close()
	}
	if c.pending != 0 {
		c.fail("%d RPCs never ended", c.pending)
	}
}
