package erpc_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// ordered is an errPair that notes what the application is told, in its order.
type ordered struct {
	*errPair
	told   []string
	size   int           // of requests
	served *erpc.Session // the last one that the server accepted
	others []*erpc.Rpc   // run beside the pair
}

func newOrdered(t *testing.T, net *memNet, cfg erpc.Config) *ordered {
	t.Helper()
	o := &ordered{size: largeSize}
	cfg.OnSession = func(r *erpc.Rpc, s *erpc.Session, ev erpc.SessionEvent) {
		if s.IsClient() {
			o.told = append(o.told, ev.String())
		} else if ev == erpc.SessionConnected {
			o.served = s
		}
	}
	o.errPair = newErrPairOn(t, net, cfg)
	o.told = nil
	return o
}

// small makes the client's session one to a server that takes messages of at most n bytes.
func (o *ordered) small(n int) {
	o.tb.Helper()
	end := o.net.end(true)
	nexus, err := erpc.NewNexus(erpc.Config{Simulation: erpc.Simulation{Clock: o.net.Now},
		MaxMessage: n})
	if err != nil {
		o.tb.Fatal(err)
	}
	err = nexus.Register(tEcho, erpc.Dispatch, func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) })
	if err != nil {
		o.tb.Fatal(err)
	}
	r, err := nexus.NewRpc(end)
	if err != nil {
		o.tb.Fatal(err)
	}
	o.others = append(o.others, r)
	if o.sess, err = o.client.CreateSessionTo(end.addr); err != nil {
		o.tb.Fatal(err)
	}
}

// until is memPair.until with the other endpoints.
func (o *ordered) until(cond func() bool) {
	o.tb.Helper()
	o.memPair.until(func() bool {
		for _, r := range o.others {
			o.run(r)
		}
		return cond()
	})
}

func (o *ordered) close() {
	o.tb.Helper()
	for _, r := range o.others {
		if err := r.Close(); err != nil {
			o.tb.Error(err)
		}
	}
	o.errPair.close()
}

// request starts request number n; its end is noted, and then does what the test wants.
func (o *ordered) request(n int, typ uint8, end func(c erpc.Completion)) erpc.RequestID {
	o.tb.Helper()
	req, err := o.client.Alloc(o.size)
	if err != nil {
		o.tb.Fatal(err)
	}
	id, err := o.client.EnqueueRequest(o.sess,
		erpc.Request{Type: typ, Req: req, Done: func(c erpc.Completion) {
			text := fmt.Sprint(n)
			if c.Err != nil {
				text += " " + c.Err.Error()
			}
			o.told = append(o.told, text)
			spoil(c.Req)
			if c.Resp != nil {
				spoil(c.Resp)
			}
			if end != nil {
				end(c)
			}
		}})
	if err != nil {
		req.Free()
		o.told = append(o.told, fmt.Sprint(n, " not started: ", err))
	}
	return id
}

func (o *ordered) want(what string, told ...string) {
	o.tb.Helper()
	if !slices.Equal(o.told, told) {
		o.tb.Errorf("%s: told %q, want %q", what, o.told, told)
	}
	o.told = nil
}

// TestOrderOfEnds: a session that ends tells first of its requests, in slots and then in the
// queue, and of itself last. A request that a continuation starts then is refused at once.
func TestOrderOfEnds(t *testing.T) {
	eachNet(t, func(t *testing.T, net *memNet) {
		o := newOrdered(t, net, erpc.Config{Slots: 2})
		for n := range 5 {
			end := func(erpc.Completion) {}
			if n == 1 {
				end = func(erpc.Completion) { o.request(9, tHold, nil) }
			}
			o.request(n, tHold, end)
		}
		is(t, "close", o.client.CloseSession(o.sess), nil)
		o.want("close", "0 closed", "1 closed", "9 not started: closed", "2 closed", "3 closed",
			"4 closed", "closed")
		o.close()
	})
}

