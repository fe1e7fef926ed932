package erpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
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
// Handle and HandleBorrowed say whose memory request is. The response is the library's when Func
// returns: one of 4 KiB and more is sent from where it lies, and must not change any more. The
// array that it lies in is kept until the client has the response, and counts as the response does;
// one whose capacity is more than twice its length is copied. It may be request itself, or part of
// it. An error travels as ReqHandle.RespondError says: return an *Error to give it a code and
// details. A panic becomes ErrPanic.
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
			err = r.respondWith(resp)
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

// MaxResponse declares how large responses to requests of reqType are at most: requests for whose
// responses there is no memory do not run. See Nexus.MaxResponse.
func (s *Server) MaxResponse(reqType uint8, bytes int) error {
	return s.nexus.MaxResponse(reqType, bytes)
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
	return r.jobs.running == 0
}

// cut ends all sessions. The peers are told, and again until they know, while the loop runs.
func (r *Rpc) cut() {
	if nested, err := r.enter(); err == nil && !nested {
		r.engine.CloseConns()
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
				r.whenIdle(shutdownGrace, func() { close(idle[i]) })
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

// ServeGroup runs an event loop for each of several transports that have one address, as
// udp.ListenGroup opens them. It owns them, also when it fails. To clients they are one server,
// whose sessions are spread over the loops and stay there. It returns when all loops have ended:
// after Shutdown or Close with ErrClosed.
//
// A loop whose transport fails ends, and its sessions with it; it is logged, the others go on, and
// its clients' new sessions come to them. ServeGroup returns the errors of all such loops in the
// end. Other errors are those of Nexus.NewRpcs.
func (s *Server) ServeGroup(trs []transport.Transport) error {
	rpcs, err := s.nexus.NewRpcs(trs)
	if err != nil {
		return err
	}
	loops, err := s.begin(rpcs)
	if err != nil {
		return err
	}
	ends := make(chan error, len(loops))
	for _, r := range loops[1:] {
		go func() { ends <- s.loop(r) }()
	}
	ends <- s.loop(loops[0])
	var failed error
	for range loops {
		if err := <-ends; err != ErrClosed {
			failed = errors.Join(failed, err)
		}
	}
	if failed != nil {
		return failed
	}
	return ErrClosed
}

// begin makes endpoints the server's. It closes them if the server is closed.
func (s *Server) begin(rpcs []*Rpc) (loops []served, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rpcs {
		if s.closed {
			err = errors.Join(err, r.Close())
			continue
		}
		loops = append(loops, served{r, make(chan struct{})})
		s.loops.Add(1)
	}
	if s.closed {
		return nil, errors.Join(ErrClosed, err)
	}
	s.rpcs = append(s.rpcs, loops...)
	return loops, nil
}

// loop runs an endpoint's event loop until the server is closed or the transport fails.
func (s *Server) loop(r served) error {
	defer s.loops.Done()
	defer close(r.ended)
	err := s.run(r.Rpc)
	if err == nil {
		err = ErrClosed
	} else {
		r.cfg.Logger.Error("event loop failed", "loop", r.engine.Loop(), "error", err)
	}
	if cerr := r.Close(); cerr != nil {
		err = errors.Join(err, cerr)
	}
	return err
}

// run runs an event loop until the server is closed and no handler is at work, or until it fails.
func (s *Server) run(r *Rpc) error {
	cut := false
	stop := func() bool {
		if s.ctx.Err() == nil {
			return false
		}
		if !cut && s.expired.Load() {
			cut = true
			r.cut()
		}
		return r.quiesce()
	}
	if !r.mayHandOff() {
		return r.Run(stop)
	}
	return r.runHandoff(stop, func() { s.loops.Add(1) }, s.loops.Done)
}

// Addrs returns the addresses that the server has, each once.
func (s *Server) Addrs() []transport.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []transport.Addr
	for _, r := range s.rpcs {
		if a := r.LocalAddr(); !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

// late ends the background requests whose handlers answer when the endpoint is closed. Nobody runs
// the loop any more, so that whoever answers does it.
type late struct {
	mu   sync.Mutex
	over bool   // Close has done all that it does
	jobs []*job // that found no room in the ring of commands
}

// tidy ends all requests that have their answers: j, nil if there is none, and those in the ring.
// Before Close is over it leaves them to that.
func (l *late) tidy(r *Rpc, j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j != nil {
		l.jobs = append(l.jobs, j)
	}
	if l.over {
		l.finish(r)
	}
}

// finish is tidy with the lock held. The last request ends what Close has left.
func (l *late) finish(r *Rpc) {
	for c, ok := r.commands.Pop(); ok; c, ok = r.commands.Pop() {
		if c.job != nil {
			r.finishJob(c.job)
		}
	}
	for _, j := range l.jobs {
		r.finishJob(j)
	}
	l.jobs = nil
	if r.jobs.running == 0 {
		r.engine.Quotas().Close()
	}
}

// closePools gives back the memory of messages, as soon as nobody has a buffer. The buffers of
// background requests at work are the library's; the others are the application's, which is told.
func (r *Rpc) closePools() error {
	r.late.mu.Lock()
	defer r.late.mu.Unlock()
	running := r.jobs.running
	err := r.pool.Close()
	if leak, ok := err.(*msgbuf.LeakError); ok {
		if leak.Count -= running; leak.Count <= 0 {
			err = nil
		}
	}
	r.sharedOnce.Do(func() {}) // none is made any more
	if p := r.shared.Load(); p != nil {
		if e := p.Close(); err == nil && running == 0 {
			err = e // else they may be the responses of those requests
		}
	}
	r.late.over = true
	r.late.finish(r)
	return err
}
