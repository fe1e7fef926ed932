package echo

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// erpcLoopPeer is this library's event loop: an Rpc on both sides, each of one goroutine, with
// handlers in the loop.
var erpcLoopPeer = Peer{
	Name: "erpc-loop", Module: "github.com/userspace-rpc/erpc", Transport: "udp", Streams: true,
	Listen: func(z Sizes) (Server, error) { return listenRPC(anyPort, z) }, ListenAt: listenRPC,
	Dial: dialRPC,
}

// rpcEnd is an Rpc with the Nexus that it was made from.
type rpcEnd struct {
	nexus *erpc.Nexus
	rpc   *erpc.Rpc
}

func newRPCEnd(at string, z Sizes, handler erpc.Handler) (e rpcEnd, err error) {
	if e.nexus, err = erpc.NewNexus(erpcConfig(z)); err != nil {
		return e, err
	}
	err = e.nexus.Register(echoType, erpc.Dispatch, handler)
	var conn *udp.Conn
	if err == nil {
		conn, err = udp.Listen(at, udp.Config{})
	}
	if err == nil {
		e.rpc, err = e.nexus.NewRpc(conn)
	}
	if err != nil {
		return e, errors.Join(err, e.nexus.Close())
	}
	return e, nil
}

func (e *rpcEnd) close() error { return errors.Join(e.rpc.Close(), e.nexus.Close()) }

type rpcServer struct {
	rpcEnd
	over  atomic.Bool
	ended chan struct{}
}

func listenRPC(addr string, z Sizes) (Server, error) {
	answer := newReplier(z)
	e, err := newRPCEnd(addr, z, func(h erpc.ReqHandle) {
		_ = h.RespondBytes(answer.reply(h.Data())) // the caller's check notices what is missing
	})
	if err != nil {
		return nil, err
	}
	return &rpcServer{rpcEnd: e, ended: make(chan struct{})}, nil
}

func (s *rpcServer) Addr() string { return s.rpc.LocalAddr().String() }

// Serve implements Server.
func (s *rpcServer) Serve() error {
	defer close(s.ended)
	return errors.Join(s.rpc.Run(s.over.Load), s.close())
}

// Sent implements Counted. A loop that sleeps has published its counters.
func (s *rpcServer) Sent() (packets, calls uint64) { return sent(s.rpc.Stats()) }

// Close ends Serve, which must have been called, and waits for that.
func (s *rpcServer) Close() error {
	s.over.Store(true)
	s.rpc.Wake()
	<-s.ended
	return nil
}

// rpcStream is a client of one goroutine.
type rpcStream struct {
	rpcEnd
	addr     string
	sessions []*erpc.Session      // as many as the requests in flight have slots
	size     int                  // bytes that each buffer has room for
	free     [][2]*erpc.MsgBuffer // of a request and a response
	got      func(id uint64, response []byte) error
	ended    erpc.Continuation
	err      error
}

func dialRPC(ctx context.Context, addr string, z Sizes) (Conn, error) {
	from, err := near(addr)
	if err != nil {
		return nil, err
	}
	e, err := newRPCEnd(from, z, func(h erpc.ReqHandle) { _ = h.RespondError(errors.ErrUnsupported) })
	if err != nil {
		return nil, err
	}
	c := &rpcStream{rpcEnd: e, addr: addr, size: max(z.Request, z.Response)}
	c.ended = c.end
	s, err := c.pick()
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	for !s.Connected() {
		_, err := e.rpc.RunOnce()
		if err = errors.Join(err, ctx.Err(), s.Err()); err != nil {
			return nil, errors.Join(err, e.close())
		}
		runtime.Gosched()
	}
	return c, nil
}

// Send implements Stream.
func (c *rpcStream) Send(id uint64, request []byte) {
	pair, err := c.buffers(len(request))
	var s *erpc.Session
	if err == nil {
		copy(pair[0].Data(), request)
		s, err = c.pick()
	}
	if err == nil {
		_, err = c.rpc.EnqueueRequest(s, erpc.Request{Type: echoType, Req: pair[0],
			Resp: pair[1], Done: c.ended, Tag: id})
	}
	c.err = errors.Join(c.err, err)
}

// pick returns a session that has a free slot, a new one if none has.
func (c *rpcStream) pick() (*erpc.Session, error) {
	for _, s := range c.sessions {
		if n, queued := s.Pending(); queued == 0 && n < s.Params().Slots || n+queued == 0 {
			return s, nil
		}
	}
	s, err := c.rpc.CreateSession(c.addr)
	if err == nil {
		c.sessions = append(c.sessions, s)
	}
	return s, err
}

// buffers are those of a request of n bytes and its response.
func (c *rpcStream) buffers(n int) (pair [2]*erpc.MsgBuffer, err error) {
	for k := len(c.free) - 1; k >= 0; k-- {
		if pair = c.free[k]; pair[0].MaxSize() >= n {
			c.free = append(c.free[:k], c.free[k+1:]...)
			return pair, errors.Join(pair[0].Resize(n), pair[1].Resize(pair[1].MaxSize()))
		}
	}
	for i := range pair {
		if pair[i], err = c.rpc.Alloc(max(c.size, n)); err != nil {
			return pair, err // this process ends
		}
	}
	return pair, pair[0].Resize(n)
}

// end is the continuation of all requests.
func (c *rpcStream) end(d erpc.Completion) {
	c.free = append(c.free, [2]*erpc.MsgBuffer{d.Req, d.Resp})
	switch {
	case c.err != nil:
	case d.Err != nil:
		c.err = fmt.Errorf("erpc-loop: %w", d.Err)
	default:
		// The response is checked before another request takes the buffers.
		c.err = c.got(d.Tag, d.Resp.Data())
	}
}

// Poll implements Stream.
func (c *rpcStream) Poll(got func(id uint64, response []byte) error) (busy bool, err error) {
	c.got = got
	n, err := c.rpc.RunOnce()
	return n > 0, errors.Join(err, c.err)
}

// Sent implements Counted. Run publishes the counters when it ends.
func (c *rpcStream) Sent() (packets, calls uint64) {
	_ = c.rpc.Run(func() bool { return true }) // what ends it is told by the next Poll
	return sent(c.rpc.Stats())
}

// NewCall returns calls that keep one request in flight.
func (c *rpcStream) NewCall() Call { return newRawCall("erpc-loop", c) }

// Close ends the sessions and what is in flight.
func (c *rpcStream) Close() (err error) {
	c.err = errors.ErrUnsupported // so that nobody is called any more
	for _, s := range c.sessions {
		err = errors.Join(err, c.rpc.CloseSession(s)) // which gives back all buffers
	}
	for _, pair := range c.free {
		pair[0].Free()
		pair[1].Free()
	}
	return errors.Join(err, c.close())
}
