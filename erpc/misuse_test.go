package erpc_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/gid"
	"github.com/userspace-rpc/erpc/internal/invariants"
)

// TestReentry: callbacks may use the Rpc, but not run its loop.
func TestReentry(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	ran := false
	is(t, "post", p.client.Post(func(r *erpc.Rpc) {
		ran = true
		is(t, "RunOnce in a callback", second(r.RunOnce()), erpc.ErrWrongThread)
		is(t, "Run in a callback", r.Run(func() bool { return false }), erpc.ErrWrongThread)
		is(t, "RunFor in a callback", r.RunFor(time.Second), erpc.ErrWrongThread)
		is(t, "Close in a callback", r.Close(), erpc.ErrWrongThread)
		b, err := r.Alloc(10)
		is(t, "Alloc in a callback", err, nil)
		b.Free()
	}), nil)
	p.until(func() bool { return ran })
	is(t, "afterwards", p.call(tEcho, 10).err, nil)
	p.close()
}

// TestWrongThread: another goroutine, while the loop is inside a callback, gets a
// named error from each method that is not for it, and changes nothing.
func TestWrongThread(t *testing.T) {
	if !gid.Exact {
		t.Skip("goroutines cannot be told apart on this system")
	}
	p := newErrPair(t, erpc.Config{})
	errs := make(chan map[string]error)
	is(t, "post", p.client.Post(func(r *erpc.Rpc) {
		go func() {
			errs <- map[string]error{
				"EnqueueRequest":  second(r.EnqueueRequest(p.sess, erpc.Request{})),
				"RunOnce":         second(r.RunOnce()),
				"RunFor":          r.RunFor(time.Second),
				"Alloc":           second(r.Alloc(10)),
				"CreateSessionTo": second(r.CreateSessionTo(p.send.addr)),
				"CloseSession":    r.CloseSession(p.sess),
				"Cancel":          r.Cancel(0),
				"Refuse":          r.Refuse(),
				"Close":           r.Close(),
			}
			if err := r.Post(func(*erpc.Rpc) {}); err != nil {
				t.Errorf("Post: %v", err)
			}
			r.Wake()
			_ = r.Stats()
			_ = r.LocalAddr()
			errs <- nil
		}()
		for name, err := range <-errs {
			is(t, name, err, erpc.ErrWrongThread)
		}
		<-errs
	}), nil)
	p.step()
	is(t, "afterwards", p.call(tEcho, 10).err, nil)
	// Between passes any goroutine may take the loop over.
	go func() {
		errs <- map[string]error{"RunOnce": second(p.client.RunOnce()),
			"Alloc": second(p.client.Alloc(10))}
	}()
	for name, err := range <-errs {
		is(t, "taken over: "+name, err, nil)
	}
	if err := p.client.Close(); err == nil {
		t.Error("the buffer of the other goroutine is not missed")
	}
	is(t, "close", p.server.Close(), nil)
}

// TestForeignCalls: while a goroutine runs the loop, however it does, no call of another one gets
// in. When it has returned, another one may call.
func TestForeignCalls(t *testing.T) {
	if !gid.Exact {
		t.Skip("goroutines cannot be told apart on this system")
	}
	const calls, callers = 20_000, 4
	for name, cfg := range map[string]erpc.Config{
		"asleep": {Wait: erpc.WaitSleep}, "spinning": {Wait: erpc.WaitSpin}, "as it likes": {},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			n, err := erpc.NewNexus(cfg)
			is(t, "nexus", err, nil)
			r, err := n.NewRpc(listen(t, "127.0.0.1:0"))
			is(t, "endpoint", err, nil)
			var stop atomic.Bool
			running, ended := make(chan struct{}), make(chan error, 1)
			go func() { ended <- r.Run(stop.Load) }()
			is(t, "post", r.Post(func(*erpc.Rpc) { close(running) }), nil)
			eventually(t, running, "the loop")
			var in atomic.Int64
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for i := range calls / callers {
						if i%100 == 0 {
							_ = r.Post(func(*erpc.Rpc) {}) // so that the loop does something
						}
						if _, err := r.Alloc(10); err != erpc.ErrWrongThread {
							in.Add(1)
						}
					}
				})
			}
			all.Wait()
			if n := in.Load(); n != 0 {
				t.Errorf("%d of %d calls got in", n, calls)
			}
			asked := 0
			is(t, "Run", r.Run(func() bool { asked++; return asked > 3 }), erpc.ErrWrongThread)
			is(t, "RunFor", r.RunFor(0), erpc.ErrWrongThread)
			is(t, "Close", r.Close(), erpc.ErrWrongThread)
			stop.Store(true)
			r.Wake()
			is(t, "the loop", eventually(t, ended, "the loop"), nil)
			is(t, "RunFor afterwards", r.RunFor(0), nil)
			is(t, "close", errors.Join(r.Close(), n.Close()), nil)
		})
	}
}

