package session

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestHeldSlot: while nothing is heard of a request that was given up its slot takes no other one,
// the CANCEL is repeated, and the server owes an answer. Once it has said that the handler runs it
// owes none, and nothing is overdue soon. When the handler has ended the next request starts.
func TestHeldSlot(t *testing.T) {
	p := rigParams
	p.Slots = 1
	r := newRig(t, p, Timing{}, 1, msgbuf.Config{})
	r.open(0)
	first, second := r.op(1, 10, 10), r.op(2, 10, 10)
	r.start(first)
	r.toServer(r.c2s[0])
	r.c2s = r.c2s[:0]
	began := r.now
	if !r.cancel(first.Ref, errCancelled) || len(r.failed) != 1 {
		t.Fatalf("the request does not end: %+v", r.failed)
	}
	r.failed = r.failed[:0]
	r.start(second)
	state := func(what string, owes, resting bool) {
		t.Helper()
		since, _, ok := r.cl.Owed()
		if ok != owes || ok && since != began || r.cl.Resting() != resting || r.cl.Idle() {
			t.Errorf("%s: owed %v since %v, resting %v, idle %v", what, ok, since, r.cl.Resting(),
				r.cl.Idle())
		}
		if busy, queued := r.cl.Pending(); busy != 0 || queued != 1 || r.cl.Held() != 1 {
			t.Errorf("%s: %d are under way, %d wait, %d slots are held", what, busy, queued, r.cl.Held())
		}
	}
	for n := range 6 {
		state("unheard", true, false)
		if len(r.c2s) != 1 || r.c2s[0].header().Type != wire.TypeCancel {
			t.Fatalf("%d packets", len(r.c2s))
		}
		if n == 5 {
			break
		}
		r.c2s = r.c2s[:0] // it is lost
		r.now = r.now.Add(2 * time.Second)
		if retries := r.cl.Scan(r.now, r.cout); int(retries) != n+1 {
			t.Errorf("the CANCEL was repeated %d times, and %d are counted", n+1, retries)
		}
		r.takeClient()
	}
	r.pump(nil)
	state("the handler runs", false, true)
	if err := r.respond(0, 10); err != nil {
		t.Fatal(err)
	}
	r.pump(func(uint8) int { return 10 })
	if len(r.ended) != 1 || r.ended[0].Kind != EventDone || r.cl.Held() != 0 || !r.cl.Idle() {
		t.Errorf("after its end: %+v, %d slots are held", r.ended, r.cl.Held())
	}
	giveBack(first)
	giveBack(second)
	r.noLeak()
}
