package erpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
	"github.com/userspace-rpc/erpc/wire"
)

// hang bounds what must happen at once; only a test that hangs waits so long.
const hang = 60 * time.Second

// The request types of the tests' servers.
const (
	typeEcho       = 1 // Func
	typeEchoInline = 2 // Handler
	typeHold       = 3 // tells started, then waits for release or the context
	typeFail       = 4
	typePanic      = 5
	typeGrow       = 6 // response of the size that the request says
	typeGoexit     = 7
	typeNobody     = 99
)

var bg = context.Background()

// checkLeaks fails the test if goroutines are left when its clean-ups have run.
// Call it first.
func checkLeaks(t testing.TB) {
	t.Helper()
	opt := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, opt) })
}

func listen(t testing.TB, addr string) *udp.Conn {
	t.Helper()
	c, err := udp.Listen(addr, udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rig is a Server with the handlers above.
type rig struct {
	*erpc.Server
	started chan struct{} // one value for each typeHold that began
	release chan struct{} // closed: typeHold goes on
	served  sync.WaitGroup
}

func newRig(t testing.TB, cfg erpc.Config) *rig {
	t.Helper()
	s, err := erpc.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{Server: s, started: make(chan struct{}, 1000), release: make(chan struct{})}
	g.handle(t, typeEcho, func(_ context.Context, req []byte) ([]byte, error) { return req, nil })
	g.handle(t, typeHold, func(ctx context.Context, req []byte) ([]byte, error) {
		g.started <- struct{}{}
		select {
		case <-g.release:
			return req, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	g.handle(t, typeFail, func(_ context.Context, req []byte) ([]byte, error) {
		return nil, fmt.Errorf("no such key: %s", req)
	})
	g.handle(t, typePanic, func(context.Context, []byte) ([]byte, error) { panic("on purpose") })
	g.handle(t, typeGrow, func(_ context.Context, req []byte) ([]byte, error) {
		return make([]byte, binary.LittleEndian.Uint32(req)), nil
	})
	g.handle(t, typeGoexit, func(context.Context, []byte) ([]byte, error) {
		runtime.Goexit()
		return nil, nil
	})
	inline := func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) }
	if err := s.HandleInline(typeEchoInline, inline); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		g.served.Wait()
	})
	return g
}

func (g *rig) handle(t testing.TB, typ uint8, fn erpc.Func) {
	t.Helper()
	if err := g.Handle(typ, fn); err != nil {
		t.Fatal(err)
	}
}

// serve serves on addr until the rig is closed and returns the address.
func (g *rig) serve(t testing.TB, addr string) string {
	t.Helper()
	tr := listen(t, addr)
	g.served.Go(func() {
		if err := g.Serve(tr); !errors.Is(err, erpc.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return tr.LocalAddr().String()
}

func dial(t testing.TB, addr string, cfg erpc.Config) *erpc.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(bg, hang)
	defer cancel()
	c, err := erpc.Dial(ctx, listen(t, "127.0.0.1:0"), addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// pair is a server and a client of it.
func pair(t testing.TB, cfg erpc.Config) (*rig, *erpc.Client) {
	t.Helper()
	checkLeaks(t)
	g := newRig(t, cfg)
	return g, dial(t, g.serve(t, "127.0.0.1:0"), cfg)
}

// pattern is content that tells its place: a seed and a position.
func pattern(seed, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(seed + i + i>>8*3 + i>>16*5)
	}
	return b
}

// echo calls typ with a pattern and checks the answer.
func echo(c *erpc.Client, typ uint8, seed, size int) error {
	ctx, cancel := context.WithTimeout(bg, hang)
	defer cancel()
	want := pattern(seed, size)
	got, err := c.Call(ctx, typ, want)
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("seed %d, %d bytes: the answer has %d bytes and differs", seed, size, len(got))
	}
	return err
}

// eventually returns the result of ch, or fails the test if it does not come.
func eventually[T any](t testing.TB, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(hang):
		t.Fatalf("%s: nothing after %v", what, hang)
	}
	return v
}

func TestCallFromManyGoroutines(t *testing.T) {
	_, c := pair(t, erpc.Config{})
	const workers, each = 40, 50
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range each {
				if err := echo(c, typeEcho+uint8(i&1), w*each+i, (w*37+i*i)%3000); err != nil {
					t.Errorf("worker %d, call %d: %v", w, i, err)
					return
				}
			}
		})
	}
	all.Wait()
	_ = c.Close()
	const calls = workers * each
	if st := c.Stats(); st.RequestsSent != calls || st.Completed != calls || st.Failed != 0 {
		t.Errorf("%d sent, %d completed, %d failed, want %d, all, 0", st.RequestsSent, st.Completed,
			st.Failed, calls)
	}
}