// TestForeignCallsOfOwners: nor into the loops of a Client and of a Server, and handlers that run
// in the goroutine of the loop are not in it.
func TestForeignCallsOfOwners(t *testing.T) {
	if !gid.Exact {
		t.Skip("goroutines cannot be told apart on this system")
	}
	checkLeaks(t)
	const typ = 50
	g := newRig(t, erpc.Config{})
	g.handle(t, typ, func(ctx context.Context, _ []byte) ([]byte, error) {
		h, _ := erpc.HandleFrom(ctx)
		_, err := h.Rpc().Alloc(10)
		if err == erpc.ErrWrongThread {
			err = nil
		} else {
			err = fmt.Errorf("a handler got in: %v", err)
		}
		return nil, err
	})
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	for range 2000 {
		if _, err := c.Call(bg, typ, nil); err != nil {
			t.Fatal(err)
		}
	}
	own := make(chan *erpc.Rpc, 1)
	l, err := erpc.NewLoop(listen(t, "127.0.0.1:0"), erpc.Config{})
	is(t, "loop", err, nil)
	is(t, "post", l.Post(func(r *erpc.Rpc) { own <- r }), nil)
	r := eventually(t, own, "the loop")
	for range 1000 {
		if _, err := r.Alloc(10); err != erpc.ErrWrongThread {
			t.Fatalf("it got into the loop of Clients: %v", err)
		}
	}
	is(t, "close", l.Close(), nil)
	is(t, "closed", second(r.Alloc(10)), erpc.ErrClosed)
}

// TestRunInStop: stop may use the Rpc, and run its loop too.
func TestRunInStop(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	asked := 0
	is(t, "Run", p.client.Run(func() bool {
		asked++
		b, err := p.client.Alloc(10)
		is(t, "Alloc", err, nil)
		b.Free()
		is(t, "Run", p.client.Run(func() bool { return true }), nil)
		is(t, "RunOnce", second(p.client.RunOnce()), nil)
		is(t, "RunFor", p.client.RunFor(0), nil)
		return asked > 2
	}), nil)
	is(t, "afterwards", p.call(tEcho, 10).err, nil)
	p.close()
}

// TestDoubleResponse: a request is answered once; every further try fails.
func TestDoubleResponse(t *testing.T) { eachNet(t, checkDoubleResponse) }

func checkDoubleResponse(t *testing.T, net *memNet) {
	p := newErrPairOn(t, net, erpc.Config{Slots: 1})
	for _, typ := range []uint8{tHold, tBackground} {
		p.held = nil
		res := p.enqueue(typ, 10, 0)
		p.until(func() bool { return len(p.held)+len(p.tasks) > 0 })
		if typ == tHold {
			is(t, "first", p.held[0].RespondBytes([]byte{1}), nil)
		} else {
			p.runTasks()
		}
		h := p.held[0]
		late := func(when string) {
			t.Helper()
			name := fmt.Sprintf("type %d, %s", typ, when)
			is(t, name+": RespondError", h.RespondError(erpc.ErrRequest), erpc.ErrResponded)
			is(t, name+": RespondBytes", h.RespondBytes([]byte{2}), erpc.ErrResponded)
			b, err := p.server.Alloc(5)
			is(t, name, err, nil)
			is(t, name+": Respond", h.Respond(b), erpc.ErrResponded)
			b.Free() // it is still ours
			if h.Data() != nil {
				t.Errorf("%s: data", name)
			}
		}
		late("at once")
		p.until(func() bool { return res.ends > 0 })
		late("when the client has it")
		is(t, "next", p.call(tEcho, 10).err, nil)
		late("when the slot serves the next request")
		held := p.held
		next := p.enqueue(tHold, 10, 0)
		p.until(func() bool { return len(p.held) > len(held) })
		late("while the handler of the next request runs")
		is(t, "the next", p.held[len(held)].RespondBytes([]byte{3}), nil)
		p.until(func() bool { return next.ends > 0 })
		if len(next.resp) != 1 || next.resp[0] != 3 {
			t.Errorf("the next request got %v, %v", next.resp, next.err)
		}
	}
	p.close()
}

// TestRespondAfterSession: the session ended while the handler ran.
func TestRespondAfterSession(t *testing.T) { eachNet(t, checkRespondAfterSession) }

func checkRespondAfterSession(t *testing.T, net *memNet) {
	p := newErrPairOn(t, net, erpc.Config{})
	for _, typ := range []uint8{tHold, tBackground} {
		p.held = nil
		res := p.enqueue(typ, 10, 0)
		p.until(func() bool { return len(p.held)+len(p.tasks) > 0 })
		var early *erpc.MsgBuffer
		if typ == tHold {
			var err error
			early, err = p.held[0].Alloc(20)
			is(t, "alloc", err, nil)
		}
		is(t, "close", p.client.CloseSession(p.sess), nil)
		is(t, "the RPC", res.err, erpc.ErrClosed)
		p.until(func() bool { return p.server.Sessions() == 0 })
		p.connect()
		is(t, "another", p.call(tEcho, 10).err, nil)
		if typ == tHold {
			is(t, "late", p.held[0].Respond(early), erpc.ErrResponded)
			early.Free()
			is(t, "Alloc", second(p.held[0].Alloc(10)), erpc.ErrResponded)
		}
		p.runTasks()
		p.step()
		if res.ends != 1 {
			t.Errorf("%d ends", res.ends)
		}
		if n := p.server.Running(); n != 0 {
			t.Errorf("%d handlers run", n)
		}
	}
	p.close()
}

