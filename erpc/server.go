package erpc

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// shutdownGrace is how long a Server goes on answering repeated packets after its
// last handler has finished, so that a lost response can be sent again.
const shutdownGrace = 50 * time.Millisecond

// Func is a handler of a Server. It may block, and hundreds of them may run at a time. It runs in a
// goroutine of the background pool, or in the one that runs the event loop: handlers of types that
// return within some microseconds do. If one blocks after all, another goroutine goes on with the
// loop a few milliseconds later. With Config.Workers all run in the pool.
//
// Handle and HandleBorrowed say whose memory request is. The response is copied before Func's
// goroutine goes on; it may be request itself. An error travels as ReqHandle.RespondError says:
// return an *Error to give it a code and details. A panic becomes ErrPanic.
//
// The context has the client's deadline. It ends when Func returns, when the client gives the call
// up, and when the session or the server ends. HandleFrom finds the request in it: the peer's
// address, the session and its user data. A request that was given up before it ran does not run.
type Func func(ctx context.Context, request []byte) ([]byte, error)

// Server serves handlers from any number of transports, one event loop each. It is
// the simple way to serve; a Nexus and its Rpcs give full control.
type Server struct {
	nexus  *Nexus
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	rpcs    []served
	closed  bool
	loops   sync.WaitGroup
	expired atomic.Bool // a Shutdown's context has ended
}

// served is one event loop of a Server.
type served struct {
	*Rpc
	ended chan struct{} // closed when the loop has ended
}

// NewServer returns a Server without handlers. The error is a *ConfigError.
func NewServer(cfg Config) (*Server, error) {
	n, err := NewNexus(cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{nexus: n}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Handle registers fn for requests of reqType. The request that fn gets is a copy, in
// memory of its own: fn may keep it, write to it and return it. While fn runs the
// library holds the original too. All handlers are registered before Serve. Errors:
// ErrReqType, a *ConfigError.
func (s *Server) Handle(reqType uint8, fn Func) error {
	if fn == nil {
		return s.HandleBorrowed(reqType, nil)
	}
	return s.HandleBorrowed(reqType, func(ctx context.Context, request []byte) ([]byte, error) {
		return fn(ctx, bytes.Clone(request))
	})
}

// HandleBorrowed is Handle without the copy: the request that fn gets is the library's
// memory, to be read only, and only until fn returns. It is for handlers and stubs that
// decode the request before they return, and keep no slice of it.
//
// A slice that is kept reads bytes of other requests later, and once the server is closed
// the read ends the process with a fault that cannot be recovered. Builds with the tag
// "invariants" fill the request with 0xDB when it goes back.
func (s *Server) HandleBorrowed(reqType uint8, fn Func) error {
	if fn == nil {
		return s.nexus.Register(reqType, Background, nil)
	}
	return s.nexus.Register(reqType, Background, func(r ReqHandle) {
		resp, err := s.handle(fn, r)
		if err == nil {
			err = r.RespondBytes(resp)
		}
		if err != nil {
			_ = r.RespondError(err) // gives ErrResponded if an answer is out
		}
	})
}

// HandleRequest is HandleBorrowed for handlers that answer by their ReqHandle: with Respond, a
// response that they wrote into a buffer of ReqHandle.Alloc is not copied. They answer before they
// return; the context ends then. A request without an answer is answered with an error.
func (s *Server) HandleRequest(reqType uint8, fn func(context.Context, ReqHandle)) error {
	if fn == nil {
		return s.nexus.Register(reqType, Background, nil)
	}
	return s.nexus.Register(reqType, Background, func(r ReqHandle) {
		ctx := newHandlerContext(r, s.ctx)
		defer ctx.finish()
		fn(ctx, r)
		if r.job.current(r.gen()) {
			_ = r.RespondError(&Error{Code: CodeInternal, Text: "the handler gave no answer"})
		}
	})
}

// handle calls fn with a context of its own, which ends before the request is answered.
func (s *Server) handle(fn Func, r ReqHandle) ([]byte, error) {
	ctx := newHandlerContext(r, s.ctx)
	defer ctx.finish()
	return fn(ctx, r.Data())
}

// HandleLater registers a handler that may answer after it has returned, from any goroutine: it
// keeps its ReqHandle, and no goroutine waits. It runs where a Func does, and ReqHandle.Data lasts
// until the answer. It has no context: ReqHandle.Deadline and Cancelled say what one would. It has
// to answer every request, also one that nobody waits for any more: Close waits for that.
func (s *Server) HandleLater(reqType uint8, fn Handler) error {
	return s.nexus.Register(reqType, Background, fn)
}

// HandleInline registers a Dispatch handler, which runs inside the event loop: for
// work of at most some microseconds that never blocks. It borrows its request, see
// ReqHandle.Data.
func (s *Server) HandleInline(reqType uint8, fn Handler) error {
	return s.nexus.Register(reqType, Dispatch, fn)
}

// Serve runs the event loop of tr, which it owns, until Shutdown or Close, and then
// returns ErrClosed. Call it once per transport, each in its own goroutine: a second time it gives
// ErrTransportInUse, and the first goes on.
func (s *Server) Serve(tr transport.Transport) error {
	return s.ServeGroup([]transport.Transport{tr})
}

// quiesce refuses new sessions and requests, and reports whether all background handlers have
// responded: Close waits for them.
func (r *Rpc) quiesce() bool {
	_ = r.Refuse() // the loop is between passes: nobody is inside
	return r.engine.jobs.running == 0
}

// cut ends all sessions. The peers are told, and again until they know, while the loop runs.
func (r *Rpc) cut() {
	if nested, err := r.enter(); err == nil && !nested {
		r.engine.closeSessions()
		r.leave()
	}
}

// Shutdown refuses new sessions and requests, waits until the handlers at work have
// responded, and closes the server. If ctx ends first, sessions and the contexts of handlers end,
// and it returns the context's error at once. It does not wait for handlers then: loops and
// transports end when these have returned. Close waits for that.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	rpcs := s.rpcs
	s.mu.Unlock()
	idle := drained(ctx, rpcs)
	if !idle {
		s.expired.Store(true)
		s.cancel()
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }() // a handler that has responded may not have returned
	if idle {
		select {
		case err := <-closed:
			return err
		case <-ctx.Done():
		}
	}
	return contextError(ctx)
}

// drained waits until no handler has been at work for a while. It returns false if ctx ends first.
func drained(ctx context.Context, rpcs []served) bool {
	idle := make([]chan struct{}, len(rpcs))
	for i, r := range rpcs {
		idle[i] = make(chan struct{})
		go func() { // Post waits for a loop that has too much to do
			_ = r.Post(func(r *Rpc) { // in vain only if the loop has ended
				_ = r.Refuse()
				r.engine.whenIdle(shutdownGrace, func() { close(idle[i]) })
			})
		}()
	}
	for i, r := range rpcs {
		select {
		case <-idle[i]:
		case <-r.ended: // another Shutdown, Close, or a transport that failed
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Close ends the server at once: sessions end, requests under way are not answered,
// contexts of handlers end. It waits for handlers to return.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	rpcs := s.rpcs
	s.mu.Unlock()
	s.cancel()
	for _, r := range rpcs {
		r.Wake()
	}
	s.loops.Wait()
	if err := s.nexus.Close(); err != nil {
		return fmt.Errorf("erpc: close: %w", err)
	}
	return nil
}

// Stats returns the counters of each event loop.
func (s *Server) Stats() []Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	var st []Stats
	for _, r := range s.rpcs {
		st = append(st, r.Stats())
	}
	return st
}
