package erpc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// redialAfter is how long a Client fails calls at once after it could not connect.
const redialAfter = 20 * time.Millisecond

// Client calls one server from any number of goroutines. It runs its own Rpc in a
// goroutine of its own, and opens a new session when the old one fails. It never
// repeats a call.
type Client struct {
	rpc    *Rpc
	nexus  *Nexus
	text   string         // the server's address as Dial was given it
	addr   transport.Addr // what it was last resolved to
	done   chan struct{}  // the loop has ended
	closed atomic.Bool
	err    error // why the loop ended; read after done

	// In the loop only.
	sess      *Session
	dialed    bool // a session has been opened with addr as it is
	delivered bool // a call has ended in this pass: let its goroutine run
	failedAt  monotime.Time
	failure   error
	waiting   []chan error // Dial and Ready
}

// Dial makes a Client of the server at addr (text that tr resolves) and waits until
// the session is open. Dial owns tr. Errors: a *ConfigError, those of Resolve,
// ErrRefused, ErrConnect, or the context's.
func Dial(ctx context.Context, tr transport.Transport, addr string, cfg Config) (*Client, error) {
	to, err := tr.Resolve(addr)
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

// Ready waits until a session to the server is open, opening one if there is none.
func (c *Client) Ready(ctx context.Context) error {
	ready := make(chan error, 1)
	err := c.rpc.Post(func(*Rpc) {
		s, err := c.session()
		switch {
		case err != nil:
			ready <- err
		case s.Connected():
			ready <- nil
		default:
			c.waiting = append(c.waiting, ready)
		}
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
	c.err = errors.Join(c.err, c.rpc.Close(), c.nexus.Close())
}

// Close ends the session and the loop. Calls under way end with ErrClosed.
func (c *Client) Close() error {
	if !c.closed.Swap(true) {
		c.rpc.Wake()
	}
	<-c.done
	return c.err
}

// Stats returns the counters of the Client's Rpc.
func (c *Client) Stats() Stats { return c.rpc.Stats() }

// session returns the current session, or a new one.
func (c *Client) session() (*Session, error) {
	if c.sess != nil {
		return c.sess, nil
	}
	if c.failure != nil && c.rpc.readClock().Sub(c.failedAt) < redialAfter {
		return nil, c.failure
	}
	if c.dialed {
		// A server that was started again may have another address under the same name.
		if to, err := c.rpc.resolve(c.text); err == nil {
			c.addr = to
		}
	}
	s, err := c.rpc.CreateSessionTo(c.addr)
	c.sess, c.dialed = s, true
	return s, err
}

// onSession follows the session's fate, in the loop.
func (c *Client) onSession(s *Session, ev SessionEvent) {
	if s != c.sess {
		return
	}
	c.failure = nil
	if ev != SessionConnected {
		c.sess = nil
		if ev == SessionRefused {
			c.failure, c.failedAt = s.Err(), c.rpc.readClock()
		}
	}
	for _, w := range c.waiting {
		w <- s.Err()
	}
	c.waiting = c.waiting[:0]
}

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
	started bool // loop only
	over    bool // loop only
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
// and its neighbours; the server's are *RemoteError.
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
	if !k.started {
		k.started = true
		if err := k.start(r); err != nil {
			k.end(err)
		}
		return
	}
	if !k.over {
		r.cancel(k.id)
	}
}

func (k *goCall) start(r *Rpc) error {
	s, err := k.client.session()
	if err != nil {
		return err
	}
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
