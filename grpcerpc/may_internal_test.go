package grpcerpc

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// tried returns a stream of the application whose first stream, s, has ended with an error that the
// service config wants another try for, at once.
func tried() (r *retryStream, s *clientStream) {
	forever := context.Background()
	r = &retryStream{cc: &ClientConn{ctx: forever}, ctx: forever, info: new(callInfo)}
	r.info.retries.most = 9
	r.info.retries.policy = &retryPolicy{attempts: 9,
		codes: map[codes.Code]bool{codes.Unavailable: true, codes.OK: true}}
	s = &clientStream{over: true, err: status.Error(codes.Unavailable, "not yet"),
		link: &link{users: 1, onEnd: func() {}}}
	r.current.Store(s)
	return r, s
}

// TestRetryMay: a stream is tried again if the server has ended it without an answer, while the
// call and the ClientConn go on.
func TestRetryMay(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, v := range map[string]struct {
		change func(*retryStream, *clientStream)
		want   bool
	}{
		"unavailable":  {func(*retryStream, *clientStream) {}, true},
		"goes on":      {func(_ *retryStream, s *clientStream) { s.over = false }, false},
		"answered":     {func(_ *retryStream, s *clientStream) { s.answered = true }, false},
		"of this side": {func(_ *retryStream, s *clientStream) { s.local = true }, false},
		"success":      {func(_ *retryStream, s *clientStream) { s.err = nil }, false},
		"call ended":   {func(r *retryStream, _ *clientStream) { r.ctx = ended }, false},
		"conn closed":  {func(r *retryStream, _ *clientStream) { r.cc.ctx = ended }, false},
		"closed, not run": {func(r *retryStream, s *clientStream) {
			r.cc.ctx, s.notRun = ended, true
		}, false},
		"no policy":     {func(r *retryStream, _ *clientStream) { r.info.retries.policy = nil }, false},
		"often refused": {func(r *retryStream, _ *clientStream) { r.refusals = maxRefusals }, true},
		"not run":       {func(_ *retryStream, s *clientStream) { s.notRun = true }, true},
	} {
		r, s := tried()
		v.change(r, s)
		if r.may(s) != v.want {
			t.Errorf("%s: another try: %v", name, !v.want)
		}
		if s.link.retired != (s.notRun && v.want) {
			t.Errorf("%s: the link is retired: %v", name, s.link.retired)
		}
	}
}

// TestRetryRefusals: a stream that certainly never ran is tried again without a service config,
// but so often only, and only if the server is not there for it.
func TestRetryRefusals(t *testing.T) {
	r, s := tried()
	r.info.retries.policy, s.notRun = nil, true
	for i := range maxRefusals {
		if !r.may(s) {
			t.Errorf("refusal %d is the last", i+1)
		}
	}
	if r.may(s) {
		t.Errorf("a try after %d refusals", maxRefusals)
	}
	r, s = tried()
	r.info.retries.policy, s.notRun = nil, true
	if s.err = status.Error(codes.ResourceExhausted, "too many"); r.may(s) || s.link.retired {
		t.Errorf("a try after ResourceExhausted; link retired: %v", s.link.retired)
	}
}

// TestRetryTwoSee: of two goroutines that see a stream end, the second one finds the other stream.
func TestRetryTwoSee(t *testing.T) {
	r, s := tried()
	r.info.retries.policy = nil
	r.current.Store(new(clientStream))
	if !r.again(s) || r.committed.Load() {
		t.Error("the stream that took its place is not used")
	}
	r.current.Store(s)
	if r.again(s) || !r.committed.Load() {
		t.Error("another try, of a call without a service config")
	}
}

// TestRetryBuffer: messages are kept while all of them fit into the buffer, each with its cost.
func TestRetryBuffer(t *testing.T) {
	r, s := tried()
	r.info.retryBuffer = 2 * (10 + messageCost)
	for n := 1; n <= 4; n++ {
		if r.keep(make([]byte, 10)) != s {
			t.Errorf("message %d is for another stream", n)
		}
		if fits := n <= 2; r.committed.Load() == fits || (len(r.sent) == n) != fits {
			t.Errorf("message %d: %d kept, committed: %v", n, len(r.sent), r.committed.Load())
		}
	}
	if r.sent != nil || r.again(s) {
		t.Error("another try without the messages")
	}
}
