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
	n, err := erpc.NewNexus(erpc.Config{Seed: 7, Clock: clockOf(net)})
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
	h := wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpPing), MsgSize: wire.AliveSize, Session: 99}
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