func TestMessageSizes(t *testing.T) {
	_, c := pair(t, erpc.Config{})
	for _, size := range []int{0, 1, 1419, 1420, 1428, 1429, 1452, 100_000, 8<<20 - 1, 8 << 20} {
		if err := echo(c, typeEcho, size, size); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		if err := echo(c, typeEchoInline, size, size); err != nil {
			t.Errorf("%d bytes inline: %v", size, err)
		}
	}
	_, err := c.Call(bg, typeEcho, make([]byte, 8<<20+1))
	if !errors.Is(err, erpc.ErrTooLarge) || errors.Is(err, erpc.ErrRemote) {
		t.Errorf("a request beyond MaxMessage: %v", err)
	}
}

func TestAppendCall(t *testing.T) {
	g, c := pair(t, erpc.Config{})
	buf := append(make([]byte, 0, 100), "head "...)
	got, err := c.AppendCall(bg, buf, typeEcho, []byte("and tail"))
	if err != nil || string(got) != "head and tail" || &got[0] != &buf[0] {
		t.Fatalf("%q, %v; same memory: %v", got, err, &got[0] == &buf[0])
	}
	for name, call := range map[string]func() ([]byte, error){
		"remote error": func() ([]byte, error) { return c.AppendCall(bg, buf, typeFail, nil) },
		"ended context": func() ([]byte, error) {
			ctx, cancel := context.WithCancel(bg)
			cancel()
			return c.AppendCall(ctx, buf, typeEcho, nil)
		},
		"cancelled": func() ([]byte, error) {
			ctx, cancel := context.WithCancel(bg)
			go func() { <-g.started; cancel() }()
			return c.AppendCall(ctx, buf, typeHold, nil)
		},
	} {
		if got, err := call(); err == nil || string(got) != "head " {
			t.Errorf("%s: %q, %v; want the buffer as it was", name, got, err)
		}
	}
}

func TestContextEnds(t *testing.T) {
	g, c := pair(t, erpc.Config{})
	for name, tc := range map[string]struct {
		make     func() (context.Context, context.CancelFunc)
		own, std error
	}{
		"deadline": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(bg, 20*time.Millisecond)
		}, erpc.ErrDeadline, context.DeadlineExceeded},
		"cancel": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(bg)
			go func() { <-g.started; cancel() }()
			return ctx, cancel
		}, erpc.ErrCancelled, context.Canceled},
		"ended before": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithDeadline(bg, time.Unix(0, 0))
			return ctx, cancel
		}, erpc.ErrDeadline, context.DeadlineExceeded},
	} {
		ctx, cancel := tc.make()
		_, err := c.Call(ctx, typeHold, []byte("x"))
		cancel()
		if !errors.Is(err, tc.own) || !errors.Is(err, tc.std) {
			t.Errorf("%s: %v, want it to match %v and %v", name, err, tc.own, tc.std)
		}
	}
	close(g.release)
	if err := echo(c, typeEcho, 1, 5000); err != nil {
		t.Errorf("after calls that were given up: %v", err)
	}
}

// TestCancelMany gives calls up at all stages of their lives, and looks whether the
// others get their own answers.
func TestCancelMany(t *testing.T) {
	_, c := pair(t, erpc.Config{})
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := range 60 {
				ctx, cancel := context.WithCancel(bg)
				if i%2 == 0 {
					go cancel()
				}
				want := pattern(w*1000+i, i*200)
				got, err := c.Call(ctx, typeEcho, want)
				cancel()
				switch {
				case err == nil && !bytes.Equal(got, want):
					t.Errorf("worker %d, call %d: foreign answer", w, i)
				case err != nil && (i%2 != 0 || !errors.Is(err, erpc.ErrCancelled)):
					t.Errorf("worker %d, call %d: %v", w, i, err)
				}
			}
		})
	}
	all.Wait()
}

