package session

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestResponseStaysWhileQueued: a client that cancelled, or that cheats, sends the
// slot's next request before the last response has left the TX batch. The memory of
// that response must not go to somebody else until the batch is sent.
func TestResponseStaysWhileQueued(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	req := func(num uint64) {
		t.Helper()
		h := wire.Header{Type: wire.TypeReq, ReqType: 1, MsgSize: 1, Session: serverSession, ReqNum: num}
		r.sv.OnReq(&h, []byte{1}, r.arrival(), r.sout)
		if ks := kinds(r.sout); !slices.Equal(ks, []EventKind{EventRequest}) {
			t.Fatalf("outcomes %v, want a request", ks)
		}
	}
	req(8)
	if err := r.sv.Respond(0, r.buffer(5000, 42), r.now, r.sout); err != nil {
		t.Fatal(err)
	}
	before := flatten(r.sout.Tx[0])
	req(16)
	other := r.buffer(5000, 99) // another session's response
	other.Packet(0, 1000)
	if string(flatten(r.sout.Tx[0]).raw) != string(before.raw) {
		t.Error("a queued response was overwritten by a buffer that was allocated later")
	}
	if err := r.sv.RespondError(0, fault(wire.CodeApplication, ""), r.now, r.sout); err != nil {
		t.Fatal(err)
	}
	used := r.inUse()
	if r.sout.Reset(); r.inUse() != used-1 {
		t.Errorf("%d buffers in use before the batch was sent, %d after", used, r.inUse())
	}
	other.Free()
	r.noLeak()
}

// TestEndFlushesQueuedRequest: a server that cheats acknowledges packets that are
// still in the TX batch. The request's end then must ask for a flush before its
// buffers go back to the application; the end of an honest one must not.
func TestEndFlushesQueuedRequest(t *testing.T) {
	p := rigParams
	p.Credits = 1
	for _, kind := range []string{"response", "error", "too large"} {
		r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
		r.open(0)
		op := r.op(1, 2000, 100)
		if err := r.cl.Start(op, 0, 0, r.cout); err != nil {
			t.Fatal(err)
		}
		r.takeClient()
		cr := wire.Header{Type: wire.TypeCR, ReqType: 1, ReqNum: 8}
		r.cl.OnCR(&cr, nil, &Arrival{}, r.cout)
		r.cout.Feed(0) // queues packet 1
		if ks := kinds(r.cout); !slices.Equal(ks, []EventKind{EventProgress}) {
			t.Fatalf("%s: outcomes %v", kind, ks)
		}
		h := wire.Header{Type: wire.TypeResp, ReqType: 1, ReqNum: 8, PktNum: 1}
		payload, end := []byte{}, EventDone
		switch kind {
		case "error":
			payload, end = wire.AppendError(nil, fault(wire.CodeApplication, "")), EventError
			h.Type, h.MsgSize = wire.TypeErr, uint32(len(payload))
		case "too large":
			h.MsgSize, payload, end = 5000, make([]byte, 1000), EventFailed
		}
		if h.Type == wire.TypeErr {
			r.cl.OnErr(&h, payload, &Arrival{}, r.cout)
		} else {
			r.cl.OnResp(&h, payload, &Arrival{}, r.cout)
		}
		if ks := kinds(r.cout); !slices.Equal(ks, []EventKind{EventFlush, end}) {
			t.Errorf("%s: outcomes %v: a packet of the ended request is queued", kind, ks)
		}
		giveBack(op)
		r.noLeak()
	}
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.open(0)
	op := r.op(1, 2000, 5000)
	if err := r.cl.Start(op, 0, 0, r.cout); err != nil {
		t.Fatal(err)
	}
	r.takeClient()
	r.pump(func(uint8) int { return 5000 })
	if len(r.ended) != 1 || r.flushes != 0 {
		t.Errorf("honest server: %d requests ended, %d flushes", len(r.ended), r.flushes)
	}
	giveBack(op)
	r.noLeak()
}

// TestErrorWithoutMemory: when there is no memory even for an error response, the
// handler has still run, and must not run again.
func TestErrorWithoutMemory(t *testing.T) {
	limit := int64(256 << 10)
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{Limit: limit})
	r.open(0)
	op := r.op(1, 10, 600)
	if err := r.cl.Start(op, 0, 0, r.cout); err != nil {
		t.Fatal(err)
	}
	r.takeClient()
	request := r.c2s[0]
	if ev := r.toServer(request); ev.Kind != EventRequest {
		t.Fatal("no request")
	}
	var hoard []*msgbuf.Buffer
	for _, n := range []int{60000, 5000, 600, 100, 10} {
		for b, err := r.pool.Alloc(n); err == nil; b, err = r.pool.Alloc(n) {
			hoard = append(hoard, b)
		}
	}
	// The request's own buffer goes back to the pool, but is too small for an error.
	if err := r.sv.RespondError(0, fault(wire.CodeApplication, "text"), r.now, r.sout); err != nil {
		t.Fatal(err)
	}
	r.takeServer()
	r.s2c = nil // lost
	if ev := r.toServer(request); ev.Kind != 0 {
		t.Fatal("the handler ran twice for one request")
	}
	if len(r.s2c) != 1 {
		t.Fatalf("%d answers to the repeated request", len(r.s2c))
	}
	if ev := r.toClient(r.s2c[0]); ev.Kind != EventError || ev.Fault.Code != wire.CodeApplication {
		t.Fatalf("event %+v", ev)
	}
	for _, b := range hoard {
		b.Free()
	}
	giveBack(op)
	r.noLeak()
}

