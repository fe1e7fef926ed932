package erpc_test

import (
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestTxBatch: answers leave in the middle of a long receive burst, so that the peer has work
// early; where sending is dear, only if the burst was waited for.
func TestTxBatch(t *testing.T) {
	run := func(r *erpc.Rpc) {
		t.Helper()
		if _, err := r.RunOnce(); err != nil {
			t.Fatal(err)
		}
	}
	register := func(n *erpc.Nexus) {
		if err := n.Register(1, erpc.Dispatch,
			func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) }); err != nil {
			t.Fatal(err)
		}
	}
	split, whole := [4]int{4, 8, 8}, [4]int{20}
	for _, c := range []struct {
		name           string
		batch          int
		dear           bool
		waited, atOnce [4]int // the server's bursts for 20 requests, the last one first
	}{
		{"all there are", 0, false, whole, whole},
		{"cheap", 8, false, split, split},
		{"dear", 8, true, split, whole},
	} {
		t.Run(c.name, func(t *testing.T) {
			net := &memNet{now: 1e9, batch: c.batch, dear: c.dear}
			p := newMemPairOn(t, net, erpc.Config{Slots: 32, Credits: 32, NoBundles: true}, register)
			done := 0
			run(p.server)
			for _, want := range [][4]int{c.waited, c.atOnce} {
				for range 20 {
					req, err := p.client.Alloc(16)
					if err != nil {
						t.Fatal(err)
					}
					if _, err = p.client.EnqueueRequest(p.sess,
						erpc.Request{Type: 1, Req: req, Done: func(c erpc.Completion) {
							c.Resp.Free()
							req.Free()
							done++
						}}); err != nil {
						t.Fatal(err)
					}
				}
				run(p.client)
				p.send.bursts = [4]int{}
				run(p.server)
				if p.send.bursts != want {
					t.Errorf("bursts of %v, want %v", p.send.bursts, want)
				}
				run(p.client) // takes the answers
			}
			if done != 40 {
				t.Errorf("%d of 40 answered", done)
			}
		})
	}
}

// TestSendFirst: what is enqueued between two passes leaves before the next one looks for packets,
// unless the one before found many: then all leaves together.
func TestSendFirst(t *testing.T) {
	p := newMemPair(t, erpc.Config{Slots: 32, Credits: 32, NoBundles: true}, func(n *erpc.Nexus) {
		if err := n.Register(1, erpc.Dispatch,
			func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) }); err != nil {
			t.Fatal(err)
		}
	})
	run := func(r *erpc.Rpc) {
		t.Helper()
		if _, err := r.RunOnce(); err != nil {
			t.Fatal(err)
		}
	}
	done := 0
	for i, c := range []struct {
		requests int
		calls    string // of the client, from when they are enqueued until the next pass is over
	}{{1, "TR"}, {4, "TR"}, {5, "TR"}, {1, "RT"}, {1, "TR"}} {
		for range c.requests {
			req, err := p.client.Alloc(16)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = p.client.EnqueueRequest(p.sess,
				erpc.Request{Type: 1, Req: req, Done: func(c erpc.Completion) {
					c.Resp.Free()
					req.Free()
					done++
				}}); err != nil {
				t.Fatal(err)
			}
		}
		p.cend.record, p.cend.calls = true, nil
		run(p.client)
		if p.cend.record = false; string(p.cend.calls) != c.calls {
			t.Errorf("case %d: calls %s, want %s", i, p.cend.calls, c.calls)
		}
		run(p.server)
		run(p.client) // takes the answers
	}
	if done != 12 {
		t.Errorf("%d of 12 answered", done)
	}
}
