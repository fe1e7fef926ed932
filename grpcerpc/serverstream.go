package grpcerpc

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// serverStream is a stream at the server. Exchanges of the client bring frames, and stay unanswered
// until there are frames for their replies.
//
// Exchanges arrive in any order and are taken in that of their numbers. The requests of those that
// wait are memory of erpc.
type serverStream struct {
	conn   *serverConn
	id     uint64
	ctx    context.Context // fixed once the stream has begun, as the following are
	cancel context.CancelFunc
	coding coding
	method *method
	name   string

	stop  func() bool // of expire
	watch watch

	mu         sync.Mutex
	changed    sync.Cond
	in         inbox
	out        outbox
	next       uint64                    // number of the next exchange
	held       map[uint64]erpc.ReqHandle // those ahead of it
	parked     []erpc.ReqHandle          // taken, and unanswered
	replies    uint64
	begun      bool // the handler runs, or has run
	halfClosed bool
	ended      bool  // the trailers are in out, or nobody wants them
	returned   bool  // the handler has
	over       bool  // the client has been told all that it ever will be
	err        error // why the application cannot go on
	headerSent bool
	header     metadata.MD
	trailer    metadata.MD
}

func newServerStream(c *serverConn, id uint64) *serverStream {
	st := &serverStream{conn: c, id: id, out: newOutbox(), in: newInbox(c.server.opts.maxRecv)}
	st.changed.L = &st.mu
	return st
}

// onExchange takes frames of a stream, and answers when there is something to say.
func (s *Server) onExchange(h erpc.ReqHandle) {
	x, err := frame.ParseExchange(h.Data())
	if err != nil {
		sayGone(h, codes.Internal, "grpcerpc: malformed exchange", false)
		return
	}
	c := s.conn(x.Token, h.Peer())
	if c == nil {
		sayGone(h, codes.Unavailable, "grpcerpc: the server does not know the connection", true)
		return
	}
	if x.Cancel {
		c.cancelStream(x.Stream)
		sayGone(h, codes.Canceled, "", false)
		return
	}
	st, err := c.stream(x.Stream)
	if st == nil {
		// Without a status: the stream has ended, and this may overtake its trailers.
		sayGone(h, status.Code(err), status.Convert(err).Message(), false)
		return
	}
	st.take(h, x)
	st.flush()
}

// sayGone answers an exchange whose stream is not there.
func sayGone(h erpc.ReqHandle, code codes.Code, text string, notRun bool) {
	y := frame.Reply{Gone: true, NotRun: notRun,
		Status: frame.Status{Code: uint64(code), Text: text}}
	_ = h.RespondBytes(y.Append(nil)) // in vain if the session has ended
}

// take takes an exchange, or keeps it until those before it have come.
func (st *serverStream) take(h erpc.ReqHandle, x frame.Exchange) {
	st.mu.Lock()
	defer st.mu.Unlock()
	defer st.changed.Broadcast()
	if x.Seq != st.next {
		st.hold(h, x.Seq)
		return
	}
	for ok := true; ok; {
		st.next++
		st.parked = append(st.parked, h)
		if err := st.accept(&x); err != nil {
			st.fail(err)
		}
		if h, ok = st.held[st.next]; ok {
			delete(st.held, st.next)
			x, _ = frame.ParseExchange(h.Data()) // it was parsed before
		}
	}
}

// hold keeps an exchange that is ahead of others.
func (st *serverStream) hold(h erpc.ReqHandle, seq uint64) {
	_, twice := st.held[seq]
	if seq < st.next || seq-st.next > 2*mostCalls || twice {
		st.parked = append(st.parked, h)
		st.fail(errFrames)
		return
	}
	if st.held == nil {
		st.held = make(map[uint64]erpc.ReqHandle)
	}
	st.held[seq] = h
}

