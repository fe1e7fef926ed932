package load

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/labs/peers/echo"
)

// fake is a peer without a network, whose calls do as they are told.
type fake struct {
	call   echo.Call
	dialed atomic.Int32
	closed atomic.Int32
}

func (f *fake) NewCall() echo.Call { return f.call }
func (f *fake) Close() error       { f.closed.Add(1); return nil }

func (f *fake) peer(perCall bool) echo.Peer {
	return echo.Peer{Name: "fake", ConnPerCall: perCall,
		Dial: func(context.Context, string, echo.Sizes) (echo.Conn, error) {
			f.dialed.Add(1)
			return f, nil
		}}
}

func right(_ context.Context, request []byte) ([]byte, error) { return request, nil }

func config(p echo.Peer) Config {
	cpu := time.Duration(0)
	return Config{Peer: p, Sizes: echo.Sizes{Request: 16, Response: 16}, Window: 4, Conns: 1,
		Warmup: time.Millisecond, Duration: time.Millisecond,
		CPU: func() time.Duration { cpu += time.Second; return cpu }}
}

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		conns, want int
		perCall     bool
	}{{1, 1, false}, {3, 3, false}, {9, 4, false}, {1, 4, true}} {
		f := &fake{call: right}
		c := config(f.peer(tt.perCall))
		c.Conns = tt.conns
		r, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if r.Rpcs < int64(c.Window) || r.Rpcs != r.Hist.TotalCount() || r.Elapsed <= 0 ||
			r.CPU != time.Second {
			t.Errorf("%+v: %d RPCs, %v, CPU %v", tt, r.Rpcs, r.Elapsed, r.CPU)
		}
		if r.Conns != tt.want || int(f.dialed.Load()) != tt.want || int(f.closed.Load()) != tt.want {
			t.Errorf("%+v: %d connections, %d dialed, %d closed", tt, r.Conns, f.dialed.Load(),
				f.closed.Load())
		}
	}
}

// TestWarmupDoesNotCount: what is recorded is the measurement alone.
func TestWarmupDoesNotCount(t *testing.T) {
	var calls atomic.Int64
	f := &fake{call: func(_ context.Context, request []byte) ([]byte, error) {
		calls.Add(1)
		return request, nil
	}}
	c := config(f.peer(false))
	c.Warmup, c.Duration = 5*time.Millisecond, time.Millisecond
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Rpcs > calls.Load()-int64(c.Window) {
		t.Errorf("%d RPCs counted, %d made", r.Rpcs, calls.Load())
	}
}

func TestErrors(t *testing.T) {
	boom := errors.New("boom")
	var n atomic.Int64
	tests := map[string]struct {
		call echo.Call
		want string
	}{
		"a call fails": {func(context.Context, []byte) ([]byte, error) { return nil, boom }, "boom"},
		"a later call fails": {func(_ context.Context, request []byte) ([]byte, error) {
			if n.Add(1) > 20 {
				return nil, boom
			}
			return request, nil
		}, "boom"},
		"short": {func(_ context.Context, request []byte) ([]byte, error) {
			return request[1:], nil
		}, "15 bytes"},
		"wrong answer": {func(context.Context, []byte) ([]byte, error) { return make([]byte, 16), nil },
			"differs"},
	}
	for name, tt := range tests {
		f := &fake{call: tt.call}
		c := config(f.peer(false))
		c.Duration = time.Minute // it ends early
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if f.closed.Load() != 1 {
			t.Errorf("%s: connection left open", name)
		}
	}
	p := (&fake{}).peer(false)
	p.Dial = func(context.Context, string, echo.Sizes) (echo.Conn, error) { return nil, boom }
	if _, err := Run(t.Context(), config(p)); !errors.Is(err, boom) {
		t.Errorf("dial: %v", err)
	}
	c := config((&fake{call: right}).peer(false))
	c.Conns = 0
	if _, err := Run(t.Context(), c); err == nil {
		t.Error("no connections: no error")
	}
}

// counting is a fake that counts what it sends.
type counting struct{ *fake }

func (counting) Sent() (packets, calls uint64) { return 70, 30 }

// TestCounted: what connections have sent is added up, beside all RPCs.
func TestCounted(t *testing.T) {
	f := &fake{call: right}
	p := f.peer(false)
	p.Dial = func(context.Context, string, echo.Sizes) (echo.Conn, error) { return counting{f}, nil }
	c := config(p)
	c.Conns = 2
	r, err := Run(t.Context(), c)
	if err != nil || r.Packets != 140 || r.Sends != 60 || r.All < r.Rpcs+int64(c.Window) {
		t.Errorf("%v: %d packets, %d sends, %d of %d RPCs", err, r.Packets, r.Sends, r.Rpcs, r.All)
	}
}

// TestWhole: a wrong byte in the middle is noticed in the warm-up, and later if that is asked for.
func TestWhole(t *testing.T) {
	for _, whole := range []bool{false, true} {
		var measured atomic.Bool
		f := &fake{call: func(_ context.Context, request []byte) ([]byte, error) {
			if measured.Load() {
				request = append([]byte(nil), request...)
				request[500]++
			}
			return request, nil
		}}
		c := config(f.peer(false))
		c.Sizes, c.Whole = echo.Sizes{Request: 1000, Response: 1000}, whole
		c.CPU = func() time.Duration { measured.Store(true); return 0 }
		_, err := Run(t.Context(), c)
		if whole != (err != nil && strings.Contains(err.Error(), "differs")) {
			t.Errorf("whole %v: %v", whole, err)
		}
	}
}

// TestBeside: RPCs of another size share the connections, from callers and from streams, and are
// not among the figures.
func TestBeside(t *testing.T) {
	var small, large atomic.Int64
	count := func(request []byte) {
		switch len(request) {
		case 16:
			small.Add(1)
		case 100:
			large.Add(1)
		default:
			t.Errorf("request of %d bytes", len(request))
		}
	}
	f := &fake{call: func(_ context.Context, request []byte) ([]byte, error) {
		count(request)
		return request, nil
	}}
	s := &fakeStream{answer: func(_ *fakeStream, r sentRequest) answers {
		count(r.request)
		return answers{r}
	}}
	for _, p := range []echo.Peer{f.peer(false), streams(s)} {
		small.Store(0)
		large.Store(0)
		c := config(p)
		c.Beside, c.BesideSize = 3, 100
		warm := int64(0)
		c.CPU = func() time.Duration {
			if warm == 0 {
				warm = small.Load()
			}
			return 0
		}
		r, err := Run(t.Context(), c)
		if err != nil || r.Rpcs != small.Load()-warm || r.Beside < 3 || r.Beside >= large.Load() ||
			r.All != small.Load()+large.Load() {
			t.Errorf("%v: %d RPCs, %d beside, %d in all", err, r.Rpcs, r.Beside, r.All)
		}
	}
	if s.most != 7 {
		t.Errorf("%d in flight on a stream, want 4 and 3", s.most)
	}
}
