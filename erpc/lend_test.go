package erpc_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// largeSize is the size of messages of seven packets, in bytes.
const largeSize = 10_000

// newLendPair is newErrPair on a transport that refers to Data until Flush. Served holds the
// sessions at the server.
func newLendPair(t *testing.T, cfg erpc.Config) (p *errPair, served *[]*erpc.Session) {
	t.Helper()
	served = new([]*erpc.Session)
	cfg.OnSession = func(_ *erpc.Rpc, s *erpc.Session, ev erpc.SessionEvent) {
		if ev == erpc.SessionConnected && !s.IsClient() {
			*served = append(*served, s)
		}
	}
	net := newMemNet()
	net.lends = true
	return newErrPairOn(t, net, cfg), served
}

// noneLent checks that a transport refers to nothing.
func noneLent(t *testing.T, what string, e *memEnd) {
	t.Helper()
	if n := e.lent(); n != 0 {
		t.Errorf("%s: the transport refers to %d packets", what, n)
	}
}

// TestLentRequestEnds: a request ends while the transport refers to its packets. It does not
// when the continuation writes over the buffer.
func TestLentRequestEnds(t *testing.T) {
	for _, how := range []string{
		"cancel", "deadline", "close session", "close endpoint", "disconnect", "lost peer",
	} {
		t.Run(how, func(t *testing.T) {
			p, served := newLendPair(t, erpc.Config{})
			timeout := time.Duration(0)
			if how == "deadline" {
				timeout = time.Millisecond
			}
			res := p.enqueue(tEcho, largeSize, timeout)
			p.run(p.client)
			if p.cend.lent() != 6 {
				t.Fatalf("%d packets are lent, want all but the first of 7", p.cend.lent())
			}
			want := erpc.ErrClosed
			switch how {
			case "cancel":
				want = erpc.ErrCancelled
				is(t, how, p.client.Cancel(res.id), nil)
			case "deadline":
				want = erpc.ErrDeadline
				p.net.now += 3e6
				p.run(p.client)
			case "close session":
				is(t, how, p.client.CloseSession(p.sess), nil)
			case "close endpoint":
				is(t, how, p.client.Close(), nil)
			case "disconnect":
				want = erpc.ErrPeerClosed
				is(t, how, p.server.CloseSession((*served)[0]), nil)
				p.send.deaf = true
				p.run(p.server) // sends alone
				p.run(p.client)
				p.send.deaf = false
			case "lost peer":
				want = erpc.ErrPeerLost
				for range 4000 {
					p.net.now += 1e6
					p.run(p.client)
				}
			}
			is(t, how, res.err, want)
			if res.ends != 1 {
				t.Errorf("%d ends", res.ends)
			}
			noneLent(t, how, p.cend)
			p.run(p.server) // takes what was sent
			p.close()
		})
	}
}

// TestLentRetransmission: the answer to the first copy of a request comes when the transport has
// the second one. It refers to neither when the continuation writes over the buffer.
func TestLentRetransmission(t *testing.T) {
	p, _ := newLendPair(t, erpc.Config{})
	res := p.enqueue(tHold, largeSize, 0)
	p.until(func() bool { return len(p.held) > 0 })
	is(t, "respond", p.held[0].RespondBytes([]byte{1}), nil)
	p.run(p.client) // takes CRs
	p.cend.deaf = true
	p.run(p.server)
	p.net.now += 100e6
	p.run(p.client)
	if st := p.client.Stats().Protocol; st.Retransmits == 0 {
		t.Fatal("nothing was sent again")
	}
	p.cend.deaf = false
	p.run(p.client)
	is(t, "the request", res.err, nil)
	if res.ends != 1 {
		t.Fatalf("%d ends", res.ends)
	}
	noneLent(t, "after the end", p.cend)
	p.run(p.server)
	p.close()
}