// TestNestedEnds: a continuation ends the session in which others are about to end in the same
// pass. Each is told once, with the outcome that it had by then.
func TestNestedEnds(t *testing.T) {
	eachNet(t, func(t *testing.T, net *memNet) {
		o := newOrdered(t, net, erpc.Config{})
		o.request(0, tEcho, func(c erpc.Completion) {
			is(t, "nested close", c.Rpc.CloseSession(c.Session), nil)
			o.told = append(o.told, "back")
		})
		o.request(1, tEcho, nil)
		o.request(2, tHold, nil)
		o.until(func() bool { return len(o.told) >= 5 })
		// All is settled when the nested call returns, the session too.
		o.want("nested close", "0", "1 closed", "2 closed", "closed", "back")
		o.pass(10)
		o.want("later")
		o.close()
	})
}

// TestNestedCancel: a continuation cancels requests, of which one has its answer in the same
// burst of packets. Each ends once.
func TestNestedCancel(t *testing.T) {
	eachNet(t, func(t *testing.T, net *memNet) {
		o := newOrdered(t, net, erpc.Config{})
		var ids [3]erpc.RequestID
		for n, typ := range []uint8{tEcho, tEcho, tHold} {
			ids[n] = o.request(n, typ, func(c erpc.Completion) {
				for i := range ids {
					is(t, "nested cancel", c.Rpc.Cancel(ids[i]), nil)
				}
				o.told = append(o.told, fmt.Sprint(n, " back"))
			})
		}
		o.until(func() bool { return len(o.told) >= 6 })
		// Each Cancel returns after the end that it causes, with all that follows from that.
		o.want("nested cancel", "0", "1 cancelled", "2 cancelled", "2 back", "1 back", "0 back")
		o.pass(200)
		o.want("later")
		if n := o.call(tEcho, 1); n.err != nil {
			t.Errorf("the session does not work on: %v", n.err)
		}
		o.close()
	})
}

// TestCancelOfAnswered: the answer to one request starts the next one, which turns out to be too
// large for the server. Its continuation cancels the first, whose answer is the outcome behind.
// The first ends with its answer, and once.
func TestCancelOfAnswered(t *testing.T) {
	eachNet(t, func(t *testing.T, net *memNet) {
		o := newOrdered(t, net, erpc.Config{Slots: 1})
		o.small(3000)
		o.size = 3000
		first := o.request(0, tEcho, nil)
		o.size = 3001
		o.request(1, tEcho, func(c erpc.Completion) {
			is(t, "cancel", c.Rpc.Cancel(first), nil)
		})
		o.until(func() bool { return len(o.told) >= 3 })
		o.want("cancel", "connected", "1 message too large", "0")
		o.pass(200)
		o.want("later")
		o.size = 1
		o.request(2, tEcho, nil)
		o.until(func() bool { return len(o.told) > 0 })
		o.want("the session works on", "2")
		o.close()
	})
}

// TestHandlerClosesItsSession: nothing of the session is used after that. The client's request
// ends with it.
func TestHandlerClosesItsSession(t *testing.T) {
	for _, mode := range []string{"before the response", "after the response"} {
		t.Run(mode, func(t *testing.T) {
			eachNet(t, func(t *testing.T, net *memNet) {
				o := newOrdered(t, net, erpc.Config{})
				o.hold = func(h erpc.ReqHandle) {
					if mode == "after the response" {
						is(t, "respond", h.RespondBytes([]byte{1}), nil)
					}
					is(t, "close", h.Rpc().CloseSession(o.served), nil)
					is(t, "respond to nobody", h.RespondBytes([]byte{1}), erpc.ErrResponded)
					if h.Data() != nil {
						t.Error("the request outlives its session")
					}
				}
				o.request(0, tHold, nil)
				o.until(func() bool { return len(o.told) >= 2 })
				if mode == "after the response" {
					o.want(mode, "0", "disconnected")
				} else {
					o.want(mode, "0 session closed by the peer, outcome unknown", "disconnected")
				}
				o.close()
			})
		})
	}
}