// TestTooLargeWhileBusy: the size is checked at Start as soon as it is known, also
// when the request would have to queue.
func TestTooLargeWhileBusy(t *testing.T) {
	p := rigParams
	p.Slots = 1
	p.MaxMessage = 1000
	r := newRig(t, p, Timing{}, 5, msgbuf.Config{})
	r.open(0)
	ops := []Op{r.op(1, 10, 10), r.op(2, 1001, 10)}
	if err := r.cl.Start(ops[0], 0, 0, r.cout); err != nil {
		t.Fatal(err)
	}
	if err := r.cl.Start(ops[1], 0, 0, r.cout); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v, want %v", err, ErrTooLarge)
	}
	for _, op := range ops {
		giveBack(op)
	}
	r.noLeak()
}

// TestRTOFollowsSlowPath: on a path whose RTT has grown beyond the timeout, each
// answer is to a packet that was sent twice, so no sample can be taken (Karn). The
// backed-off timeout must be kept until one can (RFC 6298, section 5.5 to 5.7), or
// every packet from now on is sent several times.
func TestRTOFollowsSlowPath(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.open(100 * time.Microsecond)
	const rtt = 50 * ms
	for ref := uint32(1); ref <= 10; ref++ {
		before := r.cst.Rollbacks
		op := r.op(ref, 10, 10)
		if err := r.cl.Start(op, 0, r.now, r.cout); err != nil {
			t.Fatal(err)
		}
		r.takeClient()
		for end := r.now + rtt; r.now < end; r.now += ms / 2 {
			r.cl.Scan(r.now, r.cout)
			r.takeClient()
		}
		r.pump(func(uint8) int { return 10 })
		if len(r.ended) != int(ref) {
			t.Fatal("not done")
		}
		giveBack(op)
		if n := r.cst.Rollbacks - before; ref > 3 && n > 0 {
			t.Errorf("request %d was rolled back %d times; smoothed RTT %v", ref, n, r.cl.SRTT())
		}
	}
	r.noLeak()
}

// TestRTOHuge: large configured bounds must not overflow when the timeout backs off.
func TestRTOHuge(t *testing.T) {
	e := newRTOEstimator(&Timing{RTOMin: time.Millisecond, RTOMax: 1000 * time.Hour,
		RTOInitial: 500 * time.Hour})
	last := time.Duration(0)
	for n := range 256 {
		got := e.timeout(uint8(n))
		if got < last || got > 1000*time.Hour {
			t.Fatalf("timeout after %d retries: %v, before: %v", n, got, last)
		}
		last = got
	}
}

// TestPreallocOnlyForHandler: the preallocated buffer holds the last response until
// the next request; asking for it in between must not touch it.
func TestPreallocOnlyForHandler(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	h := wire.Header{Type: wire.TypeReq, ReqType: 1, Session: serverSession, ReqNum: 8}
	r.sv.OnReq(&h, nil, &Arrival{}, r.sout)
	r.takeServer()
	if err := r.respond(0, 100); err != nil {
		t.Fatal(err)
	}
	if b := r.sv.Prealloc(0, 7, r.sout); b != nil {
		t.Error("got the buffer of a response that may have to be repeated")
	}
	r.noLeak()
}

// TestHugeOffer: no field of an offer may slip through a narrow int.
func TestHugeOffer(t *testing.T) {
	good := wire.Offer{Credits: 1, Slots: 1, MTU: MinMTU, MaxMessage: wire.MaxMsgSize}
	if _, err := ParamsOf(good, wire.Version); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*wire.Offer){
		"credits 0": func(o *wire.Offer) { o.Credits = 0 },
		"credits":   func(o *wire.Offer) { o.Credits = MaxCredits + 1 },
		"slots 0":   func(o *wire.Offer) { o.Slots = 0 }, "slots 3": func(o *wire.Offer) { o.Slots = 3 },
		"slots":        func(o *wire.Offer) { o.Slots = 2 * MaxSlots },
		"mtu small":    func(o *wire.Offer) { o.MTU = MinMTU - 1 },
		"mtu":          func(o *wire.Offer) { o.MTU = 1<<16 + wire.HeaderSize + 1 },
		"mtu huge":     func(o *wire.Offer) { o.MTU = 1<<32 - 1 },
		"message":      func(o *wire.Offer) { o.MaxMessage = wire.MaxMsgSize + 1 },
		"message huge": func(o *wire.Offer) { o.MaxMessage = 1<<32 - 1 },
	} {
		o := good
		change(&o)
		if p, err := ParamsOf(o, wire.Version); !errors.Is(err, ErrBadOffer) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}
