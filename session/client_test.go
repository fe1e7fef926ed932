package session

import (
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestQueueRemove: what stays in the queue keeps its order, also in a ring that is full and
// that starts anywhere.
func TestQueueRemove(t *testing.T) {
	for _, n := range []int{1, 3, 16} {
		for turn := range 16 {
			for at := range n {
				q := opQueue{max: 16}
				for range turn { // moves the head
					if err := q.push(Op{}, 0); err != nil {
						t.Fatal(err)
					}
					q.pop()
				}
				var want []uint32
				for ref := range uint32(n) {
					if err := q.push(Op{Ref: ref}, monotime.Time(ref)); err != nil {
						t.Fatal(err)
					}
					if int(ref) != at {
						want = append(want, ref)
					}
				}
				if q.remove(99) || !q.remove(uint32(at)) || q.n != n-1 {
					t.Fatalf("%d of %d in the queue after one was removed", q.n, n)
				}
				var got []uint32
				for q.n > 0 {
					op, deadline := q.pop()
					if got = append(got, op.Ref); deadline != monotime.Time(op.Ref) {
						t.Fatalf("request %d has the deadline of %d", op.Ref, deadline)
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("head %d, without %d: %v, want %v", turn, at, got, want)
				}
			}
		}
	}
}

// TestSlotsInline: the slots of most sessions are in one piece with the rest; more are apart.
func TestSlotsInline(t *testing.T) {
	for _, slots := range []int{1, DefaultSlots, 2 * DefaultSlots} {
		p := rigParams
		p.Slots = slots
		r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
		r.open(0)
		want := slots <= DefaultSlots
		if &r.cl.slots[0] == &r.cl.inline[0] != want || &r.cl.free[0] == &r.cl.inlineFree[0] != want {
			t.Errorf("%d slots: the client's are inline: %v", slots, !want)
		}
		if &r.sv.slots[0] == &r.sv.inline[0] != want {
			t.Errorf("%d slots: the server's are inline: %v", slots, !want)
		}
		r.noLeak()
	}
}

// hugeOp is op for sizes of which the bytes are not worth writing.
func (r *rig) hugeOp(ref uint32, n, resp int) Op {
	r.tb.Helper()
	op := Op{Ref: ref, ReqType: 1}
	for _, b := range []struct {
		to   **msgbuf.Buffer
		size int
	}{{&op.Req, n}, {&op.Resp, resp}} {
		buf, err := r.pool.Alloc(b.size)
		if err != nil || buf.Lend() != nil {
			r.tb.Fatal(err)
		}
		*b.to = buf
	}
	return op
}

func (op *Op) free() {
	for _, b := range []*msgbuf.Buffer{op.Req, op.Resp} {
		b.Return()
		b.Free()
	}
}

// TestMaxPackets: in the old version a request and its response have at most wire.OldMaxPackets
// packets together.
func TestMaxPackets(t *testing.T) {
	p := rigParams
	p.MaxMessage, p.Version = wire.MaxMsgSize, wire.OldVersion
	most := wire.OldMaxPackets * p.PerPacket
	r := newRig(t, p, Timing{}, 0, msgbuf.Config{MaxMessage: wire.MaxMsgSize})
	r.open(0)
	for _, c := range []struct {
		size int
		err  error
		code wire.Code
	}{{most + 1, ErrTooLarge, wire.CodeTooLarge}, {most, nil, wire.CodeOK}} {
		op := r.hugeOp(1, c.size, 10)
		if err := r.cl.Start(op, 0, 0, r.cout); err != c.err {
			t.Errorf("request of %d bytes: %v, want %v", c.size, err, c.err)
		}
		r.takeClient()
		if c.err == nil && !r.cancel(1, errCancelled) {
			t.Error("it did not start")
		}
		op.free()
		h := wire.Header{Type: wire.TypeReq, ReqType: 1, ReqNum: 8, MsgSize: uint32(c.size)}
		if c.err == nil {
			h.ReqNum = 16
		}
		r.sv.OnReq(&h, make([]byte, p.PerPacket), r.arrival(), r.sout)
		r.s2c = nil
		r.takeServer()
		refused := len(r.s2c) == 1 && r.s2c[0].header().Type == wire.TypeErr
		if refused != (c.err != nil) {
			t.Errorf("request of %d bytes: the server refuses it: %v", c.size, refused)
		}
	}
	for i, c := range []struct {
		req, resp int
		fits      bool
	}{
		{10, most, true}, {10, most + 1, false},
		{1001, most - p.PerPacket, true}, {1001, most - p.PerPacket + 1, false},
	} {
		r.largeResponse(uint32(i), c.req, c.resp, c.fits)
	}
	r.c2s, r.s2c = nil, nil
	r.noLeak()
}

// largeResponse gives both halves a response, which fits or does not.
func (r *rig) largeResponse(ref uint32, req, resp int, fits bool) {
	r.tb.Helper()
	r.c2s, r.s2c = nil, nil
	op := r.hugeOp(ref, req, resp)
	r.start(op)
	ev := Event{}
	for _, pkt := range r.c2s {
		ev = r.toServer(pkt)
	}
	buf, err := r.pool.Alloc(resp)
	if err != nil {
		r.tb.Fatal(err)
	}
	err = r.sv.Respond(ev.Slot, buf, r.now, r.sout)
	r.takeServer()
	h := r.c2s[len(r.c2s)-1].header()
	h.Type, h.MsgSize = wire.TypeResp, uint32(resp)
	r.cl.OnResp(&h, make([]byte, r.params.PerPacket), r.arrival(), r.cout)
	got := r.takeClient()
	if fits {
		if err != nil || got.Kind != EventProgress {
			r.tb.Errorf("response of %d bytes to %d: %v, %+v", resp, req, err, got)
		}
		r.cancel(ref, errCancelled)
	} else {
		if err != ErrTooLarge || got.Kind != EventFailed || got.Err != ErrTooLarge {
			r.tb.Errorf("response of %d bytes to %d: %v, %+v", resp, req, err, got)
		}
		buf.Free()
		if r.sv.RespondError(ev.Slot, fault(wire.CodeTooLarge, ""), r.now, r.sout) != nil {
			r.tb.Error("the request is not the handler's any more")
		}
		r.takeServer()
	}
	op.free()
}

// TestResponseBuffer: without a buffer of the request the session makes one, if there is
// memory; the request's own takes what it has room for.
func TestResponseBuffer(t *testing.T) {
	for _, c := range []struct {
		name   string
		own    bool
		hoard  bool
		beyond int // the response's size less the room
		kind   EventKind
		err    error
	}{
		{"made", false, false, 0, EventDone, nil},
		{"no memory", false, true, 0, EventFailed, ErrExhausted},
		{"full", true, false, 0, EventDone, nil},
		{"too small", true, false, 1, EventFailed, ErrTooLarge},
	} {
		r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{Limit: 256 << 10})
		r.open(0)
		op := r.op(1, 10, 500)
		size := op.Resp.MaxSize() + c.beyond
		if !c.own {
			op.Resp.Return()
			op.Resp.Free()
			op.Resp = nil
		}
		r.start(op)
		r.c2s = nil
		var hoard []*msgbuf.Buffer
		for c.hoard {
			b, err := r.pool.Alloc(size)
			if err != nil {
				break
			}
			hoard = append(hoard, b)
		}
		h := wire.Header{Type: wire.TypeResp, ReqType: 1, ReqNum: 8, MsgSize: uint32(size)}
		data := make([]byte, size)
		fill(data, 3)
		r.cl.OnResp(&h, data, r.arrival(), r.cout)
		ev := r.takeClient()
		if ev.Kind != c.kind || ev.Kind == EventFailed && ev.Err != c.err {
			t.Errorf("%s: %+v", c.name, ev)
		}
		if ev.Kind == EventDone {
			if err := checkFill(ev.Resp.Bytes(), 3); err != nil || ev.Resp.Size() != size {
				t.Errorf("%s: %d bytes, want %d: %v", c.name, ev.Resp.Size(), size, err)
			}
			if !c.own {
				op.Resp = ev.Resp
			}
		}
		for _, b := range hoard {
			b.Free()
		}
		if op.Resp == nil {
			op.Req.Return()
			spoil(op.Req)
		} else {
			giveBack(op)
		}
		r.failed = nil
		r.noLeak()
	}
}

// TestRetriesSaturate: a request that is never answered goes on, and its count ends at 255.
func TestRetriesSaturate(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.open(0)
	op := r.op(1, 10, 10)
	r.start(op)
	for i := range 260 {
		r.now += 200 * ms
		got := r.cl.Scan(r.now, r.cout)
		if want := uint8(min(i+1, 255)); got != want {
			t.Fatalf("after %d timeouts: %d, want %d", i+1, got, want)
		}
		r.takeClient()
	}
	if r.cst.Rollbacks != 260 || len(r.c2s) != 261 {
		t.Errorf("%d rollbacks, %d packets", r.cst.Rollbacks, len(r.c2s))
	}
	r.closeClient(ErrClosed)
	giveBack(op)
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
	r.cl.Trust(6, r.cout)
	if suspects() {
		t.Error("a session with the smallest packets suspects")
	}
}

// TestUnpause: a session that paused, since it suspects its path, sends what waited when the pause
// ends, though it suspects the path still.
func TestUnpause(t *testing.T) {
	p := rigParams
	p.PerPacket = 8000
	r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
	r.open(0)
	first := r.op(1, 20_000, 10)
	r.start(first)
	r.cl.SuspectPath(r.now)
	r.cl.Pause()
	r.c2s = nil
	second := r.op(2, 100, 10)
	if err := r.cl.Start(second, 0, r.now, r.cout); err != nil {
		t.Fatal(err)
	}
	r.cl.Unpause(r.now, r.cout)
	r.cl.Unpause(r.now, r.cout) // the second one changes nothing
	r.takeClient()
	if _, suspects := r.cl.Suspects(); !suspects || len(r.c2s) != 1 {
		t.Errorf("suspects: %v, %d packets", suspects, len(r.c2s))
	}
	r.closeClient(ErrClosed)
	giveBack(first)
	giveBack(second)
}
