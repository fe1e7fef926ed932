package hostiletest

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/wire"
)

// TestBlind sends forged packets from the addresses of the two ends of living sessions, to the
// other ends. The forger guesses tokens. All calls are answered, and no session ends.
func TestBlind(t *testing.T) {
	for _, checksum := range []bool{false, true} {
		l := begin(t)
		book := newLedger()
		cfg := steady()
		cfg.Checksum = checksum
		s := serve(l, cfg, book, nil)
		n := newNetwork(l, s.addr, rules{checksum: checksum})
		clients := make([]*erpc.Client, 2)
		for i := range clients {
			clients[i], _ = dial(l, "127.0.0.1:0", n.addr(), cfg)
		}
		f := forger{r: l.rng("forger", 0)}
		for range l.pick(100, 10_000) {
			for range burst {
				n.another(f.r).pass(f.r.IntN(2), f.make())
			}
			for _, c := range clients {
				must(l, book, c, 1)
			}
			if t.Failed() {
				break
			}
		}
		st := s.stats()
		l.Logf("%d packets passed; the server: %d of wrong tokens, %d of no session, %d malformed",
			n.passed.Load(), st.DropToken, st.DropNoSession, st.DropMalformed)
		if st.SessionsOpened != uint64(len(clients)) || st.SessionsEnded != 0 {
			t.Errorf("seed %d: %d sessions opened and %d ended", l.seed, st.SessionsOpened,
				st.SessionsEnded)
		}
		for _, c := range clients {
			shut(l, c)
		}
		s.stop()
		n.close()
		book.check(l, true)
	}
}

// forger makes packets that it has no right to send.
type forger struct {
	r   *rand.Rand
	pkt [mtu]byte
}

// make returns a packet of some kind.
func (f *forger) make() []byte {
	var cookie [wire.CookieSize]byte
	switch f.r.IntN(8) {
	case 0, 1:
		return f.connect(wire.HeaderSize+wire.ConnectSize, cookie)
	case 2, 3:
		binary.LittleEndian.PutUint64(cookie[:], f.r.Uint64()|1)
		binary.LittleEndian.PutUint64(cookie[8:], f.r.Uint64())
		return f.connect([]int{wire.HeaderSize + wire.ConnectSize, mtu}[f.r.IntN(2)], cookie)
	case 4:
		pkt := f.connect(wire.HeaderSize+wire.ConnectSize, cookie)
		pkt[0] = pkt[0]&0x0F | byte(1+f.r.IntN(15))<<4
		return pkt
	case 5:
		pkt := f.pkt[:f.r.IntN(200)]
		for i := range pkt {
			pkt[i] = byte(f.r.Uint32())
		}
		return pkt
	case 6:
		return f.alive()
	}
	// A packet of some session, with some token.
	pkt := f.pkt[:wire.HeaderSize]
	h := wire.Header{Type: wire.Type(f.r.IntN(int(wire.TypeAck) + 1)), ReqType: typeInline,
		Session: f.session(), ReqNum: f.r.Uint64N(64)}
	switch h.Type {
	case wire.TypeReq, wire.TypeResp, wire.TypeErr:
		pkt = f.pkt[:wire.HeaderSize+32]
		h.MsgSize = 32
	}
	h.Put(pkt, f.r.Uint32())
	return pkt
}

// session returns a session number that is likely to be in use, or any.
func (f *forger) session() uint32 {
	if f.r.IntN(2) == 0 {
		return f.r.Uint32N(4)
	}
	return f.r.Uint32N(wire.NoSession)
}

// connect returns a Connect of a given size.
func (f *forger) connect(size int, cookie [wire.CookieSize]byte) []byte {
	pkt := f.pkt[:size]
	clear(pkt)
	h := wire.Header{
		Type: wire.TypeMgmt, ReqType: uint8(wire.OpConnect), MsgSize: wire.ConnectSize,
		Session: wire.NoSession,
	}
	h.Put(pkt, 0)
	c := wire.Connect{
		Nonce: f.r.Uint64(), Epoch: f.r.Uint64(), Session: f.r.Uint32N(100), Token: f.r.Uint32(),
		Offer:  wire.Offer{Credits: 32, Slots: 8, Waiting: 8, MTU: mtu, MaxMessage: 1 << 20},
		Cookie: cookie,
	}
	c.Put(pkt[wire.HeaderSize:])
	wire.SealMgmt(pkt, 0)
	return pkt
}

// alive returns a packet about the life of some session: a Reset, a Disconnect, a Drain or another.
// Its checksum is right for the token that it names.
func (f *forger) alive() []byte {
	pkt := f.pkt[:wire.HeaderSize+wire.AliveSize]
	h := wire.Header{
		Type: wire.TypeMgmt, ReqType: uint8(wire.OpDisconnect) + uint8(f.r.IntN(8)),
		MsgSize: wire.AliveSize, Session: f.session(),
	}
	h.Put(pkt, 0)
	a := wire.Alive{Session: f.session(), Token: f.r.Uint32(), Seq: f.r.Uint64N(100), To: f.r.Uint32()}
	a.Put(pkt[wire.HeaderSize:])
	wire.SealMgmt(pkt, a.To)
	return pkt
}