// TestLentError: an error that answers the first packet of a request ends it while the transport
// refers to the others.
func TestLentError(t *testing.T) {
	p, _ := newLendPair(t, erpc.Config{Burst: 1}) // the server takes one packet a pass
	res := p.enqueue(77, largeSize, 0)
	p.run(p.client)
	for range 5 {
		p.run(p.server)
		p.run(p.client)
		if res.ends > 0 {
			break
		}
	}
	is(t, "no handler", res.err, erpc.ErrNoHandler)
	noneLent(t, "after the error", p.cend)
	p.pass(10)
	p.close()
}

// TestEarlyAnswer: a server that cheats answers a packet that is still in the TX batch. What
// leaves is the request all the same, not what the continuation wrote over it.
func TestEarlyAnswer(t *testing.T) {
	eachNet(t, func(t *testing.T, net *memNet) {
		p := newErrPairOn(t, net, erpc.Config{Credits: 1})
		var names [8]byte // session and token of the client
		p.cend.tap = func(pkt []byte, _ transport.Addr) { copy(names[:], pkt[8:16]) }
		is(t, "a call", p.call(tEcho, 1).err, nil)
		var first, last wire.Header
		want := make([]byte, largeSize)
		fillPattern(want)
		seen := 0
		p.send.tap = func(pkt []byte, _ transport.Addr) {
			if err := last.Parse(pkt); err != nil || last.Type != wire.TypeReq {
				return
			}
			if seen++; seen == 1 {
				first = last
			}
			from := int(last.PktNum) * (memMTU - wire.HeaderSize)
			if body := pkt[wire.HeaderSize:]; !bytes.Equal(body, want[from:from+len(body)]) {
				t.Errorf("packet %d left with something else in it", last.PktNum)
			}
		}
		res := p.enqueue(tHold, largeSize, 0)
		p.run(p.client)
		fault := wire.AppendError(nil,
			&wire.Error{Status: wire.StatusAborted, Code: wire.CodeApplication})
		for _, h := range []wire.Header{
			{Type: wire.TypeCR, ReqNum: first.ReqNum, ReqType: tHold},
			{
				Type: wire.TypeErr, ReqNum: first.ReqNum, ReqType: tHold, PktNum: 1,
				MsgSize: uint32(len(fault)),
			},
		} {
			pkt := make([]byte, wire.HeaderSize, wire.HeaderSize+len(fault))
			h.Put(pkt, 0)
			copy(pkt[8:16], names[:])
			if h.Type == wire.TypeErr {
				pkt = append(pkt, fault...)
			}
			p.cend.put(pkt, nil, &p.send.addr)
		}
		p.run(p.client)
		is(t, "the request", res.err, erpc.ErrRemote)
		if seen != 2 || last.PktNum != 1 || last.ReqNum != first.ReqNum {
			t.Errorf("%d packets of the request left, the last one %+v", seen, last)
		}
		p.close()
	})
}

// lendResponse makes the server answer a call with largeSize bytes, of which the client takes
// only the first packet: the server's transport refers to the others.
func (p *errPair) lendResponse(t *testing.T) *result {
	t.Helper()
	held := len(p.held)
	res := p.enqueue(tHold, 10, 0)
	p.until(func() bool { return len(p.held) > held })
	is(t, "respond", p.held[held].RespondBytes(make([]byte, largeSize)), nil)
	p.run(p.server)
	p.run(p.client) // asks for the rest
	p.run(p.server)
	if p.send.lent() < 3 || res.ends != 0 {
		t.Fatalf("%d packets are lent, %d ends", p.send.lent(), res.ends)
	}
	return res
}

