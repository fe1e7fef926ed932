package session

import (
	"testing"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestErrorFlushesLent: a server may refuse a request at its first packet, while a transport
// that lends still has the others. One that copies has all.
func TestErrorFlushesLent(t *testing.T) {
	for _, lends := range []bool{true, false} {
		for _, c := range []struct {
			size, at int // of the request, and the packet that is refused
			flush    bool
		}{{3000, 0, true}, {3000, 1, true}, {3000, 2, false}, {1000, 0, false}} {
			r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
			r.transport(lends)
			r.open(0)
			op := r.op(1, c.size, 10)
			r.start(op)
			for _, p := range r.c2s[:c.at+1] { // the others are still in the send queue
				p.read(t)
			}
			body := wire.AppendError(nil, fault(wire.CodeNoHandler, ""))
			h := wire.Header{
				Type: wire.TypeErr, ReqType: 1, ReqNum: 8,
				PktNum: uint32(c.at), MsgSize: uint32(len(body)),
			}
			r.cl.OnErr(&h, body, r.arrival(), r.cout)
			if c.flush && lends {
				want(t, "refused early", r.cout, EventFlush, EventError)
				r.cnet.flush(t)
				r.cout.Flushed()
			} else {
				want(t, "refused", r.cout, EventError)
			}
			giveBack(op)
			r.noLeak()
		}
	}
}

// TestResizedPrealloc: a handler that made its preallocated buffer larger than a packet has used
// it up: the transport may refer to its second packet.
func TestResizedPrealloc(t *testing.T) {
	for _, next := range []string{"request", "close"} {
		r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
		r.lends()
		r.request(8)
		want(t, "first", r.sout, EventRequest)
		buf := r.sv.Prealloc(0, 1000, r.sout)
		if err := buf.Resize(buf.MaxSize()); err != nil || buf.Size() == 1000 {
			t.Fatalf("%d bytes, %v", buf.Size(), err)
		}
		if err := r.sv.Respond(0, buf, 0, r.sout); err != nil {
			t.Fatal(err)
		}
		r.takeServer()
		h := wire.Header{Type: wire.TypeRFR, ReqType: 1, ReqNum: 8, PktNum: 1}
		r.sv.OnRFR(&h, r.arrival(), r.sout)
		if r.takeServer(); len(r.snet.loans) != 1 {
			t.Fatalf("%d loans", len(r.snet.loans))
		}
		if next == "close" {
			r.asked = true
			r.sout.Flush()
			r.sv.Close(r.sout)
			r.wantInUse("closed, not flushed", 1)
		} else {
			r.request(16)
			want(t, "second", r.sout, EventRequest)
			if again := r.sv.Prealloc(0, 1000, r.sout); again == buf {
				t.Error("the transport still refers to the buffer")
			} else {
				spoil(again)
			}
		}
		r.noLeak()
	}
}

// TestPreallocIsNotQueued: the next request of a slot comes while the response in its preallocated
// buffer is queued. The buffer must not serve the next response: its handler may free it.
func TestPreallocIsNotQueued(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.request(8)
	events(r.sout)
	buf := r.sv.Prealloc(0, 10, r.sout)
	fill(buf.Data(), 1)
	if err := r.sv.Respond(0, buf, 0, r.sout); err != nil {
		t.Fatal(err)
	}
	before := string(flatten(r.sout.Tx[0]).raw)
	r.request(16) // in the same batch
	events(r.sout)
	again := r.sv.Prealloc(0, 10, r.sout)
	again.Free() // the handler answers with an error, or with another buffer
	if err := r.sv.RespondError(0, fault(wire.CodeApplication, ""), 0, r.sout); err != nil {
		t.Fatal(err)
	}
	other := r.buffer(10, 77) // another session's response
	if string(flatten(r.sout.Tx[0]).raw) != before {
		t.Error("a queued response was overwritten by a buffer that was allocated later")
	}
	r.takeServer()
	other.Free()
	r.noLeak()
}
