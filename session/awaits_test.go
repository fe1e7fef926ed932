package session

import (
	"testing"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestAwaits: the client half knows its packets that have no answer by their bytes, and no others.
func TestAwaits(t *testing.T) {
	for _, checksum := range []bool{false, true} {
		p := rigParams
		p.Checksum = checksum
		r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
		awaits := func(pkt []byte) bool {
			var h wire.Header
			if err := h.Parse(pkt[:wire.HeaderSize]); err != nil {
				t.Fatal(err)
			}
			return r.cl.Awaits(&h, pkt)
		}
		lost := &wire.Header{Type: wire.TypeReq, MsgSize: 2500, Session: serverSession}
		early := make([]byte, wire.HeaderSize)
		lost.Put(early, serverToken)
		if awaits(early) {
			t.Errorf("checksum %v: a session that is not open awaits an answer", checksum)
		}
		r.open(0)
		op := r.op(1, 2500, 100)
		if err := r.cl.Start(op, 0, r.now, r.cout); err != nil {
			t.Fatal(err)
		}
		r.takeClient()
		sent := r.c2s
		if len(sent) != 3 {
			t.Fatalf("%d packets", len(sent))
		}
		for i, d := range sent {
			if !awaits(d.raw) {
				t.Errorf("checksum %v: packet %d is not known", checksum, i)
			}
			if !awaits(append(d.raw[:len(d.raw):len(d.raw)], "of the next packet"...)) {
				t.Errorf("checksum %v: packet %d is not known with others behind it", checksum, i)
			}
			old := append([]byte(nil), d.raw...)
			h := d.header()
			h.Version = wire.OldVersion
			h.Put(old, wire.Token(d.raw))
			if awaits(old) {
				t.Errorf("checksum %v: packet %d is known in another version", checksum, i)
			}
			if awaits(d.raw[:wire.HeaderSize]) == checksum {
				t.Errorf("checksum %v: the header of packet %d is known: %v", checksum, i, checksum)
			}
		}
		for at, name := range map[int]string{
			0: "of another type", 8: "of another session", 12: "with another token", 16: "of another slot",
			17: "with another number", 22: "that was not sent",
		} {
			pkt := append([]byte(nil), sent[2].raw...)
			pkt[at] ^= 1
			if at == 0 {
				pkt[at] ^= byte(wire.TypeResp) ^ 1
			}
			if checksum && at != 12 { // as the peer might damage it, and have its checksum right
				was := wire.Checksum(sent[2].raw, nil)
				wire.SetToken(pkt, wire.Token(pkt)^was^wire.Checksum(pkt, nil))
			}
			if awaits(pkt) {
				t.Errorf("checksum %v: a packet %s is known", checksum, name)
			}
		}
		r.c2s = sent[:2]
		r.pump(nil)
		for i, d := range sent {
			if awaits(d.raw) != (i == 2) {
				t.Errorf("checksum %v: packet %d is known after an answer to packet 1: %v", checksum, i, i != 2)
			}
		}
		r.closeClient(ErrPeerLost)
		if awaits(sent[2].raw) {
			t.Errorf("checksum %v: a packet of a request that has ended is known", checksum)
		}
		giveBack(op)
		r.noLeak()
	}
}

// TestAwaitsRFR: the client half knows a request for response packets by its header alone, with or
// without other bytes behind it.
func TestAwaitsRFR(t *testing.T) {
	for _, checksum := range []bool{false, true} {
		p := rigParams
		p.Checksum = checksum
		r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
		r.open(0)
		op := r.op(1, 500, 2500)
		r.start(op)
		ev := r.toServer(r.c2s[0])
		r.c2s = nil
		if err := r.respond(ev.Slot, 2500); err != nil {
			t.Fatal(err)
		}
		r.toClient(r.s2c[0])
		if len(r.c2s) != 1 || r.c2s[0].header().Type != wire.TypeRFR {
			t.Fatalf("%d packets after response packet 0", len(r.c2s))
		}
		h, raw := r.c2s[0].header(), r.c2s[0].raw
		for _, more := range []string{"", "of the next packet"} {
			if !r.cl.Awaits(&h, append(raw[:len(raw):len(raw)], more...)) {
				t.Errorf("checksum %v: an RFR is not known with %q behind it", checksum, more)
			}
		}
		r.closeClient(ErrPeerLost)
		giveBack(op)
		r.noLeak()
	}
}

// TestAwaitsAfterRollback: what was sent before a rollback is known until it is answered, though it
// has not been sent again.
func TestAwaitsAfterRollback(t *testing.T) {
	p := rigParams
	p.Credits = 3
	r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
	r.open(0)
	ops := [2]Op{r.op(1, 2500, 100), r.op(2, 2500, 100)}
	for _, op := range ops {
		if err := r.cl.Start(op, 0, r.now, r.cout); err != nil {
			t.Fatal(err)
		}
	}
	r.takeClient()
	sent := r.c2s
	r.c2s = nil
	r.cl.rollback(0, r.now, r.cout)
	r.takeClient()
	if len(sent) != 3 || len(r.c2s) != 3 || r.c2s[0].header().ReqNum == sent[0].header().ReqNum {
		t.Fatalf("%d packets, then %d", len(sent), len(r.c2s))
	}
	for i, d := range sent {
		if h := d.header(); !r.cl.Awaits(&h, d.raw) {
			t.Errorf("packet %d is not known", i)
		}
	}
	r.closeClient(ErrPeerLost)
	for _, op := range ops {
		giveBack(op)
	}
	r.noLeak()
}

// TestSuspectPath: a session that is open and has smaller packets left can be made to suspect its
// path.
func TestSuspectPath(t *testing.T) {
	p := rigParams
	p.PerPacket = 1452
	r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
	suspects := func() bool {
		r.cl.SuspectPath(5)
		since, ok := r.cl.Suspects()
		return ok && since == 5
	}
	if suspects() {
		t.Error("a session suspects before it is open")
	}
	r.open(0)
	if !suspects() {
		t.Error("a session with large packets does not suspect")
	}
	r.cl.SuspectPath(6)
	if since, _ := r.cl.Suspects(); since != 5 {
		t.Errorf("since %v", since)
	}
	for r.cl.NextSize() != 0 {
		r.cl.LowerCut(r.cl.NextSize())
	}
	r.cl.Trust()
	if suspects() {
		t.Error("a session with the smallest packets suspects")
	}
}