// TestLentResponseOutlivesSlot: the next request of a slot comes while the transport refers to
// the last response, since the client gave that up. Its memory serves nobody until a flush.
func TestLentResponseOutlivesSlot(t *testing.T) {
	p, _ := newLendPair(t, erpc.Config{Slots: 1, Credits: 8})
	before := p.server.InUse()
	for range 3 {
		res := p.lendResponse(t)
		is(t, "cancel", p.client.Cancel(res.id), nil)
	}
	p.run(p.client) // reads the responses that nobody waits for
	if n := p.server.InUse() - before; n < 3 {
		t.Errorf("the server has %d buffers, though none was flushed", n)
	}
	is(t, "the next", p.call(tEcho, largeSize).err, nil)
	p.close()
}

// TestLentResponsesAreBounded: responses that wait for a flush of their own take 256 KiB at most,
// and one response.
func TestLentResponsesAreBounded(t *testing.T) {
	const size = 100_000
	p, _ := newLendPair(t, erpc.Config{Slots: 1, Credits: 32})
	most := 0
	for range 20 {
		held := len(p.held)
		res := p.enqueue(tHold, 10, 0)
		p.until(func() bool { return len(p.held) > held })
		is(t, "respond", p.held[held].RespondBytes(make([]byte, size)), nil)
		for range 4 { // some packets of it
			p.step()
		}
		is(t, "cancel", p.client.Cancel(res.id), nil)
		most = max(most, p.server.InUse())
	}
	p.step()
	if most < 2 || most > 4 {
		t.Errorf("up to %d responses of %d bytes took memory at once", most, size)
	}
	p.close()
	if n := p.server.Stats().Flushes; n < 9 || n > 12 { // one for two, in 128 KiB each
		t.Errorf("%d flushes for 20 responses", n)
	}
}

// preallocPair is a pair whose server answers the two requests of a slot, of one burst, by the
// same preallocated buffer. The client gave the first one up, and sees both responses.
func preallocPair(t *testing.T, net *memNet, first, second erpc.Handler) {
	n := 0
	p := newMemPairOn(t, net, erpc.Config{Slots: 1, NoBundles: true}, func(nx *erpc.Nexus) {
		is(t, "register", nx.Register(1, erpc.Dispatch, func(h erpc.ReqHandle) {
			if n++; n == 1 {
				first(h)
			} else {
				second(h)
			}
		}), nil)
	})
	var got [3][]byte // payload of the first packet of the response to each request
	p.cend.tap = func(pkt []byte, _ transport.Addr) {
		var h wire.Header
		if err := h.Parse(pkt); err != nil || h.Type != wire.TypeResp || h.PktNum > 0 {
			return
		}
		got[h.ReqNum] = bytes.Clone(pkt[wire.HeaderSize:])
	}
	for i := range 2 {
		req, err := p.client.Alloc(10)
		is(t, "alloc", err, nil)
		id, err := p.client.EnqueueRequest(p.sess, erpc.Request{Type: 1, Req: req, Done: func(
			c erpc.Completion,
		) {
			spoil(c.Req)
			if c.Resp != nil {
				spoil(c.Resp)
			}
		}})
		is(t, "enqueue", err, nil)
		p.run(p.client)
		if i == 0 {
			is(t, "cancel", p.client.Cancel(id), nil)
			p.sess.UseAgain(1)
		}
	}
	p.run(p.server)
	for i, want := range []byte{1, 2} {
		if b := got[i+1]; len(b) == 0 || len(bytes.Trim(b, string([]byte{want}))) != 0 {
			t.Errorf("response %d left with something else in it", want)
		}
	}
	p.pass(20)
	p.close()
}

// respondFilled answers with a buffer of n bytes of value v, taken for less if it may grow.
func respondFilled(t *testing.T, h erpc.ReqHandle, n int, v byte) {
	t.Helper()
	b, err := h.Alloc(min(n, memMTU-wire.HeaderSize))
	is(t, "alloc", err, nil)
	is(t, "resize", b.Resize(n), nil)
	for i := range b.Data() {
		b.Data()[i] = v
	}
	is(t, "respond", h.Respond(b), nil)
}

