package erpc_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// wrong is one thing that is wrong with a packet whose number and token are those of a living
// session. The rest is right.
type wrong uint8

const (
	wrongNothing     wrong = iota
	wrongAddress           // it comes from elsewhere
	wrongSeal              // in the clear where packets are sealed, and the other way round
	wrongSize              // cut short, or longer than it says
	wrongAssociation       // sealed by other keys of the same two endpoints
	wrongLoop              // for another loop
	numWrongs
)

// String names what is wrong.
func (w wrong) String() string {
	return []string{"nothing", "address", "seal", "size", "association", "loop"}[w]
}

// spoiled makes one thing of an aimed packet wrong, and returns the datagram and where it comes
// from, nil for the peer's address. Own and other are sessions of the sender by two associations,
// nil where nothing is sealed. Amount says how wrong a size is.
func spoiled(
	w wrong, pkt []byte, own, other *erpc.Session, elsewhere *transport.Addr, amount int,
) (datagram []byte, from *transport.Addr) {
	sealing := own
	switch w {
	case wrongAddress:
		from = elsewhere
	case wrongSeal:
		if own == nil {
			return append(wire.AppendSealed(nil, 1<<20, wire.SealedField(pkt)), pkt[12:]...), nil
		}
		return pkt, nil
	case wrongSize:
		if wire.Type(pkt[0]&15) != wire.TypeMgmt && amount < 0 { // others may be padded
			pkt = append(pkt, make([]byte, -amount)...)
		} else {
			pkt = pkt[:len(pkt)-min(max(amount, 1), len(pkt))]
		}
	case wrongAssociation:
		sealing = other
	case wrongLoop:
		mgmt, token := wire.Type(pkt[0]&15) == wire.TypeMgmt, wire.OpenMgmt(bytes.Clone(pkt))
		pkt[11] ^= 0x40 // of the number, see wire.FirstOf
		if mgmt {
			wire.SealMgmt(pkt, token)
		}
	}
	if sealing != nil {
		return sealing.Sealed(pkt), from
	}
	return pkt, from
}

// TestRightToken: packets of all kinds with the number and the token of a living session, of which
// one other thing is wrong, end no session and run no handler. If the association is wrong, or they
// are in the clear where others are sealed, they draw nothing and count as nothing but refused. If
// nothing is wrong they do what they say.
func TestRightToken(t *testing.T) {
	configs := restartConfigs()
	configs["plain"] = erpc.Config{}
	for name, cfg := range configs {
		for w := range numWrongs {
			if name == "plain" && w == wrongAssociation || name != "plain" && w == wrongAddress {
				continue // there is one; or nothing is wrong: the client may have moved
			}
			t.Run(fmt.Sprint(name, " ", w), func(t *testing.T) { rightToken(t, cfg, w) })
		}
	}
}

func rightToken(t *testing.T, cfg erpc.Config, w wrong) {
	p := newErrPairOn(t, newMemNet(), cfg)
	ran := 0
	var served *erpc.Session
	p.hold = func(h erpc.ReqHandle) {
		served = h.Session()
		ran++
		_ = h.RespondBytes(h.Data())
	}
	is(t, "a call", p.call(tHold, 10).err, nil)
	var own, others [2]*erpc.Session // of the client and the server, if packets are sealed
	if sess := p.sess; sess.State() != nil {
		own = [2]*erpc.Session{sess, served}
		s, err := p.client.CreateNamed(p.send.addr, "other.test")
		is(t, "a session", err, nil)
		p.until(func() bool { return s.Connected() || s.Err() != nil })
		p.sess = s
		is(t, "a call", p.call(tHold, 10).err, nil)
		others = [2]*erpc.Session{s, served}
		p.sess = sess
	}
	elsewhere := p.net.end(true).addr
	var r reader
	r.know(p.sess)
	before := ran
	for to, end := range []*memEnd{p.send, p.cend} {
		rpc, from := p.server, p.cend.addr
		if to == 1 {
			rpc, from = p.client, p.send.addr
		}
		silent := w == wrongAssociation || w == wrongSeal
		for _, amount := range []int{1, 24, -1, -100} {
			for _, pkt := range kindsOf() {
				r.aim(pkt, to)
				datagram, at := spoiled(w, bytes.Clone(pkt), own[to], others[to], &elsewhere, amount)
				if at == nil {
					at = &from
				}
				had := harmless(rpc.Counters())
				end.put(datagram, nil, at)
				p.run(rpc)
				if silent && harmless(rpc.Counters()) != had {
					t.Errorf("% x to end %d: something happened", pkt[:wire.HeaderSize], to)
				}
			}
			if p.pass(5); w != wrongSize {
				break
			}
		}
	}
	if w == wrongNothing {
		if ran == before || p.server.Served(p.sess) != nil {
			t.Errorf("%d handlers ran, the server's session: %v", ran-before, served.Err())
		}
		p.close()
		return
	}
	if ran != before {
		t.Errorf("%d handlers ran", ran-before)
	}
	is(t, "the session", p.sess.Err(), nil)
	is(t, "a call", p.call(tHold, 10).err, nil)
	p.close()
}

// kindsOf returns packets of all types and operations: those of an unused slot, and of a session's
// life.
func kindsOf() (list [][]byte) {
	for typ := wire.TypeReq; typ <= wire.TypeAck; typ++ {
		h, n := wire.Header{Type: typ, ReqType: tHold, ReqNum: 5}, 0
		switch typ {
		case wire.TypeMgmt, wire.TypeBundle, wire.TypeSealed:
			continue
		case wire.TypeReq, wire.TypeResp:
			h.MsgSize, n = 40, 40
		case wire.TypeErr:
			h.MsgSize, n = 8, 8
		}
		pkt := make([]byte, wire.HeaderSize+n)
		if typ == wire.TypeErr {
			copy(pkt[wire.HeaderSize:], wire.AppendError(nil, &wire.Error{
				Status: wire.StatusUnknown, Code: wire.CodeApplication}))
		}
		h.Put(pkt, 0)
		list = append(list, pkt)
	}
	for op := wire.OpConnect; op <= wire.OpNoKeys; op++ {
		list = append(list, mgmtPacket(op, minBody(op)))
	}
	return list
}
