package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// TestSpentKeys: when the keys of a peer are spent nothing goes to it any more but packets of
// zeros, neither messages nor pings nor the word that the session ends.
func TestSpentKeys(t *testing.T) {
	p := newFarewells(t, setup{PSK: testPSK})
	for _, peer := range p.client.assocs.watched {
		if *peer.keys = (security.Association{}); !peer.keys.Spent() {
			t.Fatal("the keys are not spent")
		}
	}
	p.client.start(p.s, 0, 3000)
	for range 20 {
		p.client.pass(100 * time.Millisecond)
	}
	p.client.closeConn(p.s)
	p.client.pass(time.Microsecond)
	for _, pkt := range p.client.end.sent {
		if !bytes.Equal(pkt.data, make([]byte, wire.HeaderSize)) {
			t.Errorf("%d bytes left: % x", len(pkt.data), pkt.data[:wire.HeaderSize])
		}
	}
	if n := len(p.client.end.sent); n < 10 {
		t.Errorf("%d packets left", n)
	}
}

// stranger is a client that begins a handshake and does not go on with it.
type stranger struct {
	addr    transport.Addr
	connect wire.Connect
}

// say has an endpoint take a Connect of a stranger, padded with the beginning of a handshake, and
// returns the operation and the body of the answer, 0 if there is none.
func (s *stranger) say(st *stub) (wire.Op, []byte) {
	st.tb.Helper()
	size := int(s.connect.Offer.MTU) + security.Overhead
	index := wire.AppendExtension(nil, wire.Extension{Type: wire.ExtIndex, Value: []byte{1, 0, 1, 0}})
	pkt := connectPkt(&s.connect, index, size)
	begun := []byte{200, 0} // the size of a message that does not come
	wire.PutChunk(pkt[wire.HeaderSize+wire.ConnectSize+len(index):], wire.ChunkCrypto, begun)
	wire.SealMgmt(pkt, 0)
	st.end.in = append(st.end.in, transport.RxPacket{Data: pkt, From: s.addr})
	st.end.sent = st.end.sent[:0]
	st.pass(time.Microsecond)
	if len(st.end.sent) == 0 {
		return 0, nil
	}
	answer := st.end.sent[0].data
	return wire.Op(answer[1]), answer[wire.HeaderSize:]
}

// begin begins a handshake from an address, and reports whether the endpoint takes part in it.
func begin(st *stub, network, port int) bool {
	st.tb.Helper()
	s := stranger{connect: wire.Connect{
		Nonce: uint64(network)<<32 | uint64(port), Epoch: 7, Session: 8, Token: 9,
		Offer: wire.Offer{
			Credits: 8, Slots: 8, MTU: 1200, MaxMessage: 1 << 20, Features: wire.FeatureSeal,
		},
	}}
	s.addr.IP[0], s.addr.IP[6], s.addr.IP[7] = 0x20, byte(network>>8), byte(network)
	s.addr.Port = uint32(port)
	st.now += monotime.Time(time.Millisecond) // budgets fill up
	op, body := s.say(st)
	if op != wire.OpChallenge {
		st.tb.Fatalf("%v in place of a challenge", op)
	}
	var ch wire.Challenge
	ch.Parse(body)
	s.connect.Cookie = ch.Cookie
	op, _ = s.say(st)
	return op == 0
}

// TestClearLeavesNot: a packet that names no association does not leave in the clear, but for those
// of handshakes, whoever queued it.
func TestClearLeavesNot(t *testing.T) {
	st := newStub(t, setup{PSK: testPSK})
	for typ := wire.TypeReq; typ <= wire.TypeBundle; typ++ {
		for op := range 32 {
			pkt := make([]byte, wire.HeaderSize+wire.ConnectSize)
			h := wire.Header{Type: typ, ReqType: uint8(op)}
			h.Put(pkt, 1)
			tx := []session.Tx{{Dst: stubAddr(1), Head: pkt}}
			st.Seal(tx)
			st.Kept(0)
			clear := false
			switch wire.Op(op) {
			case wire.OpConnect, wire.OpChallenge, wire.OpRefuse, wire.OpCrypto, wire.OpNoKeys:
				clear = typ == wire.TypeMgmt
			}
			if left := !bytes.Equal(tx[0].Head, unsealable[:]); left != clear {
				t.Errorf("%v %v left: %v", typ, wire.Op(op), left)
			}
		}
	}
}
