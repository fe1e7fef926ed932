package session

import (
	"testing"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestRequestNumberZero: the least number is a request as any other, once.
func TestRequestNumberZero(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.request(0)
	want(t, "request 0", r.sout, EventRequest)
	r.request(0)
	want(t, "request 0 again", r.sout)
	if r.sst.Waits != 1 {
		t.Errorf("stats %+v", r.sst)
	}
	r.noLeak()
}

// TestServerClosed: a closed server half takes no request, new or old.
func TestServerClosed(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.request(8)
	r.sv.Close(r.sout)
	want(t, "close", r.sout, EventRequest, EventClosed)
	for _, num := range []uint64{0, 8, 16, wire.MaxReqNum &^ 7, wire.MaxReqNum} {
		r.request(num)
	}
	want(t, "requests after it", r.sout)
	if r.sst.DropPast != 5 || len(r.sout.Tx) != 0 {
		t.Errorf("%d packets, stats %+v", len(r.sout.Tx), r.sst)
	}
	r.noLeak()
}

// TestHandling: which request waits for its response, and how many do.
func TestHandling(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	check := func(what string, num uint64, handling bool, running int) {
		t.Helper()
		if got := r.sv.Handling(0, num); got != handling || r.sv.Running() != running {
			t.Errorf("%s: handling %v, %d run", what, got, r.sv.Running())
		}
	}
	check("at first", 0, false, 0)
	r.request(8)
	r.request(9)
	r.takeServer()
	check("two requests", 8, true, 2)
	check("another number", 16, false, 2)
	if err := r.respond(0, 10); err != nil {
		t.Fatal(err)
	}
	check("after the response", 8, false, 1)
	if err := r.sv.RespondError(1, fault(wire.CodeApplication, ""), 0, r.sout); err != nil {
		t.Fatal(err)
	}
	check("after the error", 8, false, 0)
	r.noLeak()
}

// TestViewStays: a request in the receive buffer stays while another slot gets its response.
func TestViewStays(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.request(9)
	r.takeServer()
	r.request(8)
	want(t, "the second request", r.sout, EventRequest)
	if err := r.sv.Respond(1, r.buffer(10, 0), 0, r.sout); err != nil {
		t.Fatal(err)
	}
	if _, num, data := r.sv.Request(0); num != 8 || len(data) != 1 {
		t.Errorf("request %d with %d bytes", num, len(data))
	}
	r.noLeak()
}

// TestTake: the request's data is the caller's, unless there is no memory for it.
func TestTake(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{Limit: 256 << 10})
	var hoard []*msgbuf.Buffer
	for b, err := r.pool.Alloc(1); err == nil; b, err = r.pool.Alloc(1) {
		hoard = append(hoard, b)
	}
	r.request(8)
	want(t, "the request", r.sout, EventRequest)
	if b, err := r.sv.Take(0); err == nil || b != nil {
		t.Errorf("without memory: %v, %v", b, err)
	}
	for _, b := range hoard {
		b.Free()
	}
	b, err := r.sv.Take(0)
	if err != nil || b == nil || string(b.Bytes()) != "\x01" || b.Owner() != msgbuf.OwnerApp {
		t.Fatalf("%v, %v", b, err)
	}
	if !r.sv.Handling(0, 8) {
		t.Error("the request waits for no response")
	}
	b.Free()
	r.noLeak()
}

// TestKeptBuffer: a slot keeps the buffer that Prealloc gave and no other, and uses all of it.
func TestKeptBuffer(t *testing.T) {
	for _, prealloc := range []bool{true, false} {
		r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
		r.lends()
		r.request(8)
		buf := r.buffer(10, 0)
		if prealloc {
			buf.Free()
			buf = r.sv.Prealloc(0, 10, r.sout)
		}
		if err := r.sv.Respond(0, buf, 0, r.sout); err != nil {
			t.Fatal(err)
		}
		r.takeServer()
		r.request(16)
		want(t, "the next request", r.sout, EventRequest)
		if !prealloc { // its only packet lends no data
			r.wantInUse("after a response of one packet", 0)
			r.noLeak()
			continue
		}
		r.wantInUse("after a response in the slot's buffer", 1)
		if again := r.sv.Prealloc(0, buf.MaxSize(), r.sout); again != buf {
			t.Error("a buffer that is large enough is not used again")
		}
		if larger := r.sv.Prealloc(0, buf.MaxSize()+1, r.sout); larger == buf || larger == nil {
			t.Error("no larger buffer")
		} else {
			larger.Free()
		}
		buf.Free()
		r.noLeak()
	}
}

// TestPrefetchNothing: a server half without any buffer has nothing to fetch.
func TestPrefetchNothing(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	for step := range PrefetchSteps {
		r.sv.Prefetch(step)
	}
	r.respondLarge(8)
	for step := range PrefetchSteps {
		r.sv.Prefetch(step)
	}
	r.noLeak()
}

// TestFlushedInBatch: a response that is flushed in its own batch is in no queue.
func TestFlushedInBatch(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.lends()
	r.request(8)
	if err := r.sv.Respond(0, r.buffer(2000, 0), 0, r.sout); err != nil {
		t.Fatal(err)
	}
	events(r.sout)
	r.sout.Flushed()
	r.request(16)
	want(t, "the next request", r.sout, EventRequest)
	r.wantInUse("flushed", 0)
	r.noLeak()
}

// TestUnreadLimit: the Out asks for a flush when the buffers that wait for one have many bytes.
func TestUnreadLimit(t *testing.T) {
	for less, ks := range [][]EventKind{{EventFlush}, nil} {
		r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
		r.lends()
		b := r.buffer(10, 0)
		r.sout.size = maxUnreadBytes - b.MaxSize() - less
		r.sout.discard(b, r.sout.gen, true)
		want(t, "a buffer more", r.sout, ks...)
		r.sout.Flushed()
		r.noLeak()
	}
}

// TestGrabAll: control packets use all of the batch's memory, then memory of their own.
func TestGrabAll(t *testing.T) {
	out := NewOut(4, false)
	out.mem = make([]byte, 2*wire.HeaderSize)
	for i := range 3 {
		b := out.grab(wire.HeaderSize)
		at := i * wire.HeaderSize
		if len(b) != wire.HeaderSize || at < len(out.mem) && &b[0] != &out.mem[at] {
			t.Errorf("packet %d: %d bytes, %d used", i, len(b), out.used)
		}
	}
}