func TestCloseWithCallsUnderWay(t *testing.T) {
	g, c := pair(t, erpc.Config{})
	const workers = 20 // more than the session has slots
	errs := make(chan error, workers)
	for range workers {
		go func() {
			_, err := c.Call(bg, typeHold, []byte("x"))
			errs <- err
		}()
	}
	eventually(t, g.started, "a handler")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for range workers {
		if err := eventually(t, errs, "a call"); !errors.Is(err, erpc.ErrClosed) {
			t.Errorf("a call under way: %v", err)
		}
	}
	if _, err := c.Call(bg, typeEcho, nil); !errors.Is(err, erpc.ErrClosed) {
		t.Errorf("a call after Close: %v", err)
	}
	if err := c.Ready(bg); !errors.Is(err, erpc.ErrClosed) {
		t.Errorf("Ready after Close: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// TestCloseRacesCalls closes clients while calls are being started: each must end.
func TestCloseRacesCalls(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{})
	addr := g.serve(t, "127.0.0.1:0")
	for range 20 {
		c := dial(t, addr, erpc.Config{})
		const workers = 8
		errs := make(chan error, workers)
		begun := make(chan struct{}, workers)
		for range workers {
			go func() {
				var err error
				for n := 0; err == nil; n++ {
					_, err = c.Call(bg, typeEchoInline, []byte("x"))
					if n == 0 {
						begun <- struct{}{}
					}
				}
				errs <- err
			}()
		}
		eventually(t, begun, "a call")
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for range workers {
			if err := eventually(t, errs, "a call during Close"); !errors.Is(err, erpc.ErrClosed) {
				t.Errorf("a call during Close: %v", err)
			}
		}
	}
}

func TestDialFails(t *testing.T) {
	quick := erpc.Config{Timing: erpc.Timing{ConnectTimeout: 50 * time.Millisecond}}
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	refused := func(t *testing.T) string {
		g := newRig(t, erpc.Config{MaxSessions: 1})
		addr := g.serve(t, "127.0.0.1:0")
		dial(t, addr, erpc.Config{})
		return addr
	}
	at := func(addr string) func(*testing.T) string {
		return func(*testing.T) string { return addr }
	}
	for _, tc := range []struct {
		name string
		addr func(t *testing.T) string
		cfg  erpc.Config
		ctx  time.Duration
		want []error
	}{
		{"nobody answers", at(silent.LocalAddr().String()), quick, hang, []error{erpc.ErrConnect}},
		{"context first", at(silent.LocalAddr().String()), erpc.Config{}, 20 * time.Millisecond,
			[]error{erpc.ErrDeadline, context.DeadlineExceeded}},
		{"no session left", refused, erpc.Config{}, hang, []error{erpc.ErrRefused, erpc.ErrExhausted}},
		{"no address", at("127.0.0.1"), erpc.Config{}, hang,
			[]error{transport.ErrBadAddress, erpc.ErrResolve}},
		{"bad config", at("127.0.0.1:1"), erpc.Config{Slots: -1}, hang, []error{erpc.ErrConfig}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checkLeaks(t)
			addr := tc.addr(t)
			ctx, cancel := context.WithTimeout(bg, tc.ctx)
			defer cancel()
			tr := listen(t, "127.0.0.1:0")
			c, err := erpc.Dial(ctx, tr, addr, tc.cfg)
			if c != nil || err == nil {
				t.Fatalf("client %v, error %v", c, err)
			}
			for _, want := range tc.want {
				if !errors.Is(err, want) {
					t.Errorf("%v, want it to match %v", err, want)
				}
			}
			// A shared Loop that has it stays for a moment.
			port := tr.LocalAddr().String()
			end := time.Now().Add(hang)
			for range time.Tick(time.Millisecond) {
				if again, err := udp.Listen(port, udp.Config{}); err == nil {
					is(t, "close", again.Close(), nil)
					break
				} else if time.Now().After(end) {
					t.Fatalf("Dial left the transport open: %v", err)
				}
			}
		})
	}
}

func TestErrorsOfTheServer(t *testing.T) {
	_, c := pair(t, erpc.Config{MaxMessage: 1000})
	size := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	for _, tc := range []struct {
		name string
		typ  uint8
		req  []byte
		want error
		code erpc.Reason
		text string
	}{
		{"application", typeFail, []byte("key 7"), erpc.ErrRemote, erpc.ReasonApplication,
			"no such key: key 7"},
		{"panic", typePanic, nil, erpc.ErrPanic, erpc.ReasonPanic, ""},
		{"nobody serves", typeNobody, nil, erpc.ErrNoHandler, erpc.ReasonNoHandler, ""},
		{"response too large", typeGrow, size(1001), erpc.ErrTooLarge, erpc.ReasonTooLarge, ""},
	} {
		_, err := c.Call(bg, tc.typ, tc.req)
		var remote *erpc.Error
		if !errors.As(err, &remote) || !errors.Is(err, erpc.ErrRemote) || !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want an *Error that matches %v", tc.name, err, tc.want)
			continue
		}
		if remote.Reason != tc.code || remote.Text != tc.text {
			t.Errorf("%s: code %v, text %q; want %v, %q",
				tc.name, remote.Reason, remote.Text, tc.code, tc.text)
		}
	}
	if resp, err := c.Call(bg, typeGrow, size(1000)); err != nil || len(resp) != 1000 {
		t.Errorf("the largest response: %d bytes, %v", len(resp), err)
	}
	if _, err := c.Call(bg, wire.MaxReqType+1, nil); !errors.Is(err, erpc.ErrReqType) {
		t.Errorf("request type out of range: %v", err)
	}
}

func TestErrorTextIsCut(t *testing.T) {
	g := newRig(t, erpc.Config{})
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	_, err := c.Call(bg, typeFail, bytes.Repeat([]byte("k"), 5000))
	var remote *erpc.Error
	if !errors.As(err, &remote) || len(remote.Text) == 0 || len(remote.Text) > wire.MaxErrorText {
		t.Fatalf("a long error text: %v", err)
	}
}

// TestSmallerClient has a client that takes less than the server.
func TestSmallerClient(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{})
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{MaxMessage: 500})
	_, err := c.Call(bg, typeGrow, binary.LittleEndian.AppendUint32(nil, 501))
	if !errors.Is(err, erpc.ErrTooLarge) {
		t.Errorf("response beyond what the client takes: %v", err)
	}
	if err := echo(c, typeEcho, 3, 500); err != nil {
		t.Error(err)
	}
}
