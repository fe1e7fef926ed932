package erpc

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// contextRig makes contexts of requests whose Rpc goes by the time of a bubble.
type contextRig struct {
	rpc    *Rpc
	server context.Context
	close  context.CancelFunc
}

func newContextRig(t *testing.T) *contextRig {
	st := newStub(t, Config{})
	begin := time.Now()
	st.Rpc.source = func() Time { return Time(1e9).Add(time.Since(begin)) }
	g := &contextRig{rpc: st.Rpc}
	g.server, g.close = context.WithCancel(context.Background())
	return g
}

// request makes a request that has so much time left, 0 for any.
func (g *contextRig) request(left time.Duration) (*job, *handlerContext) {
	j := new(job)
	if left > 0 {
		j.deadline = g.rpc.clock().Add(left)
	}
	h := ReqHandle{s: &serverEnd{Session: Session{rpc: g.rpc}}, job: j}
	return j, newHandlerContext(h, g.server)
}

// ended says why a context has ended, by Done and Err alike.
func ended(t *testing.T, c context.Context) error {
	t.Helper()
	synctest.Wait()
	err := c.Err()
	select {
	case <-c.Done():
		if err == nil {
			t.Error("Done is closed, and Err is nil")
		}
	default:
		if err != nil {
			t.Errorf("Done is open, and Err is %v", err)
		}
	}
	return err
}

// TestHandlerContextEnds: each way in which a context ends, watched before and asked only then.
func TestHandlerContextEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(g *contextRig, j *job, c *handlerContext)
		want error
	}{
		"cancelled": {func(_ *contextRig, j *job, _ *handlerContext) { j.cancel() },
			context.Canceled},
		"deadline": {func(*contextRig, *job, *handlerContext) { <-time.After(time.Hour) },
			context.DeadlineExceeded},
		"shortened": {func(_ *contextRig, _ *job, c *handlerContext) {
			c.h.Shorten(time.Minute)
			<-time.After(time.Minute)
		}, context.DeadlineExceeded},
		"before shortened": {func(_ *contextRig, _ *job, c *handlerContext) {
			c.h.Shorten(time.Minute)
			<-time.After(time.Minute - 1)
		}, nil},
		"not for ever": {func(_ *contextRig, _ *job, c *handlerContext) {
			c.h.Shorten(math.MaxInt64)
		}, nil},
		"not lengthened": {func(_ *contextRig, _ *job, c *handlerContext) {
			c.h.Shorten(2 * time.Hour)
			<-time.After(time.Hour)
		}, context.DeadlineExceeded},
		"server": {func(g *contextRig, _ *job, _ *handlerContext) { g.close() },
			context.Canceled},
		"by the server": {func(_ *contextRig, _ *job, c *handlerContext) { c.h.Cancel() },
			context.Canceled},
		"another's": {func(_ *contextRig, _ *job, c *handlerContext) {
			other := c.h
			other.reqNum++
			other.Cancel()
		}, nil},
		"return": {func(_ *contextRig, _ *job, c *handlerContext) { c.finish() },
			context.Canceled},
		"before deadline": {func(*contextRig, *job, *handlerContext) {
			<-time.After(time.Hour - 1)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newContextRig(t)
				defer g.close()
				j, lazy := g.request(time.Hour)
				c.end(g, j, lazy)
				if err := ended(t, lazy); err != c.want {
					t.Errorf("lazy: %v, want %v", err, c.want)
				}
				lazy.finish()

				g = newContextRig(t)
				defer g.close()
				j, watched := g.request(time.Hour)
				done := watched.Done()
				child, cancel := context.WithCancel(watched)
				defer cancel()
				ran := 0
				context.AfterFunc(watched, func() { ran++ })
				stop := context.AfterFunc(watched, func() { ran += 10 })
				if !stop() || stop() {
					t.Error("stop did not say whether it stopped the function")
				}
				if stop = watched.AfterFunc(func() { ran += 10 }); !stop() || stop() {
					t.Error("stop did not say whether it stopped the function")
				}
				apart := context.WithoutCancel(watched)
				c.end(g, j, watched)
				synctest.Wait()
				select {
				case <-done:
					if c.want == nil {
						t.Error("Done is closed")
					}
				default:
					if c.want != nil {
						t.Error("Done is open") // nobody has asked for Err
					}
				}
				err := ended(t, watched)
				if err != c.want || child.Err() != c.want || context.Cause(child) != c.want {
					t.Errorf("watched: %v, its child: %v, want %v", err, child.Err(), c.want)
				}
				if done != watched.Done() {
					t.Error("Done has changed")
				}
				if ran > 1 || (ran == 1) != (c.want != nil) {
					t.Errorf("AfterFunc's function: %d", ran)
				}
				if apart.Err() != nil {
					t.Error("WithoutCancel ended")
				}
				if h, ok := HandleFrom(apart); !ok || h != watched.h {
					t.Error("no handle in a context made from another one")
				}
				watched.finish()
				if err := ended(t, watched); c.want == nil && err != context.Canceled || err == nil {
					t.Errorf("in the end: %v", err)
				}
			})
		})
	}
}

// TestHandlerContextBegins: events from before there was a context count, and events of the next
// request of the job do not.
func TestHandlerContextBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newContextRig(t)
		defer g.close()
		j, one := g.request(0)
		if _, ok := one.Deadline(); ok || ended(t, one) != nil {
			t.Error("a new context has a deadline, or has ended")
		}
		one.finish()
		at, ok := one.Deadline()
		if ok {
			t.Errorf("deadline %v after the end", at)
		}
		j.cancelled.Store(true)
		two := newHandlerContext(ReqHandle{s: one.h.s, job: j}, g.server)
		if err := ended(t, two); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before: %v", err)
		}
		j.cancelled.Store(false)
		three := newHandlerContext(ReqHandle{s: one.h.s, job: j}, g.server)
		two.finish() // late: the job is another request's
		j.cancel()
		if err := ended(t, three); !errors.Is(err, context.Canceled) {
			t.Errorf("the next request of the job: %v", err)
		}
		three.finish()
		if j.ctx.Load() != nil {
			t.Error("the job keeps its context")
		}
		_, four := g.request(time.Hour)
		four.Done()
		four.finish()
		if four.timer.Stop() {
			t.Error("the timer runs on")
		}
		if _, ok := HandleFrom(context.Background()); ok {
			t.Error("a handle in a context of no request")
		}
	})
}

// TestHandlerContextCheap: a handler that does not use its context pays for one struct, and leaves
// no goroutine, timer or listener behind.
func TestHandlerContextCheap(t *testing.T) {
	g := newContextRig(t)
	defer g.close()
	j, c := g.request(time.Hour)
	h := c.h
	c.finish()
	if c.watching || c.done != nil {
		t.Error("an unused context watches something")
	}
	if n := testing.AllocsPerRun(100, func() { newHandlerContext(h, g.server).finish() }); n > 1 {
		t.Errorf("%v allocations", n)
	}
	_ = j
}

func BenchmarkHandlerContext(b *testing.B) {
	st := newStub(b, Config{})
	h := ReqHandle{s: &serverEnd{Session: Session{rpc: st.Rpc}}, job: new(job)}
	b.ReportAllocs()
	for b.Loop() {
		newHandlerContext(h, context.Background()).finish()
	}
}
