package grpcerpc

import (
	"math"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
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
