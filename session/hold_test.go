package session

import (
	"testing"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestHoldCounts: the hold times in answers count how long nobody looked for packets and
// what the rest of the batch took, finely in response packet 0 and coarsely in CRs and
// later responses, whose try stays what it was; with checksums they still verify.
func TestHoldCounts(t *testing.T) {
	const blind, late = 100_000, 50_000
	for _, checksum := range []bool{false, true} {
		p := rigParams
		p.Checksum = checksum
		r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
		r.open(0)
		op := r.op(1, 2000, 2000)
		if err := r.cl.Start(op, 0, r.cout); err != nil {
			t.Fatal(err)
		}
		r.takeClient()
		for k, coarse := range []bool{true, false, true} { // CR, response packets 0 and 1
			in := r.c2s[k]
			h := in.header()
			r.sout.Blind = blind
			if h.Type == wire.TypeRFR {
				r.sv.OnRFR(&h, false, 0, r.sout)
			} else if ev := r.sv.OnReq(&h, in.raw[wire.HeaderSize:], false, 0, r.sout); ev.Kind == EventRequest {
				buf := r.buffer(2000, 0)
				if err := r.sv.Respond(ev.Slot, buf, 0, r.sout); err != nil {
					t.Fatal(err)
				}
			}
			if !r.sout.HasAnswers() {
				t.Fatalf("answer %d is not noted", k)
			}
			r.sout.Delayed(late)
			r.takeServer()
			out := r.s2c[k]
			got := int64(out.header().Hold) * wire.HoldUnit
			if coarse {
				got, _ = wire.CoarseHold(out.header().Hold)
			}
			if got < blind+late-2100 || got > blind+late {
				t.Errorf("answer %d: hold %d ns, want %d", k, got, blind+late)
			}
			if coarse && !wire.SameTry(out.header().Hold, 0) {
				t.Errorf("answer %d: the try has changed", k)
			}
			if ev := r.toClient(out); ev.Kind == EventNone {
				t.Errorf("answer %d was dropped", k)
			}
		}
		giveBack(op)
		r.noLeak()
	}
}
