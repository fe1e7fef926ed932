package hostiletest

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/wire"
)

// TestFlood sends packets of strangers, each from another address, while victims call. Behind each
// burst comes a call, so that the kernel does not drop the flood before the server sees it.
func TestFlood(t *testing.T) {
	l := begin(t)
	book := newLedger()
	s := serve(l, steady(), book, nil)
	victim, _ := dial(l, "127.0.0.1:0", s.addr, steady())
	must(l, book, victim, 100)
	l.until("the session shows", func() bool { return s.stats().Sessions == 1 })
	before := s.stats()
	heap := heapInUse()

	f := newFlood(l, s.addr)
	total := l.pick(100_000, 1_000_000)
	if testing.Short() {
		total /= 4
	}
	for f.sent < total && !t.Failed() {
		for range burst {
			f.next()
		}
		must(l, book, victim, 1)
	}
	after := s.stats()
	l.Logf("%d packets from as many addresses, %d bytes; %d answers, %d bytes", f.sent, f.bytes,
		f.answers, f.answerBytes)
	l.Logf("the server: %d packets, dropped %d malformed, %d of no session, %d of wrong tokens, "+
		"%d Connects", after.RxPackets-before.RxPackets, after.DropMalformed-before.DropMalformed,
		after.DropNoSession-before.DropNoSession, after.DropToken-before.DropToken, after.DropConnects)
	if after.RxPackets-before.RxPackets < uint64(f.sent)/2 {
		t.Errorf("the server saw %d packets of %d", after.RxPackets-before.RxPackets, f.sent)
	}
	if f.answers == 0 || f.answerBytes > f.bytes {
		t.Errorf("strangers sent %d bytes and got %d in %d answers", f.bytes, f.answerBytes, f.answers)
	}
	if after.Sessions != before.Sessions || after.SessionsOpened != before.SessionsOpened {
		t.Errorf("the server has %d sessions and opened %d; before the flood: %d, %d",
			after.Sessions, after.SessionsOpened, before.Sessions, before.SessionsOpened)
	}
	if after.Memory > before.Memory {
		t.Errorf("message buffers grew from %d to %d bytes", before.Memory, after.Memory)
	}
	if now := heapInUse(); now > heap+heapSlack {
		t.Errorf("the flood made the heap grow from %d to %d bytes", heap, now)
	}
	must(l, book, victim, 100)
	shut(l, victim)
	s.stop()
	book.check(l, true)
}

// flood makes packets that strangers send.
type flood struct {
	*stranger
	r           *rand.Rand
	pkt         [1472]byte
	sent, bytes int
	answers     int
	answerBytes int
}

func newFlood(l *lab, server string) *flood {
	return &flood{stranger: newStranger(l, server), r: l.rng("flood", 0)}
}

// next sends one packet from an address that has sent none yet, and takes answers in.
func (f *flood) next() {
	pkt := f.make()
	if !f.send(pkt, addressOf(f.sent)) {
		return
	}
	f.sent++
	f.bytes += len(pkt)
	for b := f.receive(); b != nil; b = f.receive() {
		f.answers++
		f.answerBytes += len(b)
	}
}

// make returns a packet of some kind.
func (f *flood) make() []byte {
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
		pkt[0] = pkt[0]&0x0F | byte(3+f.r.IntN(13))<<4
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
	pkt := f.pkt[:wire.HeaderSize+32]
	h := wire.Header{Type: wire.Type(f.r.IntN(4)), ReqType: typeInline, Session: f.session(),
		ReqNum: f.r.Uint64N(64), MsgSize: 32}
	if h.Type == wire.TypeRFR || h.Type == wire.TypeCR {
		pkt = pkt[:wire.HeaderSize]
	}
	h.Put(pkt, f.r.Uint32())
	return pkt
}

// session returns a session number that is likely to be in use, or any.
func (f *flood) session() uint32 {
	if f.r.IntN(2) == 0 {
		return f.r.Uint32N(4)
	}
	return f.r.Uint32N(wire.NoSession)
}

// connect returns a Connect of a given size.
func (f *flood) connect(size int, cookie [wire.CookieSize]byte) []byte {
	pkt := f.pkt[:size]
	clear(pkt)
	h := wire.Header{
		Type: wire.TypeMgmt, ReqType: uint8(wire.OpConnect), MsgSize: wire.ConnectSize,
		Session: wire.NoSession,
	}
	h.Put(pkt, 0)
	c := wire.Connect{
		Nonce: f.r.Uint64(), Epoch: f.r.Uint64(), Session: f.r.Uint32N(100), Token: f.r.Uint32(),
		Offer:  wire.Offer{Credits: 32, Slots: 8, MTU: mtu, MaxMessage: 1 << 20},
		Cookie: cookie,
	}
	c.Put(pkt[wire.HeaderSize:])
	wire.SealMgmt(pkt, 0)
	return pkt
}

// alive returns a Ping, a Pong, a Reset, a Disconnect or a Moved of some session. Its checksum is
// right for the token that it names.
func (f *flood) alive() []byte {
	pkt := f.pkt[:wire.HeaderSize+wire.AliveSize]
	h := wire.Header{
		Type: wire.TypeMgmt, ReqType: uint8(wire.OpDisconnect) + uint8(f.r.IntN(6)),
		MsgSize: wire.AliveSize, Session: f.session(),
	}
	h.Put(pkt, 0)
	a := wire.Alive{Session: f.session(), Token: f.r.Uint32(), Seq: f.r.Uint64N(100), To: f.r.Uint32()}
	a.Put(pkt[wire.HeaderSize:])
	wire.SealMgmt(pkt, a.To)
	return pkt
}
