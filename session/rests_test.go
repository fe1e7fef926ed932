package session

import (
	"context"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestScanAfterRest: a session whose requests all wait at their servers is not looked at. It is
// again as soon as a packet of another one, of a CANCEL or of a late answer may be lost.
func TestScanAfterRest(t *testing.T) {
	for what, tt := range map[string]struct {
		change func(r *rig)
		again  wire.Type
	}{
		"a request": {func(r *rig) { r.start(r.op(2, 10, 10)) }, wire.TypeReq},
		"a cancel":  {func(r *rig) { r.cancel(1, context.Canceled) }, wire.TypeCancel},
		"the rest of an answer": {func(r *rig) {
			if err := r.respond(0, 2500); err != nil {
				r.tb.Fatal(err)
			}
			r.takeServer()
			r.toClient(r.s2c[len(r.s2c)-1])
		}, wire.TypeRFR},
	} {
		r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
		r.now = 100 * ms
		r.open(50 * time.Microsecond)
		r.start(r.op(1, 10, 3000))
		if ev := r.toServer(r.c2s[len(r.c2s)-1]); ev.Kind != EventRequest {
			t.Fatalf("event %+v", ev)
		}
		if err := r.sv.Wait(0, r.now, r.sout); err != nil {
			t.Fatal(err)
		}
		r.takeServer()
		r.toClient(r.s2c[len(r.s2c)-1])
		if !r.cl.Resting() {
			t.Fatal("the request does not wait")
		}
		r.cl.Scan(r.now, r.cout)
		tt.change(r)
		r.c2s = nil // lost
		r.now = r.now.Add(50 * time.Millisecond)
		r.cl.Scan(r.now, r.cout)
		r.takeClient()
		sent := false
		for _, p := range r.c2s {
			p.read(t)
			sent = sent || p.header().Type == tt.again
		}
		if !sent {
			t.Errorf("%s is lost, and not sent again", what)
		}
	}
}
