package hostiletest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/wire"
)

// TestRightToken sends packets with the number and the token of living sessions, read from the
// network, of which one other thing is wrong: the address, the size, the loop, or that they look
// sealed. All calls are answered, and no session ends.
func TestRightToken(t *testing.T) {
	l := begin(t)
	book := newLedger()
	cfg := steady()
	cfg.Checksum, cfg.NoBundles = true, true // so that packets have tokens
	s := serve(l, cfg, book, nil)
	n := newNetwork(l, s.addr, rules{checksum: true})
	clients := make([]*erpc.Client, 3)
	for i := range clients {
		clients[i], _ = dial(l, "127.0.0.1:0", n.addr(), cfg)
		must(l, book, clients[i], 1)
	}
	r := l.rng("token", 0)
	sent := map[string]int{}
	for range l.pick(100, 10_000) {
		for range burst {
			dir := r.IntN(2)
			pkt, f := n.recall(dir, r, nil)
			if len(pkt) < wire.HeaderSize || wire.Type(pkt[0]&15) == wire.TypeMgmt &&
				wire.Op(pkt[1]) <= wire.OpRefuse {
				continue // of an opening
			}
			what, from := almost(r, pkt, f)
			for from == nil {
				if from = n.another(r); from == f {
					from = nil
				}
			}
			from.pass(dir, what.pkt)
			sent[what.wrong]++
		}
		for _, c := range clients {
			must(l, book, c, 1)
		}
		if t.Failed() {
			break
		}
	}
	st := s.stats()
	l.Logf("%v; the server: %d of wrong tokens, %d of no session, %d malformed", sent, st.DropToken,
		st.DropNoSession, st.DropMalformed)
	if st.SessionsOpened != uint64(len(clients)) || st.SessionsEnded != 0 || len(sent) != 4 {
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

// spoiled is a packet with its token, and what is wrong with it.
type spoiled struct {
	wrong string
	pkt   []byte
}

// almost makes one of a packet about the life of a session, or of a request, for the session of
// which a packet was read in a flow. It returns the flow that it goes by, nil for any other.
func almost(r *rand.Rand, read []byte, f *flow) (spoiled, *flow) {
	token := wire.OpenMgmt(bytes.Clone(read)) // those of requests have their checksum in it, too
	pkt := make([]byte, wire.HeaderSize+wire.AliveSize)
	h := wire.Header{Type: wire.TypeReq, ReqType: typeInline, MsgSize: wire.AliveSize,
		Session: binary.LittleEndian.Uint32(read[8:]), ReqNum: r.Uint64N(64)}
	if r.IntN(3) > 0 {
		h.Type, h.ReqNum = wire.TypeMgmt, 0
		h.ReqType = uint8(wire.OpDisconnect) + uint8(r.IntN(int(wire.OpNoKeys-wire.OpDisconnect)+1))
	}
	if h.Session == wire.NoSession {
		h.Session = 0
	}
	h.Put(pkt, 0)
	a := wire.Alive{Session: r.Uint32N(4), Token: r.Uint32(), Seq: r.Uint64N(100), To: token}
	a.Put(pkt[wire.HeaderSize:])
	switch r.IntN(4) {
	case 0:
		wire.SealMgmt(pkt, token)
		return spoiled{"address", pkt}, nil
	case 1:
		pkt = pkt[:wire.HeaderSize+r.IntN(wire.AliveSize)]
		wire.SealMgmt(pkt, token)
		if h.Type != wire.TypeMgmt {
			pkt = append(pkt, make([]byte, wire.AliveSize)...) // a checksum of other bytes
		}
		return spoiled{"size", pkt}, f
	case 2:
		pkt[11] |= byte(1 + r.IntN(127))
		wire.SealMgmt(pkt, token)
		return spoiled{"loop", pkt}, f
	}
	wire.SealMgmt(pkt, token)
	copy(pkt, wire.AppendSealed(nil, r.Uint64N(100), h.Session))
	return spoiled{"seal", pkt}, f
}
