package erpc_test

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// nonces are those of all that is sealed in the tests of this package. Simulations with one seed
// make the same keys, so a test that looks at them forgets what others did.
var nonces = sectest.WatchNonces()

// middle is an attacker on the path of an errPair: it has each packet before the receiver does.
type middle struct {
	*errPair
	t     *testing.T
	to    int
	queue []caught
	drawn int // NOKEYS
	seen  []caught
}

// caught is a packet on its way to an end, 0 for the client's.
type caught struct {
	to  int
	pkt []byte
}

// newMiddle makes a pair. The first session is opened through the attacker, too.
func newMiddle(t *testing.T, cfg erpc.Config) *middle {
	net := newMemNet()
	m := &middle{errPair: newErrPairOn(t, net, cfg), t: t}
	m.tick = 20_000
	sink := net.end(true)
	net.route = func(to int, _ []byte) int { m.to = to; return 2 }
	sink.lose = func(pkt []byte) bool {
		m.queue = append(m.queue, caught{m.to, bytes.Clone(pkt)})
		return true
	}
	return m
}

// end returns an end's transport and loop.
func (m *middle) end(i int) (*memEnd, *erpc.Rpc) {
	if i == 0 {
		return m.cend, m.client
	}
	return m.send, m.server
}

// put gives a packet to an end, and reports whether anything but counters of refusals changed,
// packets that leave included. No time passes.
func (m *middle) put(to int, from transport.Addr, pkts ...[]byte) bool {
	end, rpc := m.end(to)
	before, queued := harmless(rpc.Counters()), len(m.queue)
	for _, pkt := range pkts {
		end.put(bytes.Clone(pkt), nil, &from)
	}
	for range len(pkts)/200 + 1 {
		m.run(rpc)
	}
	return harmless(rpc.Counters()) != before || len(m.queue) != queued
}

// putKeyless is put for a datagram that names no association: it may draw one NOKEYS to its sender,
// no longer than itself. That goes no further.
func (m *middle) putKeyless(to int, from transport.Addr, pkt []byte) bool {
	end, rpc := m.end(to)
	before, queued := harmless(rpc.Counters()), len(m.queue)
	end.put(bytes.Clone(pkt), nil, &from)
	m.run(rpc)
	drawn := m.queue[queued:]
	m.queue = m.queue[:queued]
	for _, c := range drawn {
		if len(drawn) > 1 || len(c.pkt) > len(pkt) || c.to != 1-to || !isNoKeys(c.pkt) {
			return true
		}
	}
	m.drawn += len(drawn)
	before.TxPackets += uint64(len(drawn))
	return harmless(rpc.Counters()) != before
}

// isNoKeys reports whether a packet says that an index is not known.
func isNoKeys(pkt []byte) bool {
	var h wire.Header
	return h.Parse(pkt) == nil && h.Type == wire.TypeMgmt && wire.Op(h.ReqType) == wire.OpNoKeys
}

// harmless returns counters without those that count what was received and refused.
func harmless(s erpc.Stats) erpc.Stats {
	s.RxPackets, s.DropMalformed, s.DropNoSession, s.DropToken = 0, 0, 0, 0
	s.DropConnects, s.DropSealed, s.DropNoLoop = 0, 0, 0
	s.MemoryAll = 0 // of other endpoints too, which may just be ending
	return s
}

// sealed reports whether a datagram is sealed.
func sealed(pkt []byte) bool { return wire.IsSealed(pkt) }

// pump lets time pass, and gives each packet to its receiver after the attacker had it.
func (m *middle) pump(attack func(c caught, from transport.Addr)) {
	m.step()
	for len(m.queue) > 0 {
		c := m.queue[0]
		m.queue = m.queue[1:]
		sender, _ := m.end(1 - c.to)
		attack(c, sender.addr)
		end, rpc := m.end(c.to)
		end.put(c.pkt, nil, &sender.addr)
		m.run(rpc)
		m.seen = append(m.seen, c)
	}
}

// unknown closes the session of a pair, and waits until neither end has keys of the other.
func (p *errPair) unknown() {
	p.tb.Helper()
	_ = p.client.CloseSession(p.sess)
	tick := p.tick
	p.tick = 10_000_000
	p.until(func() bool { return p.client.Sessions()+p.server.Sessions() == 0 })
	p.until(func() bool { return p.client.Indices()+p.server.Indices() == 0 })
	p.tick = tick
}

