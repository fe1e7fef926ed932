package grpcerpc

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/keepalive"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestKeepaliveTiming: the parameters decide how long a peer may be silent, with grpc-go's defaults
// and bounds.
func TestKeepaliveTiming(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, v := range []struct {
		pause, timeout, failure, heartbeat time.Duration
	}{
		{20 * s, 6 * s, 26 * s, 2 * s},
		{0, 6 * s, 16 * s, 2 * s},
		{time.Minute, 0, 80 * s, 20 * s / 3},
		{time.Minute, 30 * ms, 60*s + 30*ms, 50 * ms},
		{math.MaxInt64, math.MaxInt64, 48 * time.Hour, 8 * time.Hour},
		{math.MinInt64, math.MinInt64, 30 * s, 20 * s / 3},
	} {
		var o dialOptions
		p := keepalive.ClientParameters{Time: v.pause, Timeout: v.timeout}
		if err := errors.Join(WithKeepaliveParams(p)(&o), o.keepAlive()); err != nil {
			t.Fatal(err)
		}
		want := erpc.Timing{FailureTimeout: v.failure, Heartbeat: v.heartbeat}
		if o.config.Timing != want {
			t.Errorf("client, %v: %v, want %v", p, o.config.Timing, want)
		}
	}
	for _, v := range []struct {
		pause, timeout, failure, heartbeat time.Duration
	}{
		{0, 0, 0, 0}, {-1, -1, 0, 0},
		{20 * s, 6 * s, 26 * s, 2 * s},
		{ms, 6 * s, 7 * s, 2 * s},
		{0, 6 * s, 2*time.Hour + 6*s, 2 * s},
		{time.Minute, 0, 80 * s, 20 * s / 3},
		{math.MaxInt64, math.MaxInt64, 48 * time.Hour, 8 * time.Hour},
	} {
		var o serverOptions
		p := keepalive.ServerParameters{Time: v.pause, Timeout: v.timeout}
		KeepaliveParams(p)(&o)
		if err := o.keepAlive(); err != nil {
			t.Fatal(err)
		}
		want := erpc.Timing{FailureTimeout: v.failure, Heartbeat: v.heartbeat}
		if o.config.Timing != want {
			t.Errorf("server, %v: %v, want %v", p, o.config.Timing, want)
		}
	}
}

// TestKeepaliveTwice: what contradicts keepalive parameters is refused by name.
func TestKeepaliveTwice(t *testing.T) {
	kept := WithKeepaliveParams(keepalive.ClientParameters{})
	timed := erpc.Config{Timing: erpc.Timing{FailureTimeout: time.Second}}
	for name, opt := range map[string]DialOption{"Config.Timing": WithConfig(timed),
		"WithLoops": WithLoops(NewLoops(openAuto, erpc.Config{}))} {
		_, err := NewClient("passthrough:///x", kept, opt)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("with %s: %v", name, err)
		}
	}
	defer func() {
		if err := recover(); err == nil {
			t.Error("a server took both")
		}
	}()
	NewServer(ServerConfig(timed), KeepaliveParams(keepalive.ServerParameters{Time: time.Hour}))
}

// TestKeepaliveLoops: ClientConns with the same parameters share an event loop, which has their
// timing, and others do not.
func TestKeepaliveLoops(t *testing.T) {
	dial := func(opts ...DialOption) *sharedLoop {
		cc, err := NewClient("passthrough:///127.0.0.1:1", opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cc.Close() })
		return cc.loop
	}
	minute := WithKeepaliveParams(keepalive.ClientParameters{Time: time.Minute})
	hour := WithKeepaliveParams(keepalive.ClientParameters{Time: time.Hour})
	first, second, other, plain := dial(minute), dial(minute), dial(hour), dial()
	if first != second || first == other || first == plain {
		t.Errorf("loops %p, %p, %p, %p", first, second, other, plain)
	}
	if got := first.owner.config.Timing.FailureTimeout; got != 80*time.Second {
		t.Errorf("the loop's FailureTimeout is %v", got)
	}
}
