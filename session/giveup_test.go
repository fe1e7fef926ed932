package session

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestSlotRests: a slot that gave up 32,768 requests in a row without a word of the server starts
// no more. It repeats the last CANCEL, whose number the server takes. The answer ends the rest.
func TestSlotRests(t *testing.T) {
	const most = 1 << 15
	p := rigParams
	p.Slots = 1
	r := newRig(t, p, Timing{}, 1, msgbuf.Config{})
	r.open(0)
	op := r.op(1, 10, 10)
	for n := range most {
		if r.start(op); len(r.c2s) != 1 {
			t.Fatalf("the slot rests after %d requests", n)
		}
		if !r.cancel(op.Ref, errCancelled) || len(r.failed) != 1 {
			t.Fatalf("request %d does not end: %+v", n, r.failed)
		}
		r.c2s, r.failed = r.c2s[:0], r.failed[:0] // all packets are lost
	}
	r.start(op)
	if busy, queued := r.cl.Pending(); busy != 0 || queued != 1 || len(r.c2s) != 0 {
		t.Fatalf("after %d requests %d are under way, and %d wait", most, busy, queued)
	}
	r.now = r.now.Add(time.Second)
	r.cl.Scan(r.now, r.cout)
	r.takeClient()
	if len(r.c2s) != 1 || r.c2s[0].header().Type != wire.TypeCancel {
		t.Fatalf("%d packets while the slot rests", len(r.c2s))
	}
	if n := r.c2s[0].header().ReqNum; n != most {
		t.Errorf("the CANCEL is for request %d", n)
	}
	r.pump(func(uint8) int { return 10 })
	if len(r.ended) != 1 || r.ended[0].Kind != EventDone || r.sst.DropFuture != 0 {
		t.Errorf("after the rest: %+v, %d packets too far ahead", r.ended, r.sst.DropFuture)
	}
	giveBack(op)
	r.noLeak()
}
