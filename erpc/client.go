package erpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// goCall is one Client.Call between two goroutines. The caller fills it and waits for
// ended; the loop writes the result. After a call that was given up the struct is
// left to the garbage collector, since the loop may still meet it.
type goCall struct {
	client  *Client
	req     []byte // nil for a request that is in msg alone
	size    int    // of the request
	resp    []byte // appended to
	err     error
	typ     uint8
	timeout time.Duration // the time that the context has left; 0: it has no deadline
	msg     *MsgBuffer    // a copy of req that the caller made; nil if the loop makes it
	large   *MsgBuffer    // a response that the caller copies, with the loop's memory
	place   InPlace       // writes the request and reads the response; or nil
	spare   [2][]byte     // memory for small ones of both, for calls with a place
	// Of a Pool's call: another server may have room.
	elsewhere bool
	ended     chan struct{}
	finish    Continuation        // k.onDone, bound once
	done      func([]byte, error) // of Start; nil for a Call
	told      atomic.Bool         // done has been called, or never will be

	// In the loop only.
	id         RequestID
	trace      *CallTrace     // or nil
	deadline   monotime.Time  // 0 if none
	session    *clientSession // of the session that it is in
	prev, next *goCall        // in the queue
	refusal    error          // why the server of a Pool refused it last
	queued     bool
	started    bool
	over       bool
}

var calls = sync.Pool{New: func() any {
	k := &goCall{ended: make(chan struct{}, 1)}
	k.finish = k.onDone
	return k
}}

// Call sends request to the server's handler for reqType and returns its response,
// in memory of its own. It may be called from any number of goroutines. When ctx
// ends first the error matches ErrDeadline or ErrCancelled and the context's own; the server
// learns ctx's deadline and its end. Other errors: see ErrNotRun and its neighbours; the
// server's are *Error. The server may or may not have run the request, unless the error matches
// ErrNotRun. If there is no session or no free slot the call waits for one, see Client.
func (c *Client) Call(ctx context.Context, reqType uint8, request []byte) ([]byte, error) {
	return c.call(ctx, nil, reqType, request, false)
}

// AppendCall is Call with the response appended to buf, for callers that reuse memory.
func (c *Client) AppendCall(
	ctx context.Context, buf []byte, reqType uint8, request []byte,
) ([]byte, error) {
	return c.call(ctx, buf, reqType, request, false)
}

// call is AppendCall. Elsewhere says that another server may be asked if this one has no room.
func (c *Client) call(
	ctx context.Context, buf []byte, reqType uint8, request []byte, elsewhere bool,
) ([]byte, error) {
	k, err := c.newCall(ctx, reqType)
	if err != nil {
		return buf, err
	}
	k.req, k.size, k.resp, k.elsewhere = request, len(request), buf, elsewhere
	if len(request) >= largeMessage {
		k.msg = c.loop.copyIn(request)
	}
	reusable, err := k.run(ctx)
	if err != nil {
		return buf, err
	}
	k.fetch()
	resp, err := k.resp, k.err
	if reusable {
		k.recycle()
	}
	return resp, err
}

// newCall returns a call without a request.
func (c *Client) newCall(ctx context.Context, reqType uint8) (*goCall, error) {
	if ctx.Err() != nil {
		return nil, unsent(contextError(ctx))
	}
	if c.closed.Load() {
		return nil, c.closedError()
	}
	k := calls.Get().(*goCall)
	k.client, k.typ = c, reqType
	k.err, k.started, k.over = nil, false, false
	k.timeout, k.elsewhere, k.refusal = 0, false, nil
	if k.trace = traceOf(ctx); k.trace != nil {
		*k.trace = CallTrace{Called: c.rpc.clock()}
	}
	if at, ok := ctx.Deadline(); ok {
		k.timeout = max(monotime.Until(at), 1)
	}
	return k, nil
}

// run gives the call to the loop and waits for its end. The result is in k unless run returns an
// error. Reusable says that the loop does not meet k again.
func (k *goCall) run(ctx context.Context) (reusable bool, err error) {
	c := k.client
	if !c.rpc.post(command{c: k}) {
		return false, unsent(ErrClosed)
	}
	gone := ctx.Done()
	if gone == nil {
		<-k.ended // a select takes longer
		return true, nil
	}
	select {
	case <-k.ended:
		return true, nil
	case <-gone:
	}
	if !c.rpc.post(command{c: k}) { // the second time means cancel
		return false, ErrClosed
	}
	<-k.ended
	switch {
	case errors.Is(k.err, ErrNotRun):
		return false, unsent(contextError(ctx))
	case k.err != nil:
		return false, contextError(ctx)
	}
	return false, nil // it ended just before
}

