package grpcerpc

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// clientStream is a stream at the client. It sends what it has in exchanges, several under way at a
// time, and keeps one at the server while the application waits.
type clientStream struct {
	cc     *ClientConn
	info   *callInfo
	desc   *grpc.StreamDesc
	ctx    context.Context
	cancel context.CancelFunc
	stop   func() bool // of the listener to ctx's end
	link   *link
	id     uint64
	done   func(balancer.DoneInfo)      // of the picker; may be nil
	reply  func(resp []byte, err error) // s.onReply, bound once
	watch  watch
	told   sync.Once // of the end: the options and the stats handlers

	watched    bool // of the goroutine that receives: the handlers have the header
	mu         sync.Mutex
	changed    sync.Cond
	in         inbox
	out        outbox
	seq        uint64 // number of the next exchange
	calls      int    // exchanges under way
	keep       int    // how many of them stay at the server when there is nothing to send
	next       uint64 // number of the next reply
	held       map[uint64]frame.Reply
	waiting    int  // goroutines of the application that wait for the server
	closed     bool // CloseSend was called
	headerDone bool
	header     metadata.MD
	trailer    metadata.MD
	over       bool  // no more comes
	err        error // how it ended, nil for success
	released   bool
	finished   bool // context and picker know
}

// newStream begins a stream, over TCP if erpc has no connection and that may be.
func (cc *ClientConn) newStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts []grpc.CallOption,
) (grpc.ClientStream, error) {
	if cc.onlyTCP() {
		return cc.tcp.NewStream(ctx, desc, method, opts...)
	}
	s, err := cc.beginStream(ctx, desc, method, opts)
	if errors.Is(err, errOverTCP) {
		return cc.tcp.NewStream(ctx, desc, method, opts...)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// beginStream begins a stream over erpc: it waits for a connection, not for the server. The error
// is errOverTCP if there is none and the stream may begin over TCP.
func (cc *ClientConn) beginStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts []grpc.CallOption,
) (_ *clientStream, err error) {
	given := ctx
	c, err := cc.callInfoOf(method, opts)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && err != errOverTCP {
			c.finish(err)
		}
	}()
	if ctx.Err() != nil {
		err = status.FromContextError(ctx.Err()).Err()
		return nil, err
	}
	var cancelTimeout context.CancelFunc
	ctx, cancelTimeout = cc.within(ctx, method)
	w, ctx := newWatch(ctx, cc.opts.stats, true, method, c.failFast)
	w.begin(c.failFast, desc.ClientStreams, desc.ServerStreams)
	defer func() {
		if err != nil {
			cancelTimeout()
			w.end(nil, err)
		}
	}()
	l, picked, err := cc.pick(ctx, method, c.failFast || cc.tcp != nil)
	if unreached(err) && cc.mayTCP(given) {
		err = errOverTCP
	}
	if err != nil {
		return nil, err
	}
	if err = cc.outgoing(ctx, c, picked.Metadata); err != nil {
		l.release()
		return nil, err
	}
	s := &clientStream{cc: cc, info: c, desc: desc, link: l, done: picked.Done, cancel: cancelTimeout,
		id: l.stream.Add(1), ctx: ctx, in: newInbox(c.maxRecv), out: newOutbox(),
		keep: 1}
	w.outHeader(method, c.compressName, c.md, l.peer)
	s.watch = w
	s.changed.L = &s.mu
	s.reply = s.onReply
	s.mu.Lock()
	s.stop = context.AfterFunc(ctx, s.expire)
	s.mu.Unlock()
	if desc.ClientStreams { // else the message follows at once
		s.flush(false)
	}
	return s, nil
}

// openHead returns what the first exchange begins with.
func (s *clientStream) openHead() *frame.Head {
	h := s.info.head()
	h.Timeout = timeoutOf(s.ctx)
	return &h
}

// build returns the next exchange. The lock is held.
func (s *clientStream) build() []byte {
	x := frame.Exchange{Token: s.link.token, Stream: s.id, Seq: s.seq, Limit: s.in.tell()}
	if s.seq == 0 {
		x.Open = s.openHead()
	}
	s.seq++
	s.calls++
	before := s.out.queued
	req, _ := s.out.fill(x.Append(make([]byte, 0, s.out.batch())))
	if before > maxQueued && s.out.queued <= maxQueued {
		s.changed.Broadcast()
	}
	return req
}

// start sends an exchange.
func (s *clientStream) start(req []byte, inLoop bool) {
	begin := s.link.client.Start
	if inLoop {
		begin = s.link.client.StartInLoop
	}
	if err := begin(frame.TypeExchange, req, s.reply); err != nil {
		s.onEnd(err)
	}
}

// flush sends exchanges as long as there is reason to.
func (s *clientStream) flush(inLoop bool) {
	for {
		s.mu.Lock()
		send := !s.over && s.calls < mostCalls && (s.out.ready() || s.in.due() ||
			s.seq == 0 || s.calls < s.keep && (s.keep > 1 || s.waiting > 0 || s.out.blocked()))
		var req []byte
		if send {
			req = s.build()
		}
		s.mu.Unlock()
		if !send {
			return
		}
		s.start(req, inLoop)
	}
}

