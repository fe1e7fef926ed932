package grpcerpc

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// serverStream is a stream at the server. It sends through the connection's pipe.
type serverStream struct {
	conn   *serverConn
	id     uint64
	ctx    context.Context // of the handler
	base   context.Context // fixed once the stream has begun, as the following are
	cancel context.CancelFunc
	coding
	method *method
	name   string

	inLine
	stop  func() bool // of expire
	watch watch

	received bool // a message; of the goroutine that receives
	waits    bool // its handler does, in conn.line; under conn.mu

	mu         sync.Mutex
	changed    sync.Cond
	in         inbox
	out        outbox
	begun      bool // the handler runs, or has run
	halfClosed bool
	ended      bool  // the trailers are in out, or nobody wants them
	returned   bool  // the handler has
	over       bool  // the client has been told all that it ever will be
	notRun     bool  // the server stops, and the handler was not begun
	err        error // why the application cannot go on
	headerSent bool
	header     metadata.MD
	trailer    metadata.MD
}

func newServerStream(c *serverConn, id uint64) *serverStream {
	st := &serverStream{conn: c, id: id, coding: coding{answering: plainly}, out: newOutbox(),
		in: newInbox(c.server.opts.maxRecv, window)}
	st.changed.L = &st.mu
	return st
}

// say has the loop send what the stream has to say. The lock is not held.
func (st *serverStream) say() { st.conn.pipe.say(st) }

// accept takes what a client says.
func (st *serverStream) accept(x *frame.Section) error {
	st.out.allow(x.Limit)
	if x.Open != nil {
		st.out.limit = x.Limit // which may be less than usual
		if err := st.begin(x.Open); err != nil {
			return err
		}
	}
	if st.ended {
		return nil
	}
	if !st.begun {
		return errFrames
	}
	for frames := x.Frames; len(frames) > 0 && !st.ended; {
		kind, payload, rest, err := frame.Next(frames)
		if err != nil || st.halfClosed {
			return errFrames
		}
		switch frames = rest; kind {
		case frame.Message, frame.Compressed, frame.More:
			if err := st.in.accept(kind, payload); err != nil {
				return err
			}
		case frame.HalfClose:
			st.halfClosed = true
		default:
			return errFrames
		}
	}
	return nil
}

// maxTimeout is the largest timeout in microseconds that is a time.Duration. A longer one is none.
const maxTimeout = math.MaxInt64 / uint64(time.Microsecond)

// farTimeout is half of it: erpc's times are nanoseconds since the start of the machine, and have
// room for so many more. A timeout beyond is a context's own.
const farTimeout = maxTimeout / 2

// begin starts the handler.
func (st *serverStream) begin(h *frame.Head) error {
	s := st.conn.server
	if st.begun || st.ended {
		return errFrames
	}
	if err := s.admit(h); err != nil {
		return err
	}
	st.name, st.method = string(h.Method), s.lookup(h.Method)
	handler, impl, info := st.handler()
	if handler == nil {
		return status.Error(codes.Unimplemented, s.unknownText(st.name))
	}
	var err error
	if st.coding, err = s.codingOf(h); err != nil {
		return err
	}
	if !st.conn.begin(nil) {
		st.notRun = true
		return status.Error(codes.Unavailable, "grpcerpc: the server is shutting down")
	}
	st.begun = true
	if us := h.Timeout; us > 0 && us <= maxTimeout {
		st.base, st.cancel = context.WithTimeout(s.ctx, time.Duration(us)*time.Microsecond)
	} else {
		st.base, st.cancel = context.WithCancel(s.ctx)
	}
	st.stop = context.AfterFunc(st.base, func() { st.expire(st.base) })
	md, compressor := st.conn.incoming(h.MD, h), string(h.Compressor)
	st.conn.run(st, func() {
		err := st.base.Err() // it may have waited
		if err == nil {
			err = st.prepare(md, compressor, info)
		}
		if err != nil {
			handler, info = func(any, grpc.ServerStream) error { return err }, nil
		}
		st.run(handler, impl, info)
	})
	return nil
}

// prepare makes the context of the handler. The error is the tap handle's: the handler does not
// run.
func (st *serverStream) prepare(
	md metadata.MD, compressor string, info *grpc.StreamServerInfo,
) (err error) {
	ctx := metadata.NewIncomingContext(st.conn.watch.under(st.base), md)
	ctx = peer.NewContext(ctx, st.conn.peer)
	if s := st.conn.server; s.opts.tap != nil {
		if ctx, err = s.tapped(ctx, st.name, md); err != nil {
			return err
		}
		st.stop() // it is this context's end that counts
		own := ctx
		st.stop = context.AfterFunc(own, func() { st.expire(own) })
	}
	st.watch, ctx = newWatch(ctx, st.conn.server.opts.stats, false,
		stats.RPCTagInfo{FullMethodName: st.name})
	st.watch.inHeader(st.name, compressor, md, st.conn.peer)
	st.watch.begin(false, info == nil || info.IsClientStream, info == nil || info.IsServerStream)
	st.ctx = grpc.NewContextWithServerTransportStream(ctx, transportStream{st})
	return nil
}

