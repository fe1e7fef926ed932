package erpc_test

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
)

// published makes the endpoints publish their counters, and returns those of the client.
func (p *errPair) published() erpc.Stats {
	p.net.now = p.net.now.Add(2 * epoch)
	p.step()
	return p.client.Stats()
}

// TestEndsAreCounted: a call that succeeds and one that fails, each once.
func TestEndsAreCounted(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	before := p.published()
	is(t, "a call", p.call(tEcho, 1).err, nil)
	is(t, "a call that nobody handles", p.call(99, 1).err, erpc.ErrNoHandler)
	is(t, "another", p.call(99, 1).err, erpc.ErrNoHandler)
	st := p.published()
	if done, failed := st.Completed-before.Completed, st.Failed-before.Failed; done != 1 ||
		failed != 2 {
		t.Errorf("%d succeeded, %d failed", done, failed)
	}
	p.close()
}

// TestRoundTripsAreCounted: each answer gives a round trip, those within a large message too, but
// for credits that leave with the response and so behind it.
func TestRoundTripsAreCounted(t *testing.T) {
	p := newErrPair(t, erpc.Config{Credits: 4}) // a CR for each packet
	before := p.published().RTT.Count
	is(t, "a small call", p.call(tEcho, 1).err, nil)
	small := p.published().RTT.Count
	if small != before+1 {
		t.Errorf("%d round trips of a small call", small-before)
	}
	is(t, "a large call", p.call(tEcho, largeSize).err, nil)
	if n := p.published().RTT.Count - small; n != 11 { // 7 packets each way, of which one answers two
		t.Errorf("%d round trips of 7 packets each way", n)
	}
	p.close()
}

// TestUnknownSession: a packet of a session that never was is counted and changes nothing.
func TestUnknownSession(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	var req []byte
	p.send.tap = func(pkt []byte, _ transport.Addr) { req = append([]byte(nil), pkt...) }
	is(t, "a call", p.call(tEcho, 1).err, nil)
	p.send.tap = nil
	p.published()
	before := p.server.Stats()
	req[10] = 0x7F
	p.send.put(req, nil, &p.cend.addr)
	p.published()
	if n := p.server.Stats().DropNoSession - before.DropNoSession; n != 1 {
		t.Errorf("%d packets of no session", n)
	}
	p.close()
}

// TestBundlesAreCounted: a bundle counts as one packet on its way out and in, be it dropped, and
// what is in it counts as bundled.
func TestBundlesAreCounted(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	const calls = 3
	var bundle []byte
	p.send.tap = func(pkt []byte, _ transport.Addr) { bundle = append([]byte(nil), pkt...) }
	client, server := p.client.Counters(), p.server.Counters()
	for range calls {
		p.enqueue(tHold, 1, 0)
	}
	p.step()
	p.send.tap = nil
	for _, c := range []struct {
		what          string
		sent          bool
		before, after erpc.Stats
	}{{"out", true, client, p.client.Counters()}, {"in", false, server, p.server.Counters()}} {
		packets, bundled := c.after.RxPackets-c.before.RxPackets, c.after.RxBundled-c.before.RxBundled
		if c.sent {
			packets, bundled = c.after.TxPackets-c.before.TxPackets, c.after.TxBundled-c.before.TxBundled
		}
		if packets != 1 || bundled != calls {
			t.Errorf("%s: %d packets, %d in bundles", c.what, packets, bundled)
		}
	}
	server = p.server.Counters()
	p.send.put(bundle[:len(bundle)-1], nil, &p.cend.addr)
	p.step()
	st := p.server.Counters()
	if n := st.RxPackets - server.RxPackets; n != 1 || st.DropMalformed-server.DropMalformed != 1 ||
		st.RxBundled != server.RxBundled {
		t.Errorf("cut off: %d packets, %d in bundles, %d dropped", n, st.RxBundled-server.RxBundled,
			st.DropMalformed-server.DropMalformed)
	}
	for _, h := range p.held {
		_ = h.RespondBytes(nil)
	}
	p.close()
}

// TestSlots: a session has as many slots as both sides were given.
func TestSlots(t *testing.T) {
	for slots, want := range map[int]int{0: 8, 1: 1, 2: 2, 64: 64, 128: 128} {
		p := newErrPair(t, erpc.Config{Slots: slots})
		if got := p.sess.Params().Slots; got != want {
			t.Errorf("%d slots became %d, want %d", slots, got, want)
		}
		p.close()
	}
}

// TestRunFor: the loop runs until the time has passed, and no longer than another pass.
func TestRunFor(t *testing.T) {
	now := erpc.Time(1e9)
	clock := func() erpc.Time {
		now = now.Add(time.Microsecond) // each look takes so long
		return now
	}
	n, err := erpc.NewNexus(erpc.Config{Wait: erpc.WaitSpin,
		Simulation: erpc.Simulation{Clock: clock, Seed: 1}})
	is(t, "nexus", err, nil)
	r, err := n.NewRpc(newMemNet().end(true))
	is(t, "rpc", err, nil)
	for _, d := range []time.Duration{0, time.Microsecond, time.Millisecond} {
		start := now
		is(t, "run", r.RunFor(d), nil)
		if took := now.Sub(start); took < d || took > d+20*time.Microsecond {
			t.Errorf("%v in a run of %v", took, d)
		}
	}
	is(t, "close", r.Close(), nil)
}
