package erpc_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestManyPackets: an echo of 64 MiB takes 92,691 packets of an MTU of 1500 bytes, which is more
// than version 2 has numbers for: with an old server its response is too large.
func TestManyPackets(t *testing.T) {
	const size = 64 << 20
	cfg := erpc.Config{MaxMessage: size, Credits: 256, MemoryLimit: 1 << 30}
	for name, server := range map[string]func(erpc.Config) erpc.Config{"today": today, "old": old} {
		t.Run(name, func(t *testing.T) {
			var refused error
			echo := func(h erpc.ReqHandle) {
				if refused = h.RespondBytes(h.Data()); refused != nil {
					_ = h.RespondError(refused)
				}
			}
			p := newMemEnds(t, newMemNet(), cfg, server(cfg), func(n *erpc.Nexus) {
				is(t, "register", n.Register(1, erpc.Dispatch, echo), nil)
			})
			p.connect()
			r := rand.New(rand.NewPCG(1, 1))
			for _, e := range []*memEnd{p.cend, p.send} {
				e.lose = func([]byte) bool { return r.IntN(1000) == 0 }
			}
			p.tick = 100_000
			req, err := p.client.Alloc(size)
			is(t, "alloc", err, nil)
			fillPattern(req.Data())
			var got erpc.Completion
			ended := false
			_, err = p.client.EnqueueRequest(p.sess, erpc.Request{Type: 1, Req: req,
				Done: func(c erpc.Completion) { got, ended = c, true }})
			is(t, "enqueue", err, nil)
			p.until(func() bool { return ended })
			if name == "old" {
				is(t, "the response", refused, erpc.ErrTooLarge)
				is(t, "the call", got.Err, erpc.ErrTooLarge)
			} else if is(t, "the call", got.Err, nil); !bytes.Equal(got.Resp.Data(), req.Data()) {
				t.Error("the response is damaged")
			}
			req.Free()
			if got.Resp != nil {
				got.Resp.Free()
			}
			p.close()
		})
	}
}

// TestSpentSessions: a session whose request numbers are used up takes no new request; a Client's
// calls take another one, and those under way end as they would have.
func TestSpentSessions(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	held := p.enqueue(tHold, 10, 0)
	p.until(func() bool { return len(p.held) == 1 })
	p.sess.Spend()
	is(t, "a new call", p.enqueue(tEcho, 10, 0).err, erpc.ErrDraining)
	is(t, "respond", p.held[0].RespondBytes(nil), nil)
	p.until(func() bool { return held.ends == 1 })
	is(t, "the call under way", held.err, nil)
	p.close()

	checkLeaks(t)
	f := newFarm(t, 1)
	c := f.dial("s0")
	errs := f.hold(of(c), 3)
	c.Spend()
	f.all("a call", f.calls(of(c), tEcho, 10, 20), 20, nil)
	f.answer()
	f.all("a call under way", errs, 3, nil)
	f.once(0, 3)
	f.once(10, 20)
}