// handler returns what runs for the stream's method; nil if nothing does.
func (st *serverStream) handler() (grpc.StreamHandler, any, *grpc.StreamServerInfo) {
	info := &grpc.StreamServerInfo{FullMethod: st.name}
	switch m, s := st.method, st.conn.server; {
	case m != nil && m.stream != nil:
		info.IsClientStream, info.IsServerStream = m.stream.ClientStreams, m.stream.ServerStreams
		return m.stream.Handler, m.impl, info
	case m != nil:
		return func(_ any, ss grpc.ServerStream) error { return st.runUnary(m, ss) }, m.impl, nil
	case s.opts.unknown != nil:
		info.IsClientStream, info.IsServerStream = true, true
		return s.opts.unknown, nil, info
	}
	return nil, nil, nil
}

// runUnary runs a method of one request and one answer for a client that called it as a stream.
func (st *serverStream) runUnary(m *method, ss grpc.ServerStream) error {
	reply, err := m.unary.Handler(m.impl, st.ctx, ss.RecvMsg, st.conn.server.unary)
	if err != nil {
		return err
	}
	return ss.SendMsg(reply)
}

// run runs the handler in a goroutine of its own.
func (st *serverStream) run(
	handler grpc.StreamHandler, impl any, info *grpc.StreamServerInfo,
) {
	s := st.conn.server
	defer s.handlers.Done()
	defer st.leave()
	returned := false
	defer func() {
		if !returned { // a panic, or runtime.Goexit
			p := recover()
			st.finish(status.Error(codes.Internal, "grpcerpc: the handler panicked"))
			if s.opts.config.Logger != nil {
				s.opts.config.Logger.Error("handler panicked", "method", st.name,
					"panic", fmt.Sprint(p))
			}
		}
	}()
	var err error
	if s.stream != nil && info != nil {
		err = s.stream(impl, st, info, handler)
	} else {
		err = handler(impl, st)
	}
	returned = true
	st.finish(err)
}

// leave notes that the handler has returned.
func (st *serverStream) leave() {
	st.stop()
	st.cancel()
	st.conn.returned()
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.returned = true; st.over {
		st.conn.end(nil)
	}
}

// conclude notes that the client gets no more. The call counts until then, for GracefulStop.
func (st *serverStream) conclude() {
	if !st.over && st.returned {
		st.conn.end(nil)
	}
	st.over = true
	st.conn.forget(st)
}

// finish sends the end of the stream. Goroutines that the handler leaves behind learn of it as from
// grpc-go: the stream's context has ended for them.
func (st *serverStream) finish(err error) {
	st.mu.Lock()
	st.end(err)
	st.wake(context.Canceled)
	trailer := st.trailer
	st.mu.Unlock()
	st.watch.end(trailer, err)
	st.say()
}

// end puts the trailers behind what is to be sent.
func (st *serverStream) end(err error) {
	if st.ended {
		return
	}
	st.ended = true
	st.putHeader(false)
	f := toFrame(handlerStatus(err))
	st.out.put(frame.Trailers, frame.AppendTrailers(nil, &f, st.trailer))
}

// fail ends the stream for what the client did.
func (st *serverStream) fail(err error) {
	if st.err == nil {
		st.err = err
	}
	if !st.ended {
		st.out.drop()
	}
	st.end(err)
	if st.cancel != nil {
		st.cancel()
	}
}

// abort ends a stream that its client has left.
func (st *serverStream) abort() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.wake(context.Canceled)
	st.out.drop()
	st.ended = true
	if st.cancel != nil {
		st.cancel() // expire runs in another goroutine
	}
	st.conclude()
}

// expire wakes the application when its context has ended.
func (st *serverStream) expire(ctx context.Context) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.wake(ctx.Err())
}

// wake ends what the application waits for, by the error of a context. The lock is held.
func (st *serverStream) wake(why error) {
	if st.err == nil {
		st.err = status.FromContextError(why).Err()
	}
	st.changed.Broadcast()
}

// putHeader sends the metadata before the first message; without always only if there is some.
func (st *serverStream) putHeader(always bool) {
	if st.headerSent {
		return
	}
	st.headerSent = true
	if st.answersBy != "" {
		st.out.put(frame.Encoding, []byte(st.answersBy))
	}
	if always || len(st.header) > 0 {
		st.out.put(frame.Headers, frame.AppendMD(nil, st.header))
	}
}
