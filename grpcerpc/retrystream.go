package grpcerpc

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// defaultRetryBuffer is how many bytes of messages a stream keeps for another try, as in grpc-go.
const defaultRetryBuffer = 256 << 10

// retryStream is a stream of the application: a clientStream, and further ones if it may be tried
// again. That is so until the server has answered by a header or a message, and as long as what was
// sent fits into a buffer. Then it is tried again as the service config says; and, by itself, if it
// certainly never began at a server: because the server stops, or because the connection was lost
// before the stream was sent.
type retryStream struct {
	cc     *ClientConn
	info   *callInfo
	desc   *grpc.StreamDesc
	ctx    context.Context // with the timeout of the service config
	cancel context.CancelFunc
	ended  sync.Once

	prev, next *retryStream // in cc.streams
	removed    bool         // from there, for ever

	current   atomic.Pointer[clientStream]
	committed atomic.Bool // no other try follows

	mu       sync.Mutex
	sent     [][]byte // messages, until committed
	size     int      // of these, in bytes
	closed   bool     // CloseSend was called
	refusals int
	err      error // why there was no other try, if that is not the error of the last one
}

// newStream begins a stream, over TCP if erpc has no connection and that may be.
func (cc *ClientConn) newStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts []grpc.CallOption,
) (grpc.ClientStream, error) {
	if cc.onlyTCP() {
		return cc.tcp.NewStream(ctx, desc, method, opts...)
	}
	cc.idle.begin()
	waited, ended := cc.await(ctx)
	c, err := cc.callInfoOf(method, opts)
	if err != nil {
		cc.idle.end()
		return nil, err
	}
	if ended != nil {
		cc.idle.end()
		c.finish(ended)
		return nil, ended
	}
	c.waited, c.counts = waited, true
	s, err := cc.newRetryStream(ctx, c, desc, cc.mayTCP(ctx))
	if errors.Is(err, errOverTCP) {
		cc.idle.end()
		return cc.tcp.NewStream(ctx, desc, method, opts...)
	}
	return s, err
}

// newRetryStream begins a stream over erpc. The error is errOverTCP if there is no connection and
// the stream may begin over TCP.
func (cc *ClientConn) newRetryStream(
	ctx context.Context, c *callInfo, desc *grpc.StreamDesc, overTCP bool,
) (grpc.ClientStream, error) {
	r := &retryStream{cc: cc, info: c, desc: desc}
	r.ctx, r.cancel = cc.within(ctx, c.method)
	s, err := cc.beginStream(r.ctx, r, overTCP)
	if errors.Is(err, errOverTCP) {
		r.cancel()
		return nil, err
	}
	if err != nil {
		r.finish(err)
		return nil, err
	}
	r.use(s)
	return r, nil
}

// use has s take the place of the stream before.
func (r *retryStream) use(s *clientStream) {
	if old := r.current.Swap(s); old != nil {
		old.stop()
	} else {
		r.cc.streams.add(r)
	}
	if r.cc.ctx.Err() != nil { // Close may have looked before
		go r.abandon(s, errClosing)
	}
}

// abandon finishes the stream, of which s is the last one, when the application may not ask how it
// ended.
func (r *retryStream) abandon(s *clientStream, err error) {
	s.tell(err)
	r.finish(err)
}

