package erpc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/wire"
)

// epoch is how late the loop looks at the time, by default.
const epoch = 1250 * time.Microsecond

// TestWhenIdle: an endpoint is idle when no handler of either kind has run for the span of time,
// and not while one runs, however long.
func TestWhenIdle(t *testing.T) {
	const span = 40 * time.Millisecond
	p := newErrPair(t, erpc.Config{})
	p.tick = 100_000
	calls := 0
	inline, background := p.enqueue(tHold, 1, 0), p.enqueue(tBackground, 1, 0)
	p.until(func() bool { return len(p.held) == 1 && len(p.tasks) == 1 })
	p.server.WhenIdle(span, func() { calls++ })
	p.pass(100)
	if wake := p.server.NextWake(); wake > p.net.now.Add(epoch) {
		t.Errorf("the loop would sleep for %v", wake.Sub(p.net.now))
	}
	quiet := func(what string, d time.Duration) {
		t.Helper()
		for end := p.net.now.Add(d); p.net.now < end; p.step() {
			if calls != 0 {
				t.Fatalf("idle: %s", what)
			}
		}
	}
	quiet("two handlers run", time.Second)
	is(t, "respond", p.held[0].RespondBytes(nil), nil)
	quiet("a background handler runs", time.Second)
	p.runTasks()
	quiet("the last handler has just returned", span-time.Millisecond)
	p.held = nil
	again := p.enqueue(tHold, 1, 0)
	p.until(func() bool { return len(p.held) == 1 })
	quiet("another handler runs", time.Second)
	is(t, "respond", p.held[0].RespondBytes(nil), nil)
	quiet("that one has just returned", span-time.Millisecond)
	since := p.net.now
	p.until(func() bool { return calls > 0 })
	if late := p.net.now.Sub(since); late > time.Millisecond+2*epoch+2*time.Duration(p.tick) {
		t.Errorf("idle %v later than that", late-time.Millisecond)
	}
	p.until(func() bool { return p.net.now > since.Add(10*span) })
	for _, res := range []*result{inline, background, again} {
		is(t, "the call", res.err, nil)
	}
	if calls != 1 {
		t.Errorf("told %d times", calls)
	}
	p.enqueue(tBackground, 1, 0)
	p.until(func() bool { return len(p.tasks) == 1 })
	is(t, "close", p.client.CloseSession(p.sess), nil)
	p.until(func() bool { return p.server.Sessions() == 0 })
	calls = 0
	p.server.WhenIdle(time.Hour, func() { calls++ })
	quiet("a handler runs whose session has ended", time.Second)
	p.runTasks()
	since = p.net.now
	p.until(func() bool { return calls == 1 }) // nobody can ask for anything again
	if late := p.net.now.Sub(since); late > 2*epoch+2*time.Duration(p.tick) {
		t.Errorf("without sessions idle after %v", late)
	}
	p.close()
}

// parkedEnd is a memEnd whose loop sleeps until somebody wakes it.
type parkedEnd struct {
	*memEnd
	wake chan struct{}
}

func (e *parkedEnd) Wait(time.Duration) error {
	<-e.wake
	return nil
}

func (e *parkedEnd) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// servedPair is a Server in its own goroutine, and a client stepped by hand, in virtual time. It
// lives in a bubble of package synctest.
type servedPair struct {
	errPair
	srv    *erpc.Server
	end    *parkedEnd
	ctxErr error         // of the Func's context when it returned
	ended  chan error    // what Serve returned
	down   chan error    // what Shutdown returned
	downAt time.Duration // when, after it was called
}

// newServedPair makes both with a session between them. Register adds handlers.
func newServedPair(t *testing.T, register ...func(*erpc.Server) error) *servedPair {
	p := &servedPair{ended: make(chan error, 1), down: make(chan error, 1)}
	net := newMemNet()
	p.memPair = &memPair{tb: t, net: net, cend: net.end(true), send: net.end(true), tick: 100_000}
	p.end = &parkedEnd{p.send, make(chan struct{}, 1)}
	cfg := erpc.Config{Wait: erpc.WaitSleep, NoBundles: true}
	cfg.Simulation = erpc.Simulation{Clock: net.Now, Seed: 7, Executor: &p.errPair}
	var err error
	p.srv, err = erpc.NewServer(cfg)
	is(t, "server", err, nil)
	is(t, "handle", p.srv.HandleInline(tHold, func(h erpc.ReqHandle) {
		p.held = append(p.held, h)
	}), nil)
	is(t, "handle", p.srv.Handle(tBackground, func(ctx context.Context, b []byte) ([]byte, error) {
		p.ctxErr = ctx.Err()
		return b, p.ctxErr
	}), nil)
	for _, add := range register {
		is(t, "handle", add(p.srv), nil)
	}
	go func() { p.ended <- p.srv.Serve(p.end) }()
	synctest.Wait()
	t.Cleanup(func() { // of a test that gave up; goroutines must not outlive the bubble
		p.runTasks()
		is(t, "close the server", p.srv.Close(), nil)
	})
	n, err := erpc.NewNexus(cfg)
	is(t, "nexus", err, nil)
	p.client, err = n.NewRpc(p.cend)
	is(t, "client", err, nil)
	p.sess, err = p.client.CreateSessionTo(p.send.addr)
	is(t, "session", err, nil)
	p.stepUntil(func() bool { return p.sess.Connected() })
	return p
}