// accept takes what an exchange brings.
func (st *serverStream) accept(x *frame.Exchange) error {
	st.out.allow(x.Limit)
	if x.Open != nil {
		if err := st.begin(x.Open); err != nil {
			return err
		}
	}
	if st.ended {
		return nil
	}
	if !st.begun || len(st.parked) > 2*mostCalls {
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

// begin starts the handler.
func (st *serverStream) begin(h *frame.Head) error {
	s := st.conn.server
	if st.begun || st.ended {
		return errFrames
	}
	if frame.MDSize(h.MD) > s.opts.maxHeaders {
		return status.Error(codes.ResourceExhausted, "grpcerpc: metadata beyond the limit")
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
	if !s.begin(true) {
		return status.Error(codes.Unavailable, "grpcerpc: the server is shutting down")
	}
	st.begun = true
	if us := h.Timeout; us > 0 && us < uint64(1<<63-1)/1000 {
		st.ctx, st.cancel = context.WithTimeout(s.ctx, time.Duration(us)*time.Microsecond)
	} else {
		st.ctx, st.cancel = context.WithCancel(s.ctx)
	}
	st.stop = context.AfterFunc(st.ctx, st.expire)
	md := st.conn.incoming(h)
	ctx := metadata.NewIncomingContext(st.ctx, md)
	ctx = peer.NewContext(ctx, st.conn.peer)
	st.watch, ctx = newWatch(ctx, s.opts.stats, false, st.name, false)
	st.watch.inHeader(st.name, string(h.Compressor), md, st.conn.peer)
	st.watch.begin(false, info == nil || info.IsClientStream, info == nil || info.IsServerStream)
	st.ctx = grpc.NewContextWithServerTransportStream(ctx, transportStream{st})
	go st.run(handler, impl, info)
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
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.returned = true; st.over {
		st.conn.server.end()
	}
}

// conclude notes that the client gets no more. The call counts until then, for GracefulStop.
func (st *serverStream) conclude() {
	if !st.over && st.returned {
		st.conn.server.end()
	}
	st.over = true
	st.conn.forget(st.id)
}

// finish sends the end of the stream.
func (st *serverStream) finish(err error) {
	st.mu.Lock()
	st.end(err)
	trailer := st.trailer
	st.mu.Unlock()
	st.watch.end(trailer, err)
	st.flush()
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
func (st *serverStream) abort(why error) {
	st.mu.Lock()
	if st.err == nil {
		st.err = status.FromContextError(why).Err()
	}
	st.out.drop()
	st.ended = true
	st.conclude()
	cancel := st.cancel
	st.changed.Broadcast()
	st.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	st.flush()
}

// expire wakes the application when the context has ended.
func (st *serverStream) expire() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.err == nil {
		st.err = status.FromContextError(st.ctx.Err()).Err()
	}
	st.changed.Broadcast()
}

// putHeader sends the metadata before the first message; without always only if there is some.
func (st *serverStream) putHeader(always bool) {
	if st.headerSent {
		return
	}
	st.headerSent = true
	if always || len(st.header) > 0 {
		st.out.put(frame.Headers, frame.AppendMD(nil, st.header))
	}
}

// flush answers exchanges as long as there is reason to.
func (st *serverStream) flush() {
	for {
		buf := getBuffer()
		h, ok := st.reply(buf)
		if ok {
			_ = h.RespondBytes(*buf) // in vain if the session has ended
		}
		putBuffer(buf)
		if !ok {
			return
		}
	}
}

// reply takes an exchange that can be answered, and its reply.
func (st *serverStream) reply(buf *[]byte) (h erpc.ReqHandle, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.over {
		for seq, ahead := range st.held {
			st.parked = append(st.parked, ahead)
			delete(st.held, seq)
		}
	}
	n := len(st.parked)
	if n == 0 || !st.over && !st.out.ready() && !st.in.due() && n <= mostParked {
		return h, false
	}
	h = st.parked[0]
	if st.parked = st.parked[1:]; n == 1 {
		st.parked = nil
	}
	if st.over {
		y := frame.Reply{Gone: true}
		*buf = y.Append((*buf)[:0])
		return h, true
	}
	y := frame.Reply{Seq: st.replies, Limit: st.in.tell()}
	st.replies++
	before, last := st.out.queued, frame.Kind(0)
	*buf, last = st.out.fill(y.Append((*buf)[:0]))
	if last == frame.Trailers {
		st.conclude()
	}
	if before > maxQueued && st.out.queued <= maxQueued {
		st.changed.Broadcast()
	}
	return h, true
}