// finish tells the options how the stream ended. It may be called several times.
func (r *retryStream) finish(err error) {
	r.ended.Do(func() {
		r.cc.streams.remove(r)
		if s := r.current.Load(); s != nil {
			s.stop()
		}
		r.cancel()
		if r.info.counts {
			r.cc.idle.end()
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		r.info.finish(err)
	})
}

// commit forgets what was kept for another try.
func (r *retryStream) commit() {
	if !r.committed.Load() {
		r.mu.Lock()
		r.commitLocked()
		r.mu.Unlock()
	}
}

func (r *retryStream) commitLocked() {
	r.committed.Store(true)
	r.sent = nil
}

// again reports whether another stream takes the place of s, which has ended.
func (r *retryStream) again(s *clientStream) bool {
	if r.committed.Load() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current.Load() != s {
		return true
	}
	for !r.committed.Load() && r.may(s) {
		s.conclude()
		next, err := r.cc.beginStream(r.ctx, r, false)
		if err != nil {
			r.err = err
			break
		}
		r.use(next)
		if s = next; r.replay(s) {
			return true
		}
	}
	r.commitLocked()
	return false
}

// may reports whether another try may follow s, and waits until it is time for that.
func (r *retryStream) may(s *clientStream) bool {
	s.mu.Lock()
	failed, notRun, trailer := s.err, s.notRun, s.trailer
	code := status.Code(failed)
	no := !s.over || s.answered || s.local || code == codes.OK
	s.mu.Unlock()
	if no || r.ctx.Err() != nil || r.cc.ctx.Err() != nil {
		return false
	}
	if notRun && code == codes.Unavailable && r.refusals < maxRefusals {
		r.refusals++
		s.link.retire() // it takes no more, which may not be known yet
		return true
	}
	again, err := r.info.retries.next(r.ctx, r.cc.ctx, code, trailer)
	if r.err = err; !again && err == nil && r.info.retries.spent {
		r.err = r.info.retries.last(failed)
	}
	return again
}

// replay sends what was sent before. It reports false if the stream has ended before all was.
func (r *retryStream) replay(s *clientStream) bool {
	for _, data := range r.sent {
		memory := getBuffer()
		*memory = append((*memory)[:0], data...)
		if s.send(nil, memory, nil) != nil {
			return false
		}
	}
	if r.closed {
		_ = s.CloseSend() // it never fails
	}
	return true
}

// keep keeps a message for another try, and returns the stream that it is for.
func (r *retryStream) keep(data []byte) *clientStream {
	if !r.committed.Load() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.size += len(data) + messageCost; r.size > r.info.retryBuffer {
			r.commitLocked()
		} else if !r.committed.Load() {
			r.sent = append(r.sent, append([]byte(nil), data...))
		}
	}
	return r.current.Load()
}

// SendMsg implements grpc.ClientStream, as the following methods do.
func (r *retryStream) SendMsg(m any) error {
	memory := getBuffer()
	data, err := r.info.encode((*memory)[:0], m, r.info.maxSend)
	*memory = data
	if err != nil {
		err = r.current.Load().send(m, memory, err)
	} else {
		s := r.keep(data)
		if err = s.send(m, memory, nil); errors.Is(err, io.EOF) && r.again(s) {
			return nil // the other stream has it
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.conclude(err)
	}
	return err
}

// conclude tells that the stream has ended when the application may not ask any more: RecvMsg tells
// it else.
func (r *retryStream) conclude(err error) {
	r.current.Load().conclude()
	r.finish(err)
}

func (r *retryStream) RecvMsg(m any) error {
	for {
		s := r.current.Load()
		err := s.RecvMsg(m)
		if err == nil && r.desc.ServerStreams {
			r.commit()
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			if r.again(s) {
				continue
			}
			if failed := r.failure(); failed != nil {
				err = failed
			}
		}
		r.finish(err)
		return err
	}
}

// failure returns why there was no other try, nil for the error of the last one.
func (r *retryStream) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Header returns nil and no error for a stream that has failed, as in grpc-go: RecvMsg has the
// status.
func (r *retryStream) Header() (metadata.MD, error) {
	for {
		s := r.current.Load()
		md := s.Header()
		s.mu.Lock()
		answered := s.answered
		s.mu.Unlock()
		if answered {
			r.commit()
			return md, nil
		}
		if !r.again(s) {
			failed := r.failure()
			if failed == nil {
				failed = r.current.Load().failure()
			}
			if failed != nil {
				r.conclude(failed)
			}
			return md, nil
		}
	}
}

func (r *retryStream) CloseSend() error {
	r.mu.Lock()
	r.closed = true
	s := r.current.Load()
	r.mu.Unlock()
	return s.CloseSend()
}

func (r *retryStream) Trailer() metadata.MD { return r.current.Load().Trailer() }

// Context returns that of the stream which there is. No other one takes its place then, as in
// grpc-go.
func (r *retryStream) Context() context.Context {
	r.commit()
	return r.current.Load().Context()
}