// TestBuffers: buffers that are not the caller's are refused.
func TestBuffers(t *testing.T) { eachNet(t, checkBuffers) }

func checkBuffers(t *testing.T, net *memNet) {
	p := newErrPairOn(t, net, erpc.Config{})
	req, _ := p.client.Alloc(10)
	resp, _ := p.client.Alloc(10)
	done := 0
	q := erpc.Request{Type: tEcho, Req: req, Resp: resp, Done: func(erpc.Completion) { done++ }}
	_, err := p.client.EnqueueRequest(p.sess, q)
	is(t, "enqueue", err, nil)
	other, _ := p.client.Alloc(10)
	is(t, "both in use", second(p.client.EnqueueRequest(p.sess, q)), erpc.ErrBufferInUse)
	is(t, "request in use",
		second(p.client.EnqueueRequest(p.sess,
			erpc.Request{Req: req, Resp: other, Done: q.Done})), erpc.ErrBufferInUse)
	is(t, "response in use",
		second(p.client.EnqueueRequest(p.sess,
			erpc.Request{Req: other, Resp: resp, Done: q.Done})), erpc.ErrBufferInUse)
	is(t, "resize in use", req.Resize(5), erpc.ErrBufferInUse)
	p.until(func() bool { return done == 1 })
	is(t, "resize", req.Resize(5), nil)
	q.Req = other
	_, err = p.client.EnqueueRequest(p.sess, q)
	is(t, "the refused buffers are the caller's", err, nil)
	p.until(func() bool { return done == 2 })
	if !invariants.Enabled { // there it panics, or the buffer is renewed
		req.Free()
		q.Req = req
		is(t, "request freed", second(p.client.EnqueueRequest(p.sess, q)), erpc.ErrBufferFreed)
		req, _ = p.client.Alloc(10)
	}
	for _, b := range []*erpc.MsgBuffer{req, resp, other} {
		b.Free()
	}
	p.close()
}

// TestBadRequests: arguments that cannot be right.
func TestBadRequests(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	other := newErrPair(t, erpc.Config{})
	req, _ := p.client.Alloc(10)
	done := func(erpc.Completion) { t.Error("it ended") }
	enqueue := func(s *erpc.Session,
		q erpc.Request) error {
		return second(p.client.EnqueueRequest(s, q))
	}
	is(t, "type 255", enqueue(p.sess, erpc.Request{Type: 255, Req: req, Done: done}), erpc.ErrReqType)
	is(t, "no session", enqueue(nil, erpc.Request{Req: req, Done: done}), erpc.ErrRequest)
	is(t, "another Rpc's session", enqueue(other.sess, erpc.Request{Req: req, Done: done}),
		erpc.ErrRequest)
	is(t, "no buffer", enqueue(p.sess, erpc.Request{Done: done}), erpc.ErrRequest)
	is(t, "no continuation", enqueue(p.sess, erpc.Request{Req: req}), erpc.ErrRequest)
	is(t, "one buffer twice", enqueue(p.sess, erpc.Request{Req: req, Resp: req, Done: done}),
		erpc.ErrRequest)
	is(t, "close no session", p.client.CloseSession(nil), erpc.ErrRequest)
	is(t, "close another Rpc's", p.client.CloseSession(other.sess), erpc.ErrRequest)
	is(t, "cancel nothing", p.client.Cancel(erpc.RequestID(1<<63)), nil)
	is(t, "close", p.client.CloseSession(p.sess), nil)
	is(t, "closed session", enqueue(p.sess, erpc.Request{Req: req, Done: done}), erpc.ErrClosed)
	is(t, "close again", p.client.CloseSession(p.sess), nil)
	req.Free()
	p.close()
	other.close()
}

// TestRespondNil: a response that is none is refused with a name.
func TestRespondNil(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	res := p.enqueue(tHold, 10, 0)
	p.until(func() bool { return len(p.held) > 0 })
	is(t, "nil", p.held[0].Respond(nil), erpc.ErrRequest)
	is(t, "empty", p.held[0].RespondBytes(nil), nil)
	p.until(func() bool { return res.ends > 0 })
	is(t, "the RPC", res.err, nil)
	p.close()
}

// TestCancelSparesSlot: the next request does not wait for the handler of a
// cancelled one while another slot is free.
func TestCancelSparesSlot(t *testing.T) { eachNet(t, checkCancelSparesSlot) }

func checkCancelSparesSlot(t *testing.T, net *memNet) {
	p := newErrPairOn(t, net, erpc.Config{Slots: 2})
	res := p.enqueue(tHold, 10, 0)
	p.until(func() bool { return len(p.held) > 0 })
	is(t, "cancel", p.client.Cancel(res.id), nil)
	start := p.net.now
	is(t, "the next", p.call(tEcho, 10).err, nil)
	if d := p.net.now - start; d > 100_000 {
		t.Errorf("it took %d ns", d)
	}
	p.close()
}
