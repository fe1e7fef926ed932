package grpcerpc

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// Context has the methods of grpc.ClientStream, as the following have; retryStream calls them.
func (s *clientStream) Context() context.Context { return s.ctx }

// wait waits until something may have come. The lock is held.
func (s *clientStream) wait() {
	s.count(true)
	if s.in.ask() || s.pipe.calls.Load() == 0 {
		seen := s.events
		s.mu.Unlock()
		s.say()
		s.mu.Lock()
		if s.events != seen || s.over {
			return // what was waited for may have come
		}
	}
	if !s.lead() {
		s.changed.Wait()
	}
}

// lead has the application run the loop until something may have come, if nobody else does. It
// reports false if the application is to wait. The lock is held.
func (s *clientStream) lead() bool {
	if s.leads { // another goroutine of the stream does
		return false
	}
	s.leads, s.seen = true, s.events
	s.mu.Unlock()
	led := s.pipe.loop.Lead(s.came)
	s.mu.Lock()
	s.leads = false
	return led || s.events != s.seen || s.over
}

// hasCome reports whether the application need not run the loop any more.
func (s *clientStream) hasCome() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events != s.seen || s.over
}

// Header returns nil for a stream that has failed before: RecvMsg has the status.
func (s *clientStream) Header() metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.headerDone && !s.over {
		s.wait()
	}
	return s.header
}

func (s *clientStream) Trailer() metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trailer
}

func (s *clientStream) CloseSend() error {
	s.mu.Lock()
	if s.check(); !s.closed && !s.over {
		s.closed = true
		s.out.put(frame.HalfClose, nil)
	}
	s.mu.Unlock()
	s.say()
	return nil
}

// send sends a message that is encoded, in memory of buffers, or ends the stream with the error of
// its encoding, or that it comes too late. M is for stats handlers; nil if they know the message.
func (s *clientStream) send(m any, memory *[]byte, err error) error {
	size := len(*memory)
	ok, err := s.put(memory, err)
	if !ok {
		return err
	}
	if m != nil {
		s.watch.outPayload(m, size)
	}
	s.say()
	return nil
}

// put puts a message into the outbox, once there is so little that the application need not wait.
// Ok says that it is there.
func (s *clientStream) put(memory *[]byte, err error) (ok bool, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.check(); err == nil && !s.over && s.out.queued > maxQueued; s.check() {
		s.wait()
	}
	if s.closed {
		err = status.Error(codes.Internal, "SendMsg called after CloseSend")
	}
	switch {
	case err != nil: // of this side, which ends the stream
		s.end(err)
		s.release()
		return false, err
	case s.over:
		return false, s.sendError()
	}
	s.out.putMessage(s.info.kind(), memory)
	if s.sent++; !s.got.IsZero() && time.Since(s.got) > soonSent {
		s.turns = max(s.turns-lateTurn, 0)
	}
	s.got = time.Time{}
	if !s.desc.ClientStreams && !s.closed {
		s.closed = true
		s.out.put(frame.HalfClose, nil)
	}
	return true, nil
}

// sendError returns the error of send when the stream has ended: RecvMsg has the status.
func (s *clientStream) sendError() error {
	if !s.desc.ClientStreams {
		return nil
	}
	return io.EOF
}

func (s *clientStream) RecvMsg(m any) error {
	err := s.recvMsg(m)
	if err != nil || !s.desc.ServerStreams {
		s.conclude()
	}
	return err
}

func (s *clientStream) recvMsg(m any) error {
	msg, err := s.receive()
	if errors.Is(err, io.EOF) && !s.desc.ServerStreams && !s.received {
		return status.Error(codes.Internal,
			"cardinality violation: received no response message from non-server-streaming RPC")
	}
	if err != nil {
		return err
	}
	s.received = true
	size := len(msg.data)
	err = s.info.decode(msg.data, msg.compressed, s.info.maxRecv, m)
	msg.free()
	if err != nil {
		s.mu.Lock()
		s.end(err)
		s.release()
		s.mu.Unlock()
		return err
	}
	if !s.watched {
		s.watched = true
		s.watch.inHeader(s.info.method, "", s.header, s.link.peer)
	}
	s.watch.inPayload(m, size)
	if s.desc.ServerStreams {
		return nil
	}
	// The only message: the status follows.
	if _, err = s.receive(); err == nil {
		err = status.Error(codes.Internal, "cardinality violation: expected <EOF> for non "+
			"server-streaming RPCs, but received another message")
		s.mu.Lock()
		s.end(err)
		s.release()
		s.mu.Unlock()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// receive waits for the next message. It returns io.EOF after the last one of a stream that
// succeeded.
func (s *clientStream) receive() (m message, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn()
	for {
		s.check()
		m, ok := s.in.take()
		if ok {
			if !s.over && s.in.ask() {
				s.mu.Unlock()
				s.say()
				s.mu.Lock()
			}
			s.info.received(s)
			if s.turns > 0 && s.pipe.waiting.Load() == 0 {
				s.got = time.Now()
			}
			return m, nil
		}
		if s.over {
			s.info.received(s)
			s.release()
			if s.err == nil {
				return m, io.EOF
			}
			return m, s.err
		}
		s.wait()
	}
}

// turn notes that the application receives. The lock is held.
func (s *clientStream) turn() {
	if s.turns = min(s.turns+1, 2*lateTurn); s.sent != 1 {
		s.turns = 0
	}
	s.sent = 0
}

// received fills what the options of a stream ask for.
func (c *callInfo) received(s *clientStream) {
	for _, h := range c.headers {
		*h = s.header
	}
	for _, p := range c.peers {
		*p = *s.link.peer
	}
}

// callError is the status of an error of erpc.
func (cc *ClientConn) callError(ctx context.Context, err error) error {
	if cc.ctx.Err() != nil && errors.Is(err, erpc.ErrClosed) {
		return errClosing
	}
	return callError(ctx, err)
}
