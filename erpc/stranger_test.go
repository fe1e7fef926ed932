package erpc_test

import (
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
	"github.com/userspace-rpc/erpc/wire"
)

// TestStrangerPing: a whole Ping for an unknown session is answered with Reset, a
// damaged one is not: it may be a living session's, which a Reset would end.
func TestStrangerPing(t *testing.T) {
	net, err := sim.New(sim.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	ep, err := net.NewEndpoint(sim.EndpointConfig{Name: "server"})
	if err != nil {
		t.Fatal(err)
	}
	n, err := erpc.NewNexus(erpc.Config{Simulation: erpc.Simulation{Seed: 7, Clock: net.Now}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := n.NewRpc(ep)
	if err != nil {
		t.Fatal(err)
	}
	net.Attach(ep, driven{t, r})
	stranger, err := net.NewEndpoint(sim.EndpointConfig{Name: "stranger"})
	if err != nil {
		t.Fatal(err)
	}
	const token = 1234
	ping := make([]byte, wire.HeaderSize+wire.AliveSize)
	h := wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpPing), MsgSize: wire.AliveSize,
		Session: 99}
	h.Put(ping, 0)
	a := wire.Alive{Session: 3, Token: 77, Seq: 5, To: token}
	a.Put(ping[wire.HeaderSize:])
	wire.SealMgmt(ping, token)

	answers := func(pkt []byte) (ops []wire.Op) {
		if _, err := stranger.TxBurst([]transport.TxItem{{Dst: r.LocalAddr(), Head: pkt}}); err != nil {
			t.Fatal(err)
		}
		net.RunUntil(net.Now() + 1e6)
		pkts := make([]transport.RxPacket, 4)
		got, err := stranger.RxBurst(pkts)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pkts[:got] {
			var h wire.Header
			if err := h.Parse(p.Data); err != nil || h.Session != 3 || wire.OpenMgmt(p.Data) != 77 {
				t.Errorf("answer %+v, %v", h, err)
			}
			ops = append(ops, wire.Op(h.ReqType))
		}
		return ops
	}
	if ops := answers(ping); len(ops) != 1 || ops[0] != wire.OpReset {
		t.Errorf("a whole Ping got %v, want RESET", ops)
	}
	for bit := 8 * 8; bit < len(ping)*8; bit++ { // from the session number on
		ping[bit/8] ^= 1 << (bit % 8)
		if ops := answers(ping); len(ops) != 0 {
			t.Errorf("a Ping with bit %d wrong got %v", bit, ops)
		}
		ping[bit/8] ^= 1 << (bit % 8)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestStrangersAreBounded: strangers get a thousand answers, Reset and DisconnectAck together,
// and no more until the next sweep, a quarter of a heartbeat later.
func TestStrangersAreBounded(t *testing.T) {
	const most = 1000
	p := newMemPair(t, erpc.Config{}, nil)
	stranger := p.net.end(true)
	answers := map[wire.Op]int{}
	stranger.tap = func(pkt []byte, _ transport.Addr) {
		var h wire.Header
		if err := h.Parse(pkt); err != nil || h.Type != wire.TypeMgmt {
			t.Errorf("answer %+v, %v", h, err)
		}
		answers[wire.Op(h.ReqType)]++
	}
	ask := func(n int) {
		t.Helper()
		clear(answers)
		for i := range n {
			op := wire.OpPing
			if i%2 == 1 {
				op = wire.OpDisconnect
			}
			pkt := make([]byte, wire.HeaderSize+wire.AliveSize)
			h := wire.Header{
				Type: wire.TypeMgmt, ReqType: uint8(op), MsgSize: wire.AliveSize, Session: 99,
			}
			h.Put(pkt, 0)
			a := wire.Alive{Session: 3, Token: 77, Seq: uint64(i), To: 55}
			a.Put(pkt[wire.HeaderSize:])
			wire.SealMgmt(pkt, 55)
			p.send.put(pkt, nil, &stranger.addr)
			if i%100 == 99 {
				p.step()
				stranger.head = stranger.tail // nobody reads there
			}
		}
		p.step()
	}
	want := func(what string, resets, acks int) {
		t.Helper()
		if answers[wire.OpReset] != resets || answers[wire.OpDisconnectAck] != acks ||
			len(answers) > 2 {
			t.Errorf("%s: %v", what, answers)
		}
	}
	p.net.now += 1e9 // a sweep
	p.step()
	for range 3 {
		ask(most - 2)
		want("almost as many as are answered", most/2-1, most/2-1)
		ask(5)
		want("three too many", 1, 1)
		ask(10)
		want("all too many", 0, 0)
		p.net.now += 120e6
		p.step()
		ask(10)
		want("before the next sweep", 0, 0)
		p.net.now += 6e6
		p.step()
	}
	p.net.now += 1e9
	p.step()
	ask(2*most + 500)
	want("many at once after a quiet while", most/2, most/2)
	p.close()
}