// step lets the client make a pass, and the server as many as it wants.
func (p *servedPair) step() {
	p.net.now += p.tick
	p.run(p.client)
	p.end.Wake()
	synctest.Wait()
}

// runTasks runs the background handlers that wait. Their answers wake the server.
func (p *servedPair) runTasks() {
	p.errPair.runTasks()
	synctest.Wait()
}

func (p *servedPair) stepUntil(cond func() bool) {
	p.tb.Helper()
	for end := p.net.now + 30e9; !cond(); p.step() {
		if p.net.now > end {
			p.tb.Fatal("it never happened")
		}
	}
}

// shutdown begins to shut down.
func (p *servedPair) shutdown() {
	go func() {
		from := p.net.now
		err := p.srv.Shutdown(context.Background())
		p.downAt = p.net.now.Sub(from)
		p.down <- err
	}()
	synctest.Wait()
	p.step()
}

// finish waits until the server is down.
func (p *servedPair) finish(t *testing.T) {
	t.Helper()
	p.stepUntil(func() bool { return len(p.down) > 0 && len(p.ended) > 0 })
	is(t, "Shutdown", <-p.down, nil)
	is(t, "Serve", <-p.ended, erpc.ErrClosed)
	is(t, "close", p.client.Close(), nil)
}

// TestShutdownWaits: Shutdown waits for a handler of either kind, however long that takes, and
// then for as long as a lost response may be asked for again.
func TestShutdownWaits(t *testing.T) {
	const long = 2 * time.Second
	for typ, name := range map[uint8]string{tHold: "inline", tBackground: "background"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newServedPair(t)
				res := p.enqueue(typ, 10, 0)
				p.stepUntil(func() bool { return len(p.held)+len(p.tasks) == 1 })
				p.shutdown()
				for end := p.net.now.Add(long); p.net.now < end; p.step() {
					if len(p.down) != 0 {
						t.Fatalf("Shutdown returned after %v while the handler ran", p.downAt)
					}
				}
				if typ == tHold {
					is(t, "respond", p.held[0].RespondBytes(p.held[0].Data()), nil)
				}
				p.runTasks()
				p.stepUntil(func() bool { return res.ends > 0 })
				is(t, "the call", res.err, nil)
				is(t, "the handler's context", p.ctxErr, nil)
				p.finish(t)
				const grace, slack = 50 * time.Millisecond, 3*epoch + time.Millisecond
				if p.downAt < long+grace || p.downAt > long+grace+slack {
					t.Errorf("Shutdown took %v, the handler %v of it", p.downAt, long)
				}
			})
		})
	}
}

// TestShutdownAnswersAgain: the last response before the server goes down is lost. The client asks
// for it again and gets it.
func TestShutdownAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newServedPair(t)
		lost := 0
		p.cend.lose = func(pkt []byte) bool {
			var h wire.Header
			if h.Parse(pkt) != nil || h.Type != wire.TypeResp || lost == 2 {
				return false
			}
			lost++
			return true
		}
		res := p.enqueue(tHold, 10, 0)
		p.stepUntil(func() bool { return len(p.held) == 1 })
		p.shutdown()
		is(t, "respond", p.held[0].RespondBytes([]byte{5}), nil)
		p.stepUntil(func() bool { return res.ends > 0 })
		is(t, "the call", res.err, nil)
		if lost != 2 || len(res.resp) != 1 || res.resp[0] != 5 {
			t.Errorf("%d responses were lost, then %v came", lost, res.resp)
		}
		p.finish(t)
	})
}

// TestCloseWaits: Close ends the contexts of handlers, and waits until they have returned.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newServedPair(t)
		res := p.enqueue(tBackground, 10, 0)
		p.stepUntil(func() bool { return len(p.tasks) == 1 })
		go func() { p.down <- p.srv.Close() }()
		synctest.Wait()
		for range 1000 {
			p.step()
		}
		if len(p.down)+len(p.ended) != 0 {
			t.Error("Close returned while a handler ran")
		}
		late := p.enqueue(tHold, 10, 0)
		p.stepUntil(func() bool { return late.ends > 0 })
		is(t, "a new request", late.err, erpc.ErrDraining)
		p.runTasks()
		is(t, "the handler's context", p.ctxErr, context.Canceled)
		p.finish(t)
		if res.ends != 1 || res.err == nil {
			t.Errorf("the call ended %d times with %v", res.ends, res.err)
		}
	})
}
