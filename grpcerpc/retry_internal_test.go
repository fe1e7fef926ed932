package grpcerpc

import (
	"context"
	"math"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// TestPause: pauses grow by the multiplier up to the limit, and vary by a fifth.
func TestPause(t *testing.T) {
	p := retryPolicy{initial: time.Second, most: 5 * time.Second, multiplier: 2}
	for _, v := range []struct {
		tries  int
		random float64
		want   time.Duration
	}{
		{0, 0.5, time.Second}, {1, 0.5, 2 * time.Second}, {2, 0.5, 4 * time.Second},
		{3, 0.5, 5 * time.Second}, {0, 0, 800 * time.Millisecond}, {9, 1, 6 * time.Second},
	} {
		if got := p.pause(v.tries, v.random); got != v.want {
			t.Errorf("after %d tries, %v: %v", v.tries, v.random, got)
		}
	}
}

// TestPushback: servers delay or forbid the next try.
func TestPushback(t *testing.T) {
	for _, v := range []struct {
		list  []string
		pause time.Duration
		said  bool
		ok    bool
	}{
		{nil, 0, false, true},
		{[]string{"0"}, 0, true, true},
		{[]string{"1500"}, 1500 * time.Millisecond, true, true},
		{[]string{"-1"}, 0, true, false},
		{[]string{"x"}, 0, true, false},
		{[]string{"1", "1"}, 0, true, false},
		{[]string{"9223372036854775807"}, math.MaxInt64 / 1_000_000 * time.Millisecond, true, true},
	} {
		pause, said, ok := pushback(metadata.MD{"grpc-retry-pushback-ms": v.list})
		if pause != v.pause || said != v.said || ok != v.ok {
			t.Errorf("%q: %v, %v, %v", v.list, pause, said, ok)
		}
	}
}

// TestRetryDue: pauses begin anew when the server has said when, and codes without a retry have
// none.
func TestRetryDue(t *testing.T) {
	r := retries{most: 9, policy: &retryPolicy{attempts: 4, initial: time.Second, most: time.Hour,
		multiplier: 2, codes: map[codes.Code]bool{codes.Unavailable: true}}}
	for i, v := range []struct {
		code   codes.Code
		pushed string
		pause  time.Duration
		ok     bool
		done   int // tries before it
	}{
		{codes.Unavailable, "", time.Second, true, 0},
		{codes.Unavailable, "", 2 * time.Second, true, 1},
		{codes.Unavailable, "7", 7 * time.Millisecond, true, 2},
		{codes.Unavailable, "", time.Second, true, 2},
		{codes.Unavailable, "", 2 * time.Second, true, 2},
		{codes.Unavailable, "-1", 0, false, 2},
		{codes.Aborted, "", 0, false, 2},
		{codes.Unavailable, "", 0, false, 3},
		{codes.Unavailable, "", 4 * time.Second, true, 0}, // the two that are no tries do not count
	} {
		var trailer metadata.MD
		if v.pushed != "" {
			trailer = metadata.Pairs(retryPushback, v.pushed)
		}
		r.done = v.done
		if pause, ok := r.due(v.code, trailer, 0.5); pause != v.pause || ok != v.ok {
			t.Errorf("%d: %v, %v", i, pause, ok)
		}
	}
	if pause, ok := new(retries).due(codes.Unavailable, nil, 0.5); ok {
		t.Errorf("without a policy: %v", pause)
	}
}

// ending is a context that is seen to end after its error was looked at once.
type ending struct {
	context.Context
	looks int
}

func (e *ending) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (e *ending) Err() error {
	if e.looks++; e.looks == 1 {
		return nil
	}
	return context.Canceled
}

// TestRetryPauseEnds: a pause ends with the context of the stream, and with the ClientConn.
func TestRetryPauseEnds(t *testing.T) {
	forever := context.Background()
	unavailable := status.Error(codes.Unavailable, "not yet")
	for name, v := range map[string]struct {
		call, conn context.Context
		want       error
	}{
		"context": {&ending{Context: forever}, forever,
			status.FromContextError(context.Canceled).Err()},
		"connection": {forever, &ending{Context: forever}, errClosing},
	} {
		r := &retryStream{cc: &ClientConn{ctx: v.conn}, ctx: v.call, info: new(callInfo)}
		r.info.retries.most = 2
		r.info.retries.policy = &retryPolicy{attempts: 2, initial: time.Hour, most: time.Hour,
			multiplier: 1, codes: map[codes.Code]bool{codes.Unavailable: true}}
		s := &clientStream{over: true, err: unavailable}
		r.current.Store(s)
		if r.again(s) {
			t.Errorf("%s: another try", name)
		}
		if err := r.failure(); err == nil || err.Error() != v.want.Error() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRetryAnnounce: what a try says of those before it comes to the metadata of the call, which
// stays as it is.
func TestRetryAnnounce(t *testing.T) {
	md := metadata.Pairs("key", "value")
	for done, want := range []metadata.MD{
		md,
		metadata.Pairs("key", "value", previousAttempts, "1"),
		metadata.Pairs("key", "value", previousAttempts, "2"),
	} {
		r := retries{done: done}
		if got := r.announce(md); !reflect.DeepEqual(got, want) {
			t.Errorf("after %d tries: %v", done, got)
		}
	}
	if len(md) != 1 {
		t.Errorf("the call has %v now", md)
	}
}
