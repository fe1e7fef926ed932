package session

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestHoldCounts: the hold times in answers count how long nobody looked for packets and
// what the rest of the batch took, finely in response packet 0 and coarsely in CRs and
// later responses, whose try stays what it was; with checksums they still verify.
func TestHoldCounts(t *testing.T) {
	const unseen, late = 100 * time.Microsecond, 50 * time.Microsecond
	for _, checksum := range []bool{false, true} {
		p := rigParams
		p.Checksum = checksum
		r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
		r.open(0)
		op := r.op(1, 2000, 2000)
		if err := r.cl.Start(op, 0, 0, r.cout); err != nil {
			t.Fatal(err)
		}
		r.takeClient()
		for k, coarse := range []bool{true, false, true} { // CR, response packets 0 and 1
			pkt := r.c2s[k]
			h := pkt.header()
			in := Arrival{Unseen: unseen}
			if h.Type == wire.TypeRFR {
				r.sv.OnRFR(&h, &in, r.sout)
			} else {
				r.sv.OnReq(&h, pkt.raw[wire.HeaderSize:], &in, r.sout)
			}
			for _, ev := range events(r.sout) {
				if err := r.sv.Respond(ev.Slot, r.buffer(2000, 0), 0, r.sout); err != nil {
					t.Fatal(err)
				}
			}
			if !r.sout.HasAnswers() {
				t.Fatalf("answer %d is not noted", k)
			}
			r.sout.Finish(late)
			r.takeServer()
			out := r.s2c[k]
			got := time.Duration(out.header().Hold) * wire.HoldUnit
			if coarse {
				got, _ = wire.CoarseHold(out.header().Hold)
			}
			if got < unseen+late-2100 || got > unseen+late {
				t.Errorf("answer %d: hold %v, want %v", k, got, unseen+late)
			}
			if coarse && !wire.SameTry(out.header().Hold, 0) {
				t.Errorf("answer %d: the try has changed", k)
			}
			if ev := r.toClient(out); ev.Kind == 0 {
				t.Errorf("answer %d was dropped", k)
			}
		}
		giveBack(op)
		r.noLeak()
	}
}

// TestHoldOfErrors: the hold times of a refusal and of a repeated response count how long
// nobody looked for packets, too.
func TestHoldOfErrors(t *testing.T) {
	const unseen = 100 * time.Microsecond
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.refuse[2] = wire.CodeNoHandler
	in := Arrival{Now: ms, Unseen: unseen}
	refused := wire.Header{Type: wire.TypeReq, ReqType: 2, ReqNum: 8}
	r.sv.OnReq(&refused, nil, &in, r.sout)
	h := wire.Header{Type: wire.TypeReq, ReqType: 1, ReqNum: 9}
	r.sv.OnReq(&h, nil, &Arrival{}, r.sout)
	if ev := r.takeServer(); r.respond(ev.Slot, 1) != nil {
		t.Fatal("no response")
	}
	r.sv.OnReq(&h, nil, &in, r.sout)
	r.takeServer()
	if len(r.s2c) != 3 {
		t.Fatalf("%d answers, want 3", len(r.s2c))
	}
	for _, i := range []int{0, 2} {
		got := time.Duration(r.s2c[i].header().Hold) * wire.HoldUnit
		if got > unseen || got < unseen-wire.HoldUnit {
			t.Errorf("answer %d: hold %v, want %v", i, got, unseen)
		}
	}
	r.noLeak()
}
