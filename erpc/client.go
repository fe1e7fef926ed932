package erpc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// Client calls one server from any number of goroutines. It runs its own Rpc in a
// goroutine of its own, and opens a new session when the old one fails. It never
// repeats a call.
//
// Before it opens a new session it looks the server's name up again, in another goroutine.
// Calls wait meanwhile, for name and session together at most Timing.ConnectTimeout. If the
// lookup fails, or takes more than half of that, the address found last is tried. If that is
// in vain too, the calls' errors match ErrResolve beside ErrConnect or ErrRefused.
type Client struct {
	rpc    *Rpc
	nexus  *Nexus
	text   string        // the server's address as Dial was given it
	done   chan struct{} // the loop has ended
	closed atomic.Bool
	err    error // why the loop ended; read after done

	// In the loop only.
	sess      *Session       // open or on its way
	addr      transport.Addr // what text was last resolved to
	redial    redial
	waiting   []chan error // Dial and Ready, which wait for a session
	parked    []*goCall    // calls that do
	delivered bool         // a call has ended in this pass: let its goroutine run
	over      bool         // the loop is ending
	failedAt  monotime.Time
	failure   error
}

// Dial makes a Client of the server at addr (text that tr resolves) and waits until
// the session is open. Dial owns tr. Errors: a *ConfigError, ErrResolve with the cause
// that tr gave, ErrRefused, ErrConnect, or the context's as in Call. If ctx ends while
// tr.Resolve is at work, Dial closes tr and returns; a goroutine stays until Resolve does.
func Dial(ctx context.Context, tr transport.Transport, addr string, cfg Config) (*Client, error) {
	to, err := resolve(ctx, tr, addr)
	if err != nil {
		return nil, errors.Join(err, tr.Close())
	}
	c := &Client{text: addr, addr: to, done: make(chan struct{})}
	user := cfg.OnSession
	cfg.OnSession = func(r *Rpc, s *Session, ev SessionEvent) {
		c.onSession(s, ev)
		if user != nil {
			user(r, s, ev)
		}
	}
	if c.nexus, err = NewNexus(cfg); err != nil {
		return nil, errors.Join(err, tr.Close())
	}
	if c.rpc, err = c.nexus.NewRpc(tr); err != nil {
		return nil, err
	}
	go c.loop()
	if err = c.Ready(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Ready waits until a session to the server is open, opening one if there is none. Errors
// are those of a call that could not be sent.
func (c *Client) Ready(ctx context.Context) error {
	ready := make(chan error, 1)
	err := c.rpc.Post(func(*Rpc) {
		if _, err := c.session(); err != errWait {
			ready <- err
			return
		}
		c.waiting = append(c.waiting, ready)
	})
	if err != nil {
		return err
	}
	select {
	case err = <-ready:
		return err
	case <-ctx.Done():
		return contextError(ctx)
	case <-c.done:
		return ErrClosed
	}
}

// loop runs the event loop until Close.
func (c *Client) loop() {
	defer close(c.done)
	for !c.closed.Load() {
		work, err := c.rpc.RunOnce()
		if err == nil {
			if c.delivered {
				c.delivered = false
				runtime.Gosched()
			}
			err = c.rpc.pause(work, -1)
		}
		if err != nil {
			c.err = err
			break
		}
	}
	c.over = true
	c.stopAsking()
	c.tell(ErrClosed)
	c.err = errors.Join(c.err, c.rpc.Close(), c.nexus.Close())
}

// Close ends the session and the loop. Calls under way end with ErrClosed. It does not
// wait for a lookup of the server's name, which cannot be ended: the lookup's goroutine
// ends when the transport's Resolve returns.
func (c *Client) Close() error {
	if !c.closed.Swap(true) {
		c.rpc.Wake()
	}
	<-c.done
	return c.err
}

// Stats returns the counters of the Client's Rpc.
func (c *Client) Stats() Stats { return c.rpc.Stats() }

// goCall is one Client.Call between two goroutines. The caller fills it and waits for
// ended; the loop writes the result. After a call that was given up the struct is
// left to the garbage collector, since the loop may still meet it.
type goCall struct {
	client  *Client
	req     []byte
	resp    []byte // appended to
	err     error
	id      RequestID
	typ     uint8
	started bool // loop only, as the next two
	parked  bool // it waits for a session
	over    bool
	ended   chan struct{}
	finish  Continuation // c.onDone, bound once
}

var calls = sync.Pool{New: func() any {
	k := &goCall{ended: make(chan struct{}, 1)}
	k.finish = k.onDone
	return k
}}

// Call sends request to the server's handler for reqType and returns its response,
// in memory of its own. It may be called from any number of goroutines. When ctx
// ends first the error matches ErrDeadline or ErrCancelled and the context's own,
// and the server may or may not have run the request. Other errors: see ErrClosed
// and its neighbours; the server's are *RemoteError. If there is no session the call
// waits for one, see Client.
func (c *Client) Call(ctx context.Context, reqType uint8, request []byte) ([]byte, error) {
	return c.AppendCall(ctx, nil, reqType, request)
}

// AppendCall is Call with the response appended to buf, for callers that reuse memory.
func (c *Client) AppendCall(ctx context.Context, buf []byte, reqType uint8, request []byte) ([]byte, error) {
	if ctx.Err() != nil {
		return buf, contextError(ctx)
	}
	if c.closed.Load() {
		return buf, ErrClosed
	}
	k := calls.Get().(*goCall)
	k.client, k.typ, k.req, k.resp, k.err, k.started, k.over = c, reqType, request, buf, nil, false, false
	if !c.rpc.post(command{c: k}) {
		return buf, ErrClosed
	}
	select {
	case <-k.ended:
	case <-ctx.Done():
		if c.rpc.post(command{c: k}) { // the second time means cancel
			<-k.ended
		} else {
			return buf, ErrClosed
		}
		if k.err != nil {
			return buf, contextError(ctx)
		}
		return k.resp, nil // it ended just before
	}
	resp, err := k.resp, k.err
	k.client, k.req, k.resp = nil, nil, nil
	calls.Put(k)
	return resp, err
}

// onLoop starts the call, or cancels it if it has been started.
func (k *goCall) onLoop(r *Rpc) {
	switch {
	case !k.started:
		k.started = true
		k.begin(r)
	case k.over:
	case k.parked:
		k.end(ErrCancelled) // Client.tell leaves it out
	default:
		r.cancel(k.id)
	}
}

// begin sends the request, or parks the call until there is a session.
func (k *goCall) begin(r *Rpc) {
	k.parked = false
	s, err := k.client.session()
	if err == errWait && len(k.client.parked) >= r.cfg.MaxQueue {
		err = ErrExhausted
	}
	if err == errWait {
		k.parked = true
		k.client.parked = append(k.client.parked, k)
		return
	}
	if err == nil {
		err = k.send(r, s)
	}
	if err != nil {
		k.end(err)
	}
}

func (k *goCall) send(r *Rpc, s *Session) error {
	req, err := r.Alloc(len(k.req))
	if err != nil {
		return err
	}
	copy(req.Data(), k.req)
	k.id, err = r.start(s, &Request{Type: k.typ, Req: req, Done: k.finish})
	if err != nil {
		req.Free()
	}
	return err
}

// onDone is the call's continuation.
func (k *goCall) onDone(c Completion) {
	if c.Err == nil {
		k.resp = append(k.resp, c.Resp.Data()...)
	}
	c.Req.Free()
	if c.Resp != nil {
		c.Resp.Free()
	}
	k.end(c.Err)
}

func (k *goCall) end(err error) {
	k.err = err
	k.over = true
	k.client.delivered = true
	k.ended <- struct{}{}
}

// contextError gives a context's end the library's name; it matches both.
func contextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrDeadline, ctx.Err())
	}
	return fmt.Errorf("%w: %w", ErrCancelled, ctx.Err())
}