// onReply takes the answer to an exchange, in the loop.
func (s *clientStream) onReply(resp []byte, err error) {
	if err != nil {
		s.onEnd(err)
		return
	}
	y, err := frame.ParseReply(resp)
	s.mu.Lock()
	s.calls--
	switch {
	case s.over:
	case err != nil:
		s.end(errFrames)
	case y.Gone:
		s.gone(&y)
	case y.Seq != s.next:
		s.hold(y)
	default:
		for ok := true; ok && !s.over; {
			s.next++
			s.accept(&y)
			if y, ok = s.held[s.next]; ok {
				delete(s.held, s.next)
			}
		}
	}
	s.changed.Broadcast()
	s.release()
	s.mu.Unlock()
	s.flush(true)
}

// onEnd takes the failure of an exchange.
func (s *clientStream) onEnd(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	if !s.over {
		s.end(s.cc.callError(s.ctx, err))
	}
	s.changed.Broadcast()
	s.release()
}

// gone notes that the server does not have the stream. Replies with its end may be on their way.
func (s *clientStream) gone(y *frame.Reply) {
	if y.Status.Code != 0 {
		s.end(fromFrame(&y.Status))
	} else if s.calls == 0 {
		s.end(status.Error(codes.Unavailable, "grpcerpc: the server has forgotten the stream"))
	}
}

// hold keeps a reply that overtook others.
func (s *clientStream) hold(y frame.Reply) {
	if y.Seq < s.next || y.Seq-s.next > 2*mostCalls || len(s.held) > 2*mostCalls {
		s.end(errFrames)
		return
	}
	if s.held == nil {
		s.held = make(map[uint64]frame.Reply)
	}
	y.Frames = append([]byte(nil), y.Frames...)
	s.held[y.Seq] = y
}

// accept takes what a reply brings.
func (s *clientStream) accept(y *frame.Reply) {
	s.out.allow(y.Limit)
	if s.keep = 1; len(y.Frames) >= maxBatch/2 { // more follows, and needs exchanges to travel in
		s.keep = mostParked
	}
	for frames := y.Frames; len(frames) > 0 && !s.over; {
		kind, payload, rest, err := frame.Next(frames)
		if frames = rest; err == nil {
			err = s.acceptFrame(kind, payload)
		}
		if err != nil {
			s.end(err)
		}
	}
}

func (s *clientStream) acceptFrame(kind frame.Kind, payload []byte) error {
	switch kind {
	case frame.Headers:
		md, err := frame.ParseHeaders(payload)
		if err != nil || s.headerDone {
			return errFrames
		}
		if frame.MDSize(md) > s.cc.opts.maxHeaders {
			return status.Error(codes.Internal, "grpcerpc: metadata beyond the limit")
		}
		s.header, s.headerDone = md, true
	case frame.Trailers:
		st, md, err := frame.ParseTrailers(payload)
		if err != nil || s.in.partial {
			return errFrames
		}
		s.trailer = md
		s.finishWith(fromFrame(&st))
	case frame.Message, frame.Compressed, frame.More:
		s.headerDone = true
		return s.in.accept(kind, payload)
	default:
		return errFrames
	}
	return nil
}

// finishWith ends the stream as the server says. Messages that are here can be read still.
func (s *clientStream) finishWith(err error) {
	s.over, s.err, s.headerDone = true, err, true
	s.out.drop()
	s.held = nil
	s.changed.Broadcast()
}

// end ends the stream from this side, and tells the server.
func (s *clientStream) end(err error) {
	if s.over {
		return
	}
	s.finishWith(err)
	x := frame.Exchange{Token: s.link.token, Stream: s.id, Cancel: true}
	req := x.Append(nil)
	s.calls++
	if !s.cc.background(func() { s.start(req, false) }) {
		s.calls--
	}
}

// expire ends the stream when its context has ended.
func (s *clientStream) expire() {
	s.mu.Lock()
	s.check()
	s.mu.Unlock()
	s.conclude()
}

// check ends the stream if its context has ended, which the goroutine of expire may see late. The
// lock is held.
func (s *clientStream) check() {
	if s.over || s.ctx.Err() == nil {
		return
	}
	s.in.ready = fifo[message]{}
	s.end(status.FromContextError(s.ctx.Err()).Err())
	s.release()
}

// conclude tells options and stats handlers how the stream ended, once the application knows.
func (s *clientStream) conclude() {
	s.told.Do(func() {
		s.mu.Lock()
		trailer, err := s.trailer, s.err
		s.mu.Unlock()
		s.watch.end(trailer, err)
		s.info.finish(err)
	})
}

// release gives the link back when the stream has ended and no exchange is under way.
func (s *clientStream) release() {
	if !s.over {
		return
	}
	if !s.finished {
		s.finished = true
		s.stop()
		if s.cancel != nil {
			s.cancel()
		}
		for _, t := range s.info.trailers {
			*t = s.trailer
		}
		if s.done != nil {
			info := balancer.DoneInfo{Err: s.err, Trailer: s.trailer, BytesSent: true,
				BytesReceived: s.next > 0}
			s.done(info)
		}
	}
	if s.calls == 0 && !s.released {
		s.released = true
		s.link.release()
	}
}