// TestGrownPrealloc: the preallocated buffer of a slot grows while the last response is in the TX
// batch. Its memory serves nobody until that has left.
func TestGrownPrealloc(t *testing.T) {
	eachNet(t, func(t *testing.T, net *memNet) {
		preallocPair(t, net, func(h erpc.ReqHandle) { respondFilled(t, h, 10, 1) },
			func(h erpc.ReqHandle) {
				respondFilled(t, h, 1000, 2)
				b, err := h.Rpc().Alloc(10)
				is(t, "alloc", err, nil)
				spoil(b)
			})
	})
}

// TestStretchedPrealloc: a preallocated buffer was made larger than a packet. Its slot does not
// have it again while the transport refers to the second packet.
func TestStretchedPrealloc(t *testing.T) {
	const size = memMTU // the buffer has room for so much, and a packet for less
	p, _ := newLendPair(t, erpc.Config{Slots: 1, NoBundles: true})
	for range 2 {
		held := len(p.held)
		res := p.enqueue(tHold, 10, 0)
		p.until(func() bool { return len(p.held) > held })
		respondFilled(t, p.held[held], size, byte(held))
		p.run(p.server)
		p.run(p.client) // asks for the second packet
		p.run(p.server)
		if p.send.lent() != 1 {
			t.Fatalf("%d packets are lent", p.send.lent())
		}
		is(t, "cancel", p.client.Cancel(res.id), nil)
		p.sess.UseAgain(uint64(held + 1))
		p.enqueue(tHold, 10, 0)
		p.cend.deaf = true
		p.run(p.client) // sends alone
		p.cend.deaf = false
		p.run(p.server)
		respondFilled(t, p.held[held+1], size, byte(held+1))
		p.pass(10)
	}
	p.close()
}

// TestLentSessionEnds: a server's session ends while the transport refers to its responses. Their
// buffers are back at once, and whole until then.
func TestLentSessionEnds(t *testing.T) {
	for _, how := range []string{"close session", "disconnect", "close endpoint"} {
		t.Run(how, func(t *testing.T) {
			p, served := newLendPair(t, erpc.Config{Credits: 8})
			p.lendResponse(t)
			switch how {
			case "close session":
				is(t, how, p.server.CloseSession((*served)[0]), nil)
			case "disconnect":
				is(t, how, p.client.CloseSession(p.sess), nil)
				p.cend.deaf = true
				p.run(p.client) // sends alone
				p.run(p.server)
				p.cend.deaf = false
			case "close endpoint":
				is(t, how, p.server.Close(), nil)
			}
			if n := p.server.InUse(); n != 0 {
				t.Errorf("the server has %d buffers", n)
			}
			noneLent(t, how, p.send)
			p.server.SpoilFree()
			p.run(p.client)
			p.close()
		})
	}
}

// TestRepeatedResponseIsKept: a response that is sent again costs no flush. The client may have it
// already and make the next request: the memory of the first response is then kept until the
// transport does not refer to it.
func TestRepeatedResponseIsKept(t *testing.T) {
	p, _ := newLendPair(t, erpc.Config{Credits: 8})
	res := p.lendResponse(t)
	flushes := p.server.Stats().Flushes
	p.cend.deaf = true
	p.net.now += 100e6
	p.run(p.client) // asks for the same again
	p.run(p.server)
	p.net.now += 100e6
	p.run(p.server) // publishes
	if st := p.server.Stats(); st.Protocol.Retransmits == 0 || st.Flushes != flushes {
		t.Errorf("%d packets sent again, %d flushes", st.Protocol.Retransmits, st.Flushes-flushes)
	}
	if p.send.lent() == 0 {
		t.Fatal("nothing is lent")
	}
	p.cend.deaf = false
	p.until(func() bool { return res.ends > 0 })
	is(t, "the call", res.err, nil)
	for range 20 {
		is(t, "a later call", p.call(tEcho, largeSize).err, nil)
	}
	p.close()
}
