package grpcerpc

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// clientStream is a stream at one server. It sends through the pipe of its link.
type clientStream struct {
	cc     *ClientConn
	info   *callInfo
	desc   *grpc.StreamDesc
	ctx    context.Context
	parent *retryStream
	stop   func() bool // of the listener to ctx's end, until the application knows how s ended
	link   *link
	pipe   *pipe
	done   func(balancer.DoneInfo) // of the picker; may be nil
	watch  watch
	told   sync.Once // of the end: the stats handlers

	inLine
	id uint64 // from 1; the loop's alone
	// Of the goroutine that receives.
	watched  bool        // the handlers have the header
	received bool        // there was a message
	came     func() bool // something has, since seen; bound once

	mu         sync.Mutex
	changed    sync.Cond
	events     int       // how often changed was told
	seen       int       // of them, when the application began to run the loop
	leads      bool      // it does
	sent       int       // messages since the last RecvMsg
	turns      int       // calls of RecvMsg with one message before each, that came soon
	got        time.Time // when RecvMsg returned, if the application may be alone
	in         inbox
	out        outbox
	counted    bool // the pipe knows that it waits
	closed     bool // CloseSend was called
	heard      bool // the server has said something
	answered   bool // ... that the application sees before the status
	notRun     bool // the stream certainly never began at the server
	local      bool // this side has ended it
	headerDone bool
	header     metadata.MD
	trailer    metadata.MD
	over       bool  // no more comes
	ending     bool  // the server has to be told
	err        error // how it ended, nil for success
	released   bool
}

// beginStream begins a stream over erpc: it waits for a connection, not for the server. Ctx has the
// timeout of the service config. The error is errOverTCP if there is no connection and the stream
// may begin over TCP.
func (cc *ClientConn) beginStream(
	ctx context.Context, parent *retryStream, overTCP bool,
) (_ *clientStream, err error) {
	c, desc := parent.info, parent.desc
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	w, ctx := c.watched(ctx)
	w.begin(c.failFast, desc.ClientStreams, desc.ServerStreams)
	defer func() {
		if err != nil {
			w.end(nil, err)
		}
	}()
	l, picked, err := cc.pick(ctx, c, c.failFast || overTCP)
	if unreached(err) && overTCP {
		err = errOverTCP
	}
	if err != nil {
		return nil, err
	}
	if err = l.outgoing(ctx, c, picked.Metadata); err == nil {
		err = l.fits(c)
	}
	if err != nil {
		l.release()
		return nil, err
	}
	s := &clientStream{cc: cc, info: c, desc: desc, parent: parent, link: l, pipe: l.pipe,
		done: picked.Done, ctx: peer.NewContext(ctx, l.peer),
		in: newInbox(c.maxRecv, uint64(cc.opts.window)), out: newOutbox()}
	w.outHeader(c.method, c.compressName, c.md, l.peer)
	s.watch = w
	s.changed.L = &s.mu
	s.came = s.hasCome
	s.mu.Lock()
	s.stop = context.AfterFunc(ctx, s.expire)
	s.mu.Unlock()
	if desc.ClientStreams { // else the message follows at once
		s.say()
	}
	return s, nil
}

// say has the loop send what the stream has to say. The lock is not held.
func (s *clientStream) say() {
	if err := s.pipe.say(s); err != nil {
		s.lose(err)
	}
}

// openHead returns what the first exchange begins with.
func (s *clientStream) openHead() *frame.Head {
	h := s.info.head()
	h.Timeout = timeoutOf(s.ctx)
	return &h
}

// accept takes what the server says.
func (s *clientStream) accept(sec *frame.Section) {
	s.heard, s.notRun = true, sec.NotRun
	s.out.allow(sec.Limit)
	for frames := sec.Frames; len(frames) > 0 && !s.over; {
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
		s.answered = true
		md, err := frame.ParseHeaders(payload)
		if err != nil || s.headerDone {
			return errFrames
		}
		if frame.MDSize(md) > s.cc.opts.maxHeaders {
			return status.Error(codes.Internal, "grpcerpc: metadata beyond the limit")
		}
		s.header, s.headerDone = s.info.typed(md), true
	case frame.Encoding:
		return s.info.answeredBy(string(payload), &s.cc.opts.coders)
	case frame.Trailers:
		st, md, err := frame.ParseTrailers(payload)
		if err != nil || s.in.partial {
			return errFrames
		}
		s.trailer = md
		s.finishWith(fromFrame(&st))
	case frame.Message, frame.Compressed, frame.More:
		s.headerDone, s.answered = true, true
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
	s.count(false)
	s.wake()
}

// end ends the stream from this side, and tells the server.
func (s *clientStream) end(err error) {
	if s.over {
		return
	}
	s.ending, s.local = true, true
	s.finishWith(err)
	s.cc.background(func() { _ = s.pipe.say(s) }) // in vain if the server knows
}

// expire ends the stream when its context has ended, whatever its server says: no other attempt
// follows, and the application need not ask.
func (s *clientStream) expire() {
	s.mu.Lock()
	s.check()
	s.mu.Unlock()
	s.parent.abandon(s, status.FromContextError(s.ctx.Err()).Err())
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

// conclude tells stats handlers how the stream ended, once the application knows.
func (s *clientStream) conclude() { s.tell(s.failure()) }

// tell tells stats handlers that the stream has ended for the application.
func (s *clientStream) tell(err error) {
	s.told.Do(func() { s.watch.end(s.Trailer(), err) })
}

// failure returns how the stream ended, nil for success.
func (s *clientStream) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// release gives the link back when the stream has ended, and tells the picker.
func (s *clientStream) release() {
	if !s.over || s.released {
		return
	}
	s.released = true
	for _, t := range s.info.trailers {
		*t = s.trailer
	}
	if s.done != nil {
		s.done(balancer.DoneInfo{Err: s.err, Trailer: s.trailer, BytesSent: true,
			BytesReceived: s.heard, ServerLoad: serverLoad(s.trailer)})
	}
	s.link.release()
}
