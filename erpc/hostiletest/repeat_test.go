package hostiletest

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/wire"
)

// TestRepeats has one client that sends what was answered again and again: requests of one packet
// and of many, requests for responses, with all tries, newer and older than what its slots hold,
// and words about them.
// Nothing runs twice, and the calls of others beside it are answered.
func TestRepeats(t *testing.T) {
	l := begin(t)
	book := newLedger()
	s := serve(l, steady(), book, nil)
	victim, _ := dial(l, "127.0.0.1:0", s.addr, steady())
	a := newRepeater(l, s.addr)
	a.open()
	before := heapInUse()
	for end := time.Now().Add(l.span()); time.Now().Before(end) && !t.Failed(); {
		a.ask(book)
		for range l.pick(10, 50) {
			a.again(burst)
			must(l, book, victim, 1)
		}
	}
	st := s.stats()
	l.Logf("%d requests, %d packets asked for again, %d answers; the server: %+v", a.next, a.repeats,
		a.answers, st.Protocol)
	if st.Protocol.DropPast == 0 || st.Protocol.DropRepeat == 0 || st.Sessions != 2 {
		t.Errorf("the server has %d sessions and %+v", st.Sessions, st.Protocol)
	}
	if a.answers > a.repeats+a.firsts {
		t.Errorf("%d answers to %d packets", a.answers, a.repeats+a.firsts)
	}
	if now := heapInUse(); now > before+heapSlack+socketMemory {
		t.Errorf("the repeats made the heap grow from %d to %d bytes", before, now)
	}
	shut(l, victim)
	s.stop()
	a.close()
	book.check(l, true)
}

// repeater is a client that speaks the protocol by itself.
type repeater struct {
	l      *lab
	r      *rand.Rand
	conn   *net.UDPConn
	server netip.AddrPort
	peer   wire.Accept
	b      [1 << 16]byte

	requests                 [][][]byte // packets of the last ones
	next                     uint64     // request number
	firsts, repeats, answers int        // packets: sent, asked for again, received
	numReq, numResp          int        // packets of the last request and of its response
}

func newRepeater(l *lab, server string) *repeater {
	l.Helper()
	return &repeater{
		l: l, r: l.rng("repeater", 0), conn: socket(l), server: netip.MustParseAddrPort(server),
	}
}

func (a *repeater) close() { _ = a.conn.Close() }

func (a *repeater) send(pkt []byte) {
	a.l.Helper()
	if _, err := a.conn.WriteToUDPAddrPort(pkt, a.server); err != nil {
		a.l.Fatal(err)
	}
}

// receive returns the next packet that has come, false after a time without one.
func (a *repeater) receive(within time.Duration) (h wire.Header, body []byte, ok bool) {
	_ = a.conn.SetReadDeadline(time.Now().Add(within))
	n, _, err := a.conn.ReadFromUDPAddrPort(a.b[:])
	if err != nil || h.Parse(a.b[:n]) != nil {
		return h, nil, false
	}
	return h, a.b[wire.HeaderSize:n], true
}

// open opens a session as an honest client does.
func (a *repeater) open() {
	a.l.Helper()
	c := wire.Connect{
		Nonce: a.r.Uint64(), Epoch: a.r.Uint64(), Session: 1, Token: a.r.Uint32(),
		Offer: wire.Offer{Credits: 32, Slots: 8, Waiting: 8, MTU: mtu, MaxMessage: 1 << 20},
	}
	for a.peer.Token == 0 {
		pkt := make([]byte, mtu)
		if c.Cookie == [wire.CookieSize]byte{} {
			pkt = pkt[:wire.HeaderSize+wire.ConnectSize]
		}
		h := wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpConnect), MsgSize: wire.ConnectSize,
			Session: wire.NoSession}
		h.Put(pkt, 0)
		c.Put(pkt[wire.HeaderSize:])
		wire.SealMgmt(pkt, 0)
		a.send(pkt)
		h, body, ok := a.receive(time.Second)
		switch {
		case !ok || h.Type != wire.TypeMgmt:
		case wire.Op(h.ReqType) == wire.OpChallenge:
			var ch wire.Challenge
			ch.Parse(body)
			c.Cookie = ch.Cookie
		case wire.Op(h.ReqType) == wire.OpAccept:
			a.peer.Parse(body)
		default:
			a.l.Fatalf("the server says %v", wire.Op(h.ReqType))
		}
	}
}

