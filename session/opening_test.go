package session

import (
	"bytes"
	"errors"
	"testing"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// TestOpen: a session opens on an association as it does by Connects, whatever is lost, comes
// twice, or is larger than the path carries; but for the first Connect all of it names the
// association.
func TestOpen(t *testing.T) {
	for lost := -1; lost < 4; lost++ {
		r := newDialRig(t)
		r.via, r.copies = 9, 1+(lost+1)&1
		r.drop = func(i int, _ bool, _ dgram) bool { return i == lost }
		r.run()
		r.wantOpen(9000)
		if lost < 0 && (r.sent != 4 || r.rtt != 2*r.delay) {
			t.Errorf("%d packets, RTT %d ns", r.sent, r.rtt)
		}
	}
	for _, c := range []struct{ path, want int }{{9000, 9000}, {8999, 1452}, {1451, 1232},
		{MinMTU, MinMTU}} {
		r := newDialRig(t)
		r.via = 9
		r.drop = func(_ int, _ bool, p dgram) bool { return len(p.raw) > c.path }
		r.run()
		r.wantOpen(c.want)
	}
	r := newDialRig(t)
	r.via, r.a.refuse = 9, wire.CodeExhausted
	if r.run(); !errors.Is(r.err, ErrExhausted) {
		t.Error(r.err)
	}
}

// TestOpenBody: an Open says what the Connect says, without a cookie and without extensions, and
// proves the path's MTU; the datagram grows by the overhead when it is sealed, not before.
func TestOpenBody(t *testing.T) {
	r := newDialRig(t)
	r.d.Overhead, r.d.Ext = 28, []byte("extension")
	r.d.Pad = func([]byte) { t.Error("the beginning of a handshake, too") }
	r.d.Connect.Cookie[3] = 1
	r.d.Open(9, 0, r.cout)
	pkt := flatten(r.cout.Tx[0])
	op, h, body := mgmt(t, pkt, 0)
	var c wire.Connect
	c.Parse(body)
	want := wire.Connect{Nonce: 77, Epoch: 3, Session: clientSession, Token: clientToken,
		Offer: clientOffer}
	if op != wire.OpOpen || h.MsgSize != wire.ConnectSize || c != want ||
		len(pkt.raw) != int(clientOffer.MTU) || r.cout.Tx[0].Via != 9 {
		t.Errorf("%v of %d bytes by %d: %+v", op, len(pkt.raw), r.cout.Tx[0].Via, c)
	}
	for _, b := range body[wire.ConnectSize:] {
		if b != 0 {
			t.Fatal("something in the padding")
		}
	}
}

// TestConnectExtensions: both Connects carry the extensions, as part of the body; the padding is
// what is behind them, and only that of the second is written.
func TestConnectExtensions(t *testing.T) {
	r := newDialRig(t)
	r.d.Overhead = 28
	r.d.Ext = wire.AppendExtension(nil, wire.Extension{Type: 1, Value: []byte("four")})
	var padding []byte
	r.d.Pad = func(p []byte) { padding = p; p[0] = 0xAA }
	least := wire.HeaderSize + wire.ConnectSize + len(r.d.Ext)
	if err := r.d.Tick(0, r.cout); err != nil || padding != nil {
		t.Fatal("the first Connect has a padding", err)
	}
	r.d.OnChallenge(&wire.Challenge{Nonce: 77, Cookie: [16]byte{1}}, 0, r.cout)
	for i, size := range []int{least, int(clientOffer.MTU) + 28} {
		pkt := flatten(r.cout.Tx[i])
		op, h, body := mgmt(t, pkt, 0)
		if op != wire.OpConnect || r.cout.Tx[i].Via != 0 || len(pkt.raw) != size ||
			!bytes.Equal(body[wire.ConnectSize:h.MsgSize], r.d.Ext) {
			t.Errorf("%v of %d bytes by %d: % x", op, len(pkt.raw), r.cout.Tx[i].Via, body[:h.MsgSize])
		}
	}
	last := r.cout.Tx[1].Head
	if len(padding) != len(last)-least || last[least] != 0xAA {
		t.Errorf("a padding of %d bytes behind %d of %d", len(padding), least, len(last))
	}
}

// TestRestart: a dialer that begins anew is another attempt: with a nonce of its own, by a first
// Connect at once, of the size that was offered first; answers to the old one are not taken. Its
// time is not longer for it.
func TestRestart(t *testing.T) {
	r := newDialRig(t)
	r.d.Open(9, 0, r.cout)
	for r.d.Connect.Offer.MTU == clientOffer.MTU {
		if err := r.d.Tick(r.d.NextAt(), r.cout); err != nil {
			t.Fatal(err)
		}
	}
	now := monotime.Time(100 * ms)
	r.d.Restart(78, now)
	r.cout.Reset()
	if err := r.d.Tick(now, r.cout); err != nil || len(r.cout.Tx) != 1 {
		t.Fatal(len(r.cout.Tx), err)
	}
	op, _, body := mgmt(t, flatten(r.cout.Tx[0]), 0)
	var c wire.Connect
	c.Parse(body)
	if op != wire.OpConnect || r.cout.Tx[0].Via != 0 || c.Nonce != 78 || c.Offer != clientOffer ||
		c.Cookie != [wire.CookieSize]byte{} {
		t.Errorf("%v by %d: %+v", op, r.cout.Tx[0].Via, c)
	}
	r.d.OnChallenge(&wire.Challenge{Nonce: 77, Cookie: [16]byte{1}}, now, r.cout)
	if _, _, ok, _ := r.d.OnAccept(&wire.Accept{Nonce: 77, Offer: clientOffer}, now); ok ||
		len(r.cout.Tx) != 1 {
		t.Error("an answer to the attempt before was taken")
	}
	if err := r.d.Tick(3000*ms, r.cout); !errors.Is(err, ErrTimeout) {
		t.Error(err)
	}
}

// TestNamesVia: a packet that an association opened is its sessions', wherever it came from, and no
// other's; one in the clear is no session's that has an association.
func TestNamesVia(t *testing.T) {
	other := packet.Addr{Port: 99}
	for _, c := range []struct {
		via  uint32 // of the session
		by   uint32 // that opened the packet
		from packet.Addr
		want bool
	}{
		{9, 9, serverHost, true}, {9, 9, other, true}, {9, 8, serverHost, false},
		{9, 0, serverHost, false}, {0, 9, serverHost, false}, {0, 0, serverHost, true},
		{0, 0, other, false},
	} {
		e := clientEnd()
		e.Via = c.via
		if got := e.Names(clientToken, &c.from, c.by); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		if e.Names(clientToken+1, &c.from, c.by) {
			t.Errorf("%+v: another token", c)
		}
	}
}

// TestVia: whatever a session sends says which association seals it: data, alone and in bundles,
// control packets, and those about its life.
func TestVia(t *testing.T) {
	pool, err := msgbuf.NewPool(msgbuf.Config{})
	if err != nil {
		t.Fatal(err)
	}
	buf, err := pool.Alloc(4)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Free()
	for name, send := range map[string]func(e *End, out *Out){
		"control": func(e *End, out *Out) { e.sendControl(out, &wire.Header{Type: wire.TypeRFR}) },
		"data": func(e *End, out *Out) {
			h := wire.Header{Type: wire.TypeReq, MsgSize: 4}
			e.send(out, &h, make([]byte, wire.HeaderSize), []byte("four"))
		},
		"whole": func(e *End, out *Out) {
			e.PerPacket = 1000
			e.sendWhole(out, wire.TypeReq, 7, 3, 8, buf)
		},
		"bundle": func(e *End, out *Out) {
			l := NewLink(1400)
			e.SetLink(&l)
			e.sendControl(out, &wire.Header{Type: wire.TypeRFR})
			e.sendControl(out, &wire.Header{Type: wire.TypeRFR, PktNum: 2})
			out.Finish(0)
		},
		"ping":       func(e *End, out *Out) { new(Liveness).Probe(e, 1, 0, out) },
		"pong":       func(e *End, out *Out) { new(Liveness).Pong(e, 1, 0, out) },
		"disconnect": func(e *End, out *Out) { new(Liveness).Disconnect(e, nil, out) },
		"farewell":   func(e *End, out *Out) { new(Liveness).Farewell(e, nil, out) },
		"drain":      func(e *End, out *Out) { new(Liveness).Drain(e, nil, out) },
		"answer": func(e *End, out *Out) {
			Answer(&e.Peer, e.Via, wire.Version, wire.OpReset, &wire.Alive{}, out)
		},
	} {
		for _, via := range []uint32{0, 9} {
			e, out := clientEnd(), NewOut(4, false)
			e.Via = via
			if send(e, out); len(out.Tx) != 1 || out.Tx[0].Via != via || out.Tx[0].Dst != serverHost {
				t.Errorf("%s by %d: %+v", name, via, out.Tx)
			}
		}
	}
}

// TestBare: a ping of no session and its answer have the number, name nobody, and are as small as
// can be: who copies a packet makes this side send it to any address.
func TestBare(t *testing.T) {
	for op, send := range map[wire.Op]func(*packet.Addr, uint32, uint64, *Out){
		wire.OpPing: PingAt, wire.OpPong: AnswerBare,
	} {
		out := NewOut(4, false)
		send(&clientHost, 9, 0x1122334455667788, out)
		got, h, body := mgmt(t, flatten(out.Tx[0]), 0)
		var a wire.Alive
		a.Parse(body)
		if got != op || h.Session != wire.NoSession || out.Tx[0].Via != 9 ||
			out.Tx[0].Dst != clientHost || len(out.Tx[0].Head) != wire.HeaderSize+wire.AliveSize ||
			a != (wire.Alive{Session: wire.NoSession, Seq: 0x1122334455667788}) {
			t.Errorf("%v by %d: %+v, %+v", got, out.Tx[0].Via, h, a)
		}
	}
}
