package engine

import (
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// stubPeers are the loops of one address.
type stubPeers struct {
	loops []*stub
	full  bool // they take nothing
}

func (p *stubPeers) Loops() int { return len(p.loops) }

func (p *stubPeers) Epoch(loop uint8) (epoch uint64, runs bool) {
	if loop == 0 || int(loop) > len(p.loops) {
		return 0, false
	}
	return p.loops[loop-1].Engine.Epoch(), true
}

func (p *stubPeers) Place(number uint64, asked uint8) uint8 {
	if _, runs := p.Epoch(asked); runs {
		return asked
	}
	return uint8(1 + number%uint64(len(p.loops)))
}

func (p *stubPeers) HandOver(loop uint8, pkt *transport.RxPacket) (runs, took bool) {
	if _, runs = p.Epoch(loop); !runs || p.full {
		return runs, false
	}
	end := p.loops[loop-1].end
	end.in = append(end.in, transport.RxPacket{Data: append([]byte(nil), pkt.Data...), From: pkt.From})
	return true, true
}

// stubLoops makes the loops of one address.
func stubLoops(t *testing.T, n int) *stubPeers {
	t.Helper()
	p := &stubPeers{}
	for i := range n {
		st := newStub(t, setup{Seed: uint64(9 + i)})
		st.Join(p, uint8(i+1), [16]byte{1})
		p.loops = append(p.loops, st)
	}
	return p
}

// TestAstray: a request for another loop goes there, once. It is dropped if that loop does not run
// or has no room, and each drop is counted by its reason.
func TestAstray(t *testing.T) {
	for _, full := range []bool{false, true} {
		p := stubLoops(t, 2)
		p.full = full
		a, b := p.loops[0], p.loops[1]
		for loop := range uint8(4) {
			pkt := make([]byte, wire.HeaderSize)
			h := wire.Header{Type: wire.TypeReq, Session: wire.FirstOf(loop), ReqNum: 8}
			h.Put(pkt, 77)
			a.end.in = append(a.end.in, transport.RxPacket{Data: pkt, From: stubAddr(3)})
		}
		a.pass(1000)
		b.pass(1000)
		over, lost := uint64(1), uint64(0)
		if full {
			over, lost = 0, 1
		}
		if s := a.stats; s.HandedOver != over || s.DropHandover != lost || s.DropNoLoop != 2 ||
			s.DropNoSession != 1 {
			t.Errorf("full %v: over %d, full %d, no loop %d, no session %d", full, s.HandedOver,
				s.DropHandover, s.DropNoLoop, s.DropNoSession)
		}
		if s := b.stats; s.DropNoSession != over || b.received != int(over) {
			t.Errorf("full %v: the other loop took %d packets, of no session %d", full, b.received,
				s.DropNoSession)
		}
	}
}

// TestPingOfEndedLoop: a client whose server restarted with fewer loops, or one, learns that its
// session is gone, whichever loop hears it.
func TestPingOfEndedLoop(t *testing.T) {
	for name, st := range map[string]*stub{
		"loops": stubLoops(t, 2).loops[0], "one loop": newStub(t, setup{}),
	} {
		for field, want := range map[uint32][]wire.Op{
			wire.FirstOf(9) + 1: {wire.OpReset}, wire.FirstOf(0) + 1: {wire.OpReset},
		} {
			body := wire.Alive{Session: 4, Token: 5, Seq: 6, To: 7}
			st.receive(1, wire.OpPing, field, 7, wire.AliveSize, body.Put)
			st.pass(1000)
			if ops := st.take(); len(ops) != 1 || ops[0] != want[0] {
				t.Errorf("%s: a ping of %#x draws %v", name, field, ops)
			}
		}
	}
}

// TestLoopsAreNoRestart: loops of one address have epochs of their own. A Connect of another loop
// is no sign that the address has restarted; one of the same loop is.
func TestLoopsAreNoRestart(t *testing.T) {
	st := newStub(t, setup{})
	open := func(loop uint8, epoch, nonce uint64) *Conn {
		c := wire.Connect{
			Nonce: nonce, Epoch: epoch, Session: wire.FirstOf(loop) + 8, Token: uint32(nonce),
			Offer: st.paths.offer(stubMTU, 0, &st.end.way),
		}
		from := stubAddr(1)
		body := make([]byte, wire.ConnectSize)
		c.Put(body)
		c.Cookie = st.handshakes.cookies.Make(&from, body, st.now)
		st.receive(1, wire.OpConnect, wire.NoSession, 0, wire.ConnectSize, c.Put)
		st.pass(1000)
		s := st.table.byKey[connKey{from: from, nonce: nonce}]
		if s == nil || s.End.Remote != c.Session {
			t.Fatal("no session")
		}
		return s
	}
	one, two := open(1, 100, 1), open(2, 200, 2)
	if one.assoc == two.assoc || one.assoc.suspect+two.assoc.suspect != 0 {
		t.Fatalf("%d and %d sessions are suspected", one.assoc.suspect, two.assoc.suspect)
	}
	st.closeConn(two)
	st.forget(two)  // at once
	open(1, 101, 3) // the first loop's address has restarted
	if one.assoc.suspect == 0 {
		t.Error("nobody asks after the sessions of the earlier incarnation")
	}
}