// ask makes a new request, of one packet or of some, and waits until it was answered.
func (a *repeater) ask(book *ledger) {
	a.l.Helper()
	id := book.next()
	size := a.r.IntN(200)
	if a.r.IntN(2) == 0 {
		size = a.r.IntN(10_000)
	}
	req := request(id, size, 10_000)
	const per = mtu - wire.HeaderSize
	h := wire.Header{ReqType: uint8(typeWorker + a.r.IntN(2)), MsgSize: uint32(len(req)),
		Session: a.peer.Session, ReqNum: uint64(a.peer.Offer.Slots) + a.next}
	a.next++
	var pkts [][]byte
	for ; len(req) > 0; req = req[min(per, len(req)):] {
		pkt := make([]byte, wire.HeaderSize, mtu)
		h.Put(pkt, a.peer.Token)
		pkts = append(pkts, append(pkt, req[:min(per, len(req))]...))
		h.PktNum++
	}
	a.numReq = len(pkts)
	for try := 0; ; try++ {
		if try == int(patience/time.Second) {
			a.l.Fatalf("seed %d: request %d has no answer", a.l.seed, h.ReqNum)
		}
		for range 1 + a.r.IntN(3) { // again before there is an answer
			for _, pkt := range pkts {
				a.send(pkt)
				a.firsts++
			}
		}
		if a.answered(h.ReqNum) {
			break
		}
	}
	book.ended(id, answered, nil, "")
	if a.requests = append(a.requests, pkts); len(a.requests) > 64 {
		a.requests = a.requests[1:]
	}
}

// answered waits for response packet 0 of a request, of which it learns how many there are.
func (a *repeater) answered(num uint64) bool {
	for {
		h, _, ok := a.receive(time.Second)
		if !ok {
			return false
		}
		a.answers++
		if h.Type == wire.TypeErr && h.ReqNum == num {
			a.numResp = 1
			return true
		}
		if h.Type == wire.TypeResp && h.ReqNum == num && int(h.PktNum) == a.numReq-1 {
			a.numResp = 1 + max(0, int(h.MsgSize)-1)/(mtu-wire.HeaderSize)
			return true
		}
	}
}

// again sends n packets that were answered, and takes answers in.
func (a *repeater) again(n int) {
	a.l.Helper()
	for range n {
		pkts := a.requests[len(a.requests)-1] // the last request; in its slot
		if a.r.IntN(4) == 0 {
			pkts = a.requests[a.r.IntN(len(a.requests))]
		}
		pkt := pkts[a.r.IntN(len(pkts))]
		if a.r.IntN(3) == 0 {
			more := a.r.IntN(4)
			pkt = a.rfr(pkts[0], uint32(more))
			a.repeats += more
		}
		if a.r.IntN(8) == 0 {
			pkt = a.word(pkts[0])
		}
		if a.r.IntN(4) != 0 {
			wire.SetHold(pkt, wire.TryHold(uint16(a.r.IntN(64)), 0))
		}
		a.send(pkt)
		a.repeats++
	}
	for {
		if _, _, ok := a.receive(time.Millisecond); !ok {
			return
		}
		a.answers++
	}
}

// rfr returns a request for a response packet, and some more, of the request that begins with pkt.
// It is right if that was the last request.
func (a *repeater) rfr(pkt []byte, more uint32) []byte {
	h := wire.Header{
		Type: wire.TypeRFR, ReqType: pkt[1], MsgSize: more, Session: a.peer.Session,
		ReqNum: binary.LittleEndian.Uint64(pkt[16:]) & wire.MaxReqNum,
		PktNum: uint32(a.numReq + a.r.IntN(max(1, a.numResp))),
	}
	b := make([]byte, wire.HeaderSize)
	h.Put(b, a.peer.Token)
	return b
}

// word returns a packet without data that says something of the request that begins with pkt: that
// it is given up, or that its late answer has come.
func (a *repeater) word(pkt []byte) []byte {
	h := wire.Header{
		Type: wire.TypeCancel, ReqType: pkt[1], Session: a.peer.Session,
		ReqNum: binary.LittleEndian.Uint64(pkt[16:]) & wire.MaxReqNum,
	}
	if a.r.IntN(2) == 0 {
		h.Type, h.PktNum = wire.TypeAck, uint32(a.numReq-1)
	}
	b := make([]byte, wire.HeaderSize)
	h.Put(b, a.peer.Token)
	return b
}
