package erpc

import (
	"context"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// handlerContext is the context of one request of a Server. A handler that does not use it pays for
// the struct alone: its channel, its timer, and the listener to the server's end are made when
// something waits for them first.
//
// It ends with the first of: the handler's return, the client's cancellation, the deadline, the end
// of the session, the end of the server. The loop ends it by job.cancel.
type handlerContext struct {
	h        ReqHandle
	server   context.Context
	deadline Time // 0 if none

	mu       sync.Mutex
	err      error         // why it ended
	done     chan struct{} // made by Done
	watching bool          // timer and unwatch are set
	timer    *time.Timer   // nil without a deadline
	unwatch  func() bool   // stops watching the server
	at       time.Time     // the deadline, once it was asked for
	after    map[*func()]struct{}
}

// handleKey is the key of the handle in a handlerContext.
type handleKey struct{}

// HandleFrom returns the request that a context is of: the one that a Func of a Server got, or one
// made from it. It is there for Peer, Type, Session and the like: the values that a Func
// returns are its answer. After that the handle says that no request waits.
func HandleFrom(ctx context.Context) (ReqHandle, bool) {
	h, ok := ctx.Value(handleKey{}).(ReqHandle)
	return h, ok
}

// newHandlerContext returns the context of a background request.
func newHandlerContext(h ReqHandle, server context.Context) *handlerContext {
	c := &handlerContext{h: h, server: server, deadline: h.job.deadline}
	h.job.ctx.Store(c)
	if h.job.cancelled.Load() { // just before the loop could know of c
		c.end(context.Canceled)
	}
	return c
}

// Shorten has the context that HandleRequest gave for the request end after so much time from now,
// if it would not end before: for formats whose requests carry a finer deadline than packets, which
// round it up by at most a sixteenth. It does nothing for requests that have no context.
func (r ReqHandle) Shorten(left time.Duration) {
	now := r.Rpc().clock()
	if c := r.job.ctx.Load(); c != nil && left < monotime.Never.Sub(now) { // else it is for ever
		c.shorten(now.Add(left))
	}
}

// Cancel ends the context that HandleRequest gave for the request, as when its client gives it up:
// for formats whose connections end before their sessions do. It does nothing when the handler has
// returned.
func (r ReqHandle) Cancel() {
	if c := r.job.ctx.Load(); c != nil && c.h == r {
		c.end(context.Canceled)
	}
}

// shorten moves the deadline to an earlier time.
func (c *handlerContext) shorten(at Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.deadline != 0 && c.deadline <= at {
		return
	}
	c.deadline, c.at = at, time.Time{}
	if c.watching {
		if c.timer != nil {
			c.timer.Stop()
		}
		c.setTimer()
	}
}

// finish ends the context when its handler has returned. The job may be another request's by now,
// if the handler has answered itself.
func (c *handlerContext) finish() {
	c.h.job.ctx.CompareAndSwap(c, nil)
	c.end(context.Canceled)
}

// end ends the context.
func (c *handlerContext) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.close(why)
	}
}

// close is end with the lock held, once.
func (c *handlerContext) close(why error) {
	c.err = why
	if c.done != nil {
		close(c.done)
	}
	if c.watching {
		c.unwatch()
		if c.timer != nil {
			c.timer.Stop()
		}
	}
	for f := range c.after {
		go (*f)()
	}
	c.after = nil
}

// check ends the context if it is time, and returns why it ended. The lock is held.
func (c *handlerContext) check() error {
	if c.err != nil {
		return c.err
	}
	if at := c.deadline; at != 0 && c.h.Rpc().clock() >= at {
		c.close(context.DeadlineExceeded)
	} else if c.server.Err() != nil {
		c.close(context.Canceled)
	}
	return c.err
}

// watch makes the context end by itself. The lock is held, and it has not ended.
func (c *handlerContext) watch() {
	if c.watching {
		return
	}
	c.watching = true
	c.unwatch = context.AfterFunc(c.server, func() { c.end(context.Canceled) })
	if c.deadline != 0 {
		c.setTimer()
	}
}

// setTimer makes the context end at its deadline. The lock is held.
func (c *handlerContext) setTimer() {
	left := c.deadline.Sub(c.h.Rpc().clock())
	c.timer = time.AfterFunc(left, func() { c.end(context.DeadlineExceeded) })
}

// Deadline implements context.Context: when the client gives the request up; see ReqHandle.
func (c *handlerContext) Deadline() (at time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() && c.err == nil && c.deadline != 0 {
		c.at = monotime.WallAfter(c.deadline.Sub(c.h.Rpc().clock()))
	}
	return c.at, !c.at.IsZero()
}

// closedChan is the Done of contexts that ended before anybody asked.
var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done implements context.Context.
func (c *handlerContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.done != nil:
	case c.check() != nil:
		c.done = closedChan
	default:
		c.done = make(chan struct{})
		c.watch()
	}
	return c.done
}

// Err implements context.Context.
func (c *handlerContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.check()
}

// Value implements context.Context.
func (c *handlerContext) Value(key any) any {
	if key == (handleKey{}) {
		return c.h
	}
	return nil
}

// AfterFunc has f run in a goroutine of its own when the context has ended. Stop undoes that, and
// reports whether it did. Package context uses it, in place of a goroutine for each context that is
// made from this one.
func (c *handlerContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.check() != nil {
		go f()
		return func() bool { return false }
	}
	c.watch()
	if c.after == nil {
		c.after = make(map[*func()]struct{})
	}
	key := &f
	c.after[key] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, there := c.after[key]
		delete(c.after, key)
		return there
	}
}
