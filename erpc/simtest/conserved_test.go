package simtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// ledger counts bytes of messages.
type ledger struct{ asked, reached, answered, returned uint64 }

// TestBytesConserved: whatever a network loses, repeats, reorders and damages, and however small
// windows and rings are, the bytes that callers send are those that handlers get, and the bytes
// that these answer are those that callers get, each once. No session is ever beyond its credits.
// At the end all credits are back, and all buffers are in their pools (closeAll).
func TestBytesConserved(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() || invariants.Enabled {
		seeds = 20
	}
	var lost, stalled uint64
	for seed := range seeds {
		l, stats := conserved(t, seed)
		if l.asked == 0 || l.asked != l.reached || l.answered != l.returned {
			t.Errorf("seed %d: %+v", seed, l)
		}
		lost += stats.Retransmits + stats.Rollbacks
		stalled += stats.CreditStalls
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if lost < seeds || stalled < seeds {
		t.Errorf("%d times something was sent again, and %d times nobody had credits", lost, stalled)
	}
}

func conserved(t *testing.T, seed uint64) (l ledger, stats erpc.ProtocolStats) {
	r := rand.New(rand.NewPCG(seed, 41))
	mtu := pick(r, 1100, 1472, 4096)
	c := newCluster(t, sim.Config{Seed: seed, MTU: mtu, PropDelay: 5000, LoopDelay: 500,
		LinkBitsPerSec: pick[int64](r, 1e9, 10e9, 0), RxRing: pick(r, 0, 64, 512)})
	c.lender.on, c.lender.inline = lends(seed), lendInline
	if err := c.net.SetFaults(sim.Faults{Loss: pick(r, 0, 0.01, 0.1), Duplicate: pick(r, 0, 0.1),
		Corrupt: pick(r, 0, 0.02), Reorder: pick(r, 0, 0.2),
		ReorderDelay: time.Duration(1 + r.Int64N(1e6))}); err != nil {
		t.Fatal(err)
	}
	credits, control := pick(r, 1, 2, 5, 13, 32), pick(r, erpc.CCTimely, erpc.CCNone)
	for range 3 {
		cfg := erpc.Config{Slots: pick(r, 1, 4, 16), Credits: credits + r.IntN(2), Checksum: true,
			MaxMessage: 256 << 10, Burst: pick(r, 1, 16, 64), NoBundles: r.IntN(3) == 0}
		cfg.Congestion.Algorithm = control
		cfg.Timing.FailureTimeout, cfg.Timing.ConnectTimeout = time.Hour, time.Hour
		if seed%3 == 0 {
			cfg.PSK = [][]byte{[]byte("what all the nodes have")}
		}
		epc := sim.EndpointConfig{TxRing: pick(r, 0, 64)}
		c.add(cfg, epc)
	}
	c.onAsked = func(_ *node, h erpc.ReqHandle, k *call) {
		l.reached += uint64(len(h.Data()))
		l.answered += uint64(k.respSize)
	}
	for range 60 {
		from := c.nodes[r.IntN(3)]
		k := &call{from: from, to: (from.id + 1 + r.IntN(2)) % 3, respMax: -1,
			typ: pick[uint8](r, typeEcho, typeBackground, typeLate)}
		size := func() int { return r.IntN(pick(r, 40, 2*mtu, 20*mtu)) }
		k.reqSize, k.respSize = minRequest+size(), size()
		k.then = func(k *call) {
			if k.err != nil {
				c.fail("request %d: %v", k.id, k.err)
			}
			l.returned += uint64(k.respSize) // done has looked at all of them
		}
		c.net.After(time.Duration(r.Int64N(2e6)), func() {
			l.asked += uint64(k.reqSize)
			if err := c.issue(k); err != nil {
				c.fail("a request of %d bytes: %v", k.reqSize, err)
			}
		})
	}
	issued := c.net.Now().Add(2 * time.Millisecond)
	var look func()
	look = func() {
		if c.withinCredits(); c.pending > 0 || c.net.Now() < issued {
			c.net.After(3*time.Microsecond, look)
		}
	}
	look()
	c.run(2 * time.Millisecond)
	if !c.settle(time.Hour) {
		c.fail("%d requests never ended", c.pending)
	}
	for _, n := range c.nodes {
		p := n.rpc.Stats().Protocol
		stats.Retransmits += p.Retransmits
		stats.Rollbacks += p.Rollbacks + p.FastRollbacks
		stats.CreditStalls += p.CreditStalls
	}
	c.closeAll()
	return l, stats
}

// withinCredits checks that no session has more credits than were agreed on, or fewer than none.
func (c *cluster) withinCredits() {
	for _, n := range c.nodes {
		for to, s := range n.sessions {
			if p := s.Params(); s.Connected() && (s.Credits() < 0 || s.Credits() > s.Window() ||
				s.Window() > p.Credits) {
				c.fail("node %d: %d of %d credits for %d", n.id, s.Credits(), p.Credits, to)
			}
		}
	}
}