// Start is Call without waiting: done is called once, in the loop, with the response or an error.
// The response belongs to the library when done has returned; the request is the library's until
// done is called. Done must not block, nor close the Client; it uses StartInLoop. The call has no
// deadline and cannot be cancelled: it is for requests that the server answers some time or other.
// The error is ErrClosed, and then done is never called.
func (c *Client) Start(
	reqType uint8, request []byte, done func(response []byte, err error),
) error {
	if c.closed.Load() {
		return c.closedError()
	}
	k := newStart(c, reqType, request, done)
	if !c.rpc.post(command{c: k}) && !k.told.Swap(true) {
		return unsent(ErrClosed)
	}
	return nil
}

// StartInLoop is Start for callbacks of the loop, such as the done of another call: it does not
// wait for room in the ring that leads into the loop. It must be called nowhere else.
func (c *Client) StartInLoop(
	reqType uint8, request []byte, done func(response []byte, err error),
) error {
	if c.closed.Load() || c.over {
		return unsent(ErrClosed)
	}
	newStart(c, reqType, request, done).onLoop(c.rpc)
	return nil
}

func newStart(c *Client, reqType uint8, request []byte, done func([]byte, error)) *goCall {
	k := &goCall{client: c, typ: reqType, req: request, size: len(request), done: done}
	k.finish = k.onDone
	return k
}

// recycle gives the struct of a call back that has ended.
func (k *goCall) recycle() {
	k.client, k.req, k.resp, k.trace, k.place = nil, nil, nil, nil, nil
	calls.Put(k)
}

// onLoop starts the call, or cancels it if it has been started.
func (k *goCall) onLoop(r *Rpc) {
	switch {
	case !k.started:
		k.started = true
		k.begin(r)
	case k.over:
	case k.queued:
		k.client.queue.remove(k)
		k.end(unsent(ErrCancelled))
	default:
		r.cancel(k.id)
	}
}

// begin sends the request, or lets it wait for a session or a slot.
func (k *goCall) begin(r *Rpc) {
	c := k.client
	if c.member != nil && c.member.state != ServerReady {
		k.deliver(errNotSent)
		return
	}
	if c.calls >= r.cfg.MaxQueue {
		k.deliver(unsent(ErrExhausted))
		return
	}
	c.calls++
	if k.deadline = 0; k.timeout > 0 {
		k.deadline = r.engine.in.Now.Add(k.timeout)
	}
	if c.queue.n == 0 {
		if l := c.pick(); l != nil {
			k.send(l)
			return
		}
	}
	c.queue.pushBack(k)
	if err := c.want(); err != nil {
		c.queue.remove(k)
		k.end(unsent(err))
	}
}

// send sends the request in a session that has a free slot.
func (k *goCall) send(l *clientSession) {
	r := k.client.rpc
	req := k.takeCopy()
	var err error
	if req == nil && k.req == nil && k.size > 0 { // the loop is ending
		k.end(unsent(ErrClosed))
		return
	}
	if req == nil {
		if req, err = r.Alloc(k.size); err != nil {
			k.end(unsent(err))
			return
		}
		copy(req.Data(), k.req)
	}
	k.id, err = r.start(l.s, &Request{
		Type: k.typ, Req: req, Done: k.finish, Trace: k.trace,
	}, k.deadline)
	if err != nil {
		req.Free()
		k.end(unsent(err))
		return
	}
	k.session = l
	k.client.bytes += k.size
	k.client.occupy(l)
}

// onDone is the call's continuation.
func (k *goCall) onDone(d Completion) {
	c, l := k.client, k.session
	k.session = nil
	c.bytes -= k.size
	c.vacate(l)
	if d.Err != nil && k.req == nil {
		k.keep(d.Req) // it may be sent again
	} else {
		d.Req.Free()
	}
	if d.Err == nil && k.done == nil && len(d.Resp.Data()) >= largeMessage {
		k.large, d.Resp = d.Resp, nil
		c.loop.copies.hold(k.large)
	} else if d.Err == nil && k.done == nil {
		k.resp = append(k.resp, d.Resp.Data()...)
	} else if d.Err == nil {
		k.resp = d.Resp.Data()
	}
	if d.Err == nil || !c.again(k, l, d.Err) {
		k.end(d.Err)
		if c.queue.n > 0 {
			c.serveNext()
		}
	}
	if d.Resp != nil {
		d.Resp.Free()
	}
}

// end ends a call that has begun.
func (k *goCall) end(err error) {
	c := k.client
	c.calls--
	k.deliver(err)
	if c.member != nil && c.calls == 0 {
		c.member.emptied()
	}
}

// deliver hands the result to the caller.
func (k *goCall) deliver(err error) {
	if msg := k.takeCopy(); msg != nil {
		msg.Free()
	}
	k.err = err
	k.over = true
	k.client.rpc.engine.handed++
	if k.done != nil {
		if !k.told.Swap(true) {
			k.done(k.resp, err)
		}
		return
	}
	k.ended <- struct{}{}
}

// contextError gives a context's end the library's name; it matches both.
func contextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrDeadline, ctx.Err())
	}
	return fmt.Errorf("%w: %w", ErrCancelled, ctx.Err())
}
