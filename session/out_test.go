package session

import (
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// request gives the server a request of one packet and leaves the outcomes in sout.
func (r *rig) request(num uint64) {
	h := wire.Header{Type: wire.TypeReq, ReqType: 1, MsgSize: 1, ReqNum: num}
	r.sv.OnReq(&h, []byte{1}, r.arrival(), r.sout)
}

// respondLarge answers a new request with two packets, which the transport takes.
func (r *rig) respondLarge(num uint64) {
	r.tb.Helper()
	r.request(num)
	if ev := r.takeServer(); ev.Kind != EventRequest {
		r.tb.Fatalf("request %d: event %+v", num, ev)
	} else if err := r.respond(ev.Slot, r.params.PerPacket+1); err != nil {
		r.tb.Fatal(err)
	}
	h := wire.Header{Type: wire.TypeRFR, ReqType: 1, ReqNum: num, PktNum: 1}
	r.sv.OnRFR(&h, r.arrival(), r.sout)
	r.takeServer()
}

// want compares the outcomes that wait in out.
func want(t *testing.T, what string, out *Out, ks ...EventKind) {
	t.Helper()
	if got := kinds(out); !slices.Equal(got, ks) {
		t.Errorf("%s: outcomes %v, want %v", what, got, ks)
	}
}

// wantInUse compares the number of buffers that are not in the pool.
func (r *rig) wantInUse(what string, n int) {
	r.tb.Helper()
	if got := r.inUse(); got != n {
		r.tb.Errorf("%s: %d buffers in use, want %d", what, got, n)
	}
}

// TestNext: outcomes come in their order. A flush that is still to come stands for later ones;
// one that was taken does not.
func TestNext(t *testing.T) {
	out := NewOut(4, true)
	if out.Next() != nil {
		t.Fatal("an outcome of nothing")
	}
	out.Flush()
	out.Flush()
	want(t, "asked twice", out, EventFlush)
	out.add(EventPace)
	out.Flush()
	out.Flush()
	want(t, "asked twice behind another outcome", out, EventPace, EventFlush)
	for range 100 { // in the same memory
		out.add(EventPace).Session = 3
		out.Flush()
		out.add(EventOpened).Session = 4
		out.Flush()
		evs := events(out)
		if len(evs) != 3 || evs[0].Session != 3 || evs[1].Kind != EventFlush || evs[2].Session != 4 {
			t.Fatalf("outcomes %+v", evs)
		}
		out.Flush()
		want(t, "asked again", out, EventFlush)
	}
	if n := cap(out.more); n > 8 {
		t.Errorf("room for %d outcomes, never more than 3", n)
	}
	out.Flush()
	out.add(EventPace)
	if ev := out.Next(); ev == nil || ev.Kind != EventFlush {
		t.Fatalf("outcome %+v", ev)
	}
	out.Flush()
	out.add(EventClosed)
	want(t, "asked while outcomes wait", out, EventPace, EventFlush, EventClosed)
	for range 2 {
		if out.Next() != nil {
			t.Fatal("an outcome twice")
		}
	}
	out.Settled()
	if !invariants.Enabled {
		return
	}
	defer func() {
		if recover() == nil {
			t.Error("Settled with an outcome that nobody took")
		}
	}()
	out.add(EventPace)
	out.Settled()
}

// TestOpenedLast: what waited for the session is started or has failed when it opens.
func TestOpenedLast(t *testing.T) {
	p := rigParams
	p.MaxMessage = 100
	r := newRig(t, p, Timing{}, 5, msgbuf.Config{})
	ops := []Op{r.op(1, 101, 10), r.op(2, 100, 10), r.op(3, 101, 10)}
	for _, op := range ops {
		if err := r.cl.Start(op, 0, 0, r.cout); err != nil {
			t.Fatal(err)
		}
	}
	r.cl.Open(p, serverSession, serverToken, 0, 0, r.cout)
	evs := events(r.cout)
	if len(evs) != 3 || evs[0].Ref != 1 || evs[1].Ref != 3 || evs[2].Kind != EventOpened {
		t.Errorf("outcomes %+v", evs)
	}
	for _, ev := range evs[:2] {
		if ev.Kind != EventFailed || ev.Err != ErrTooLarge {
			t.Errorf("outcome %+v", ev)
		}
	}
	r.closeClient(ErrClosed)
	for _, op := range ops {
		giveBack(op)
	}
	r.noLeak()
}

// TestKeep: packets that wait for the transport are no answers of the batch any more: their
// hold times stay, and nobody looks for those that left.
func TestKeep(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	for i := range uint64(3) {
		r.request(8 + i)
		for _, ev := range events(r.sout) {
			if err := r.sv.Respond(ev.Slot, r.buffer(1, 0), 0, r.sout); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(r.sout.Tx) != 3 || !r.sout.HasAnswers() {
		t.Fatalf("%d packets, answers %v", len(r.sout.Tx), r.sout.HasAnswers())
	}
	last := string(r.sout.Tx[2].Head)
	if r.sout.Keep(1); len(r.sout.Tx) != 1 || string(r.sout.Tx[0].Head) != last {
		t.Fatal("another packet was kept")
	}
	if r.sout.HasAnswers() {
		t.Error("answers in a batch of which the transport has seen a part")
	}
	r.sout.Finish(time.Millisecond)
	if string(r.sout.Tx[0].Head) != last {
		t.Error("a packet was changed that waits for the transport")
	}
	r.sout.Reset()
	for name, over := range map[string]func(){"Reset": r.sout.Reset, "Flushed": r.sout.Flushed} {
		r.sout.Tx = append(r.sout.Tx, Tx{})
		r.sout.answer(false, false)
		if over(); len(r.sout.Tx) != 0 || r.sout.HasAnswers() {
			t.Errorf("after %s: %d packets, answers %v", name, len(r.sout.Tx), r.sout.HasAnswers())
		}
	}
	r.noLeak()
}

// TestControlMemory: each packet of a batch has its own, also after a flush in its middle; the
// next batch has the same again.
func TestControlMemory(t *testing.T) {
	out := NewOut(4, false)
	first := &out.grab(16)[0]
	second := &out.grab(16)[0]
	out.Flushed()
	if third := &out.grab(16)[0]; first == second || third == first || third == second {
		t.Error("two packets in the same memory")
	}
	if out.Reset(); &out.grab(16)[0] != first {
		t.Error("the next batch has other memory")
	}
}

// TestLentResponseStays: a response of many packets outlives its slot's next request until the
// transport is flushed, for which many of them ask.
func TestLentResponseStays(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.lends()
	for n := range maxUnread {
		r.respondLarge(uint64(n+1) * 8)
		r.wantInUse("lending", n+1)
		if r.flushS {
			t.Fatalf("a flush for %d responses", n)
		}
	}
	r.request((maxUnread + 1) * 8)
	r.wantInUse("before the flush", maxUnread)
	want(t, "many responses", r.sout, EventFlush, EventRequest)
	r.snet.flush(t) // which finds the data of all
	r.sout.Flushed()
	r.wantInUse("flushed", 0)
	if err := r.respond(0, 1); err != nil {
		t.Fatal(err)
	}
	r.request((maxUnread + 2) * 8)
	want(t, "after the flush", r.sout, EventRequest)
	r.noLeak()

	r = newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	for n := range maxUnread + 1 {
		r.respondLarge(uint64(n+1) * 8)
		r.wantInUse("copying", 1)
	}
	for n := range maxUnread + 1 { // in one batch
		r.request(uint64(maxUnread+2+n) * 8)
		want(t, "copying", r.sout, EventRequest)
		if err := r.sv.Respond(0, r.buffer(2000, 0), r.now, r.sout); err != nil {
			t.Fatal(err)
		}
	}
	r.takeServer()
	r.wantInUse("copying, one batch", 1)
	r.noLeak()
}

// TestFlushedIsClean: what was sent before the flush needs none; what is queued after it does.
func TestFlushedIsClean(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.lends()
	r.respondLarge(8)
	r.snet.flush(t)
	r.sout.Flushed()
	r.wantInUse("the last response", 1)
	r.request(16)
	want(t, "the next request", r.sout, EventRequest)
	r.wantInUse("its response was sent before the flush", 0)
	if err := r.sv.RespondError(0, fault(wire.CodeApplication, "text"), 0, r.sout); err != nil {
		t.Fatal(err)
	}
	r.request(24)
	want(t, "the next but one", r.sout, EventRequest)
	r.wantInUse("an error is queued", 1)
	r.noLeak()
}

// TestCloseKeepsQueued: responses that are queued when their session ends stay until the
// transport has them.
func TestCloseKeepsQueued(t *testing.T) {
	for _, lends := range []bool{true, false} {
		r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
		r.transport(lends)
		r.respondLarge(8) // an earlier batch
		r.request(9)
		r.request(10)
		for i, ev := range events(r.sout) {
			buf := r.buffer(3000, 7)
			if i > 0 {
				buf.Free()
				buf = r.sv.Prealloc(ev.Slot, 1, r.sout)
			}
			if err := r.sv.Respond(ev.Slot, buf, 0, r.sout); err != nil {
				t.Fatal(err)
			}
		}
		r.wantInUse("three responses", 3)
		r.sv.Close(r.sout)
		want(t, "close", r.sout, EventClosed)
		if lends {
			r.wantInUse("closed, lending", 3)
			r.snet.spoilFree(r.pool)
			r.snet.take(t, r.sout, len(r.sout.Tx))
			r.sout.Reset()
			r.wantInUse("sent, lending", 3)
			r.snet.flush(t)
			r.sout.Flushed()
		} else {
			r.wantInUse("closed, copying", 2)
			r.sout.Reset()
		}
		r.wantInUse("over", 0)
		r.noLeak()
	}
}

// TestFlushBeforeEnd: a request whose packet is still queued when it ends asks for a flush before
// the outcome that gives its buffer away. A repeated packet alone asks for none.
func TestFlushBeforeEnd(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.open(0)
	ops := []Op{r.op(1, 10, 10), r.op(2, 10, 10), r.op(3, 1001, 10)}
	for _, op := range ops[:2] {
		r.start(op)
	}
	for _, p := range r.c2s {
		if ev := r.toServer(p); r.respond(ev.Slot, 10) != nil {
			t.Fatal("no response")
		}
	}
	first := r.c2s[0]
	for i := range r.cl.slots { // only the first request is overdue
		if s := &r.cl.slots[i]; s.busy && s.op.Ref == 2 {
			s.progress = 100 * ms
		}
	}
	r.now = 100 * ms
	r.cl.Scan(r.now, r.cout)
	h := r.s2c[1].header() // of the other request: its own packets ask for nothing
	r.cl.OnResp(&h, r.s2c[1].raw[wire.HeaderSize:], r.arrival(), r.cout)
	want(t, "retransmission, end of another", r.cout, EventDone)

	h = r.s2c[0].header() // to the first copy, while the second is queued
	r.fromServer(r.s2c[0])
	want(t, "end, though a copy is queued", r.cout, EventFlush, EventDone)
	r.takeClient()

	if err := r.cl.Start(ops[2], 0, r.now, r.cout); err != nil {
		t.Fatal(err)
	}
	r.cl.Cancel(3, errCancelled, r.now, r.cout)
	want(t, "cancelled, though queued", r.cout, EventFlush, EventFailed)
	r.takeClient()

	h = first.header()
	r.sv.OnReq(&h, first.raw[wire.HeaderSize:], r.arrival(), r.sout)
	r.request(h.ReqNum + uint64(len(r.cl.slots)))
	want(t, "repeated response, next request", r.sout, EventRequest)
	r.takeServer()
	for _, op := range ops {
		giveBack(op)
	}
	r.noLeak()
}