// script makes calls of all kinds, one after the other, through the attacker.
func (m *middle) script(attack func(c caught, from transport.Addr)) {
	m.t.Helper()
	m.hold = func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) }
	wait := func(cond func() bool) {
		m.t.Helper()
		for end := m.net.now.Add(10 * time.Second); !cond(); m.pump(attack) {
			if m.net.now > end {
				m.t.Fatal("it never happened")
			}
		}
	}
	s, err := m.client.CreateSessionTo(m.send.addr)
	is(m.t, "a session", err, nil)
	wait(func() bool { return s.Connected() || s.Err() != nil })
	is(m.t, "the session", s.Err(), nil)
	m.sess = s
	for i, typ := range []uint8{tEcho, tHuge, tHold, 99, tEcho} {
		res := m.enqueue(typ, 20+900*i, 0)
		wait(func() bool { return res.ends > 0 })
		if want := erpc.ErrNoHandler; typ == 99 {
			is(m.t, "a call", res.err, want)
		} else {
			is(m.t, "a call", res.err, nil)
		}
	}
	stop := m.net.now.Add(1500 * time.Millisecond) // pings
	wait(func() bool { return m.net.now > stop })
	is(m.t, "closing", m.client.CloseSession(s), nil)
	wait(func() bool { return s.Err() != nil })
}

// manySeeds is how many runs TestSealedSeeds makes.
var manySeeds = flag.Int("sealed.seeds", 1000, "seeds of TestSealedSeeds")

// TestSealedSeeds: under loss, repetition, reordering, full transports and key updates at random,
// on both sides, each call ends well, no key ever has a nonce twice, and the keys do change.
func TestSealedSeeds(t *testing.T) {
	seeds := *manySeeds
	if testing.Short() {
		seeds = min(seeds, 100)
	}
	var updates uint64
	nonces.Begin()
	defer nonces.End()
	for seed := range seeds {
		updates += sealedSeed(t, uint64(seed))
		if _, _, err := nonces.Result(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if seed%100 == 99 {
			keys, sealed, _ := nonces.Result()
			if nonces.Begin(); keys < 200 || sealed < 10_000 {
				t.Errorf("%d keys sealed %d times", keys, sealed)
			}
		}
	}
	if updates < uint64(seeds) {
		t.Errorf("%d updates in %d runs", updates, seeds)
	}
}

func sealedSeed(t *testing.T, seed uint64) (updates uint64) {
	r := rand.New(rand.NewPCG(seed, 5))
	cfg := erpc.Config{
		Slots: 8, Credits: 16, PSK: testPSK,
		KeyUpdate: time.Duration(1 + r.IntN(1000)*r.IntN(1000)),
		NoBundles: r.IntN(2) == 0, Burst: 1 + r.IntN(64),
	}
	cfg.Timing.Heartbeat = time.Duration(40+r.IntN(4000)) * time.Microsecond
	cfg.Timing.FailureTimeout = 5 * time.Second
	cfg.Simulation.Seed = seed + 1
	p := newErrPairOn(t, newMemNet(), cfg)
	p.hold = func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) }
	p.tick = erpc.Time(1000 + r.IntN(50_000))
	weather(r, p)
	var calls []*result
	for i := range 20 {
		calls = append(calls, p.enqueue([]uint8{tHuge, tHold, tEcho}[i%3], r.IntN(6000), 0))
	}
	for _, res := range calls {
		p.until(func() bool { return res.ends > 0 })
		if res.err != nil {
			t.Fatalf("seed %d: %v", seed, res.err)
		}
	}
	updates = p.client.Counters().KeyUpdates
	p.cend.lose, p.send.lose, p.cend.takes, p.send.takes = nil, nil, nil, nil
	p.close()
	return updates
}

// weather loses, repeats and keeps back packets to both ends of a pair.
func weather(r *rand.Rand, p *errPair) {
	bad := 5 + r.IntN(40)
	for i, e := range []*memEnd{p.cend, p.send} {
		from := p.net.ends[1-i].addr
		var late [][]byte
		busy := false
		e.lose = func(pkt []byte) bool {
			if busy {
				return false
			}
			switch own := bytes.Clone(pkt); r.IntN(bad) {
			case 0:
				return true
			case 1:
				late = append(late, own)
				return true
			case 2:
				late = append(late, own)
			}
			return false
		}
		e.takes = func(n int) int {
			if peer := p.net.ends[1-i]; len(late) > 0 && r.IntN(3) == 0 && peer != nil {
				k := r.IntN(len(late))
				busy = true
				e.put(late[k], nil, &from)
				busy = false
				late = append(late[:k], late[k+1:]...)
			}
			return min(n, r.IntN(20))
		}
	}
}
