package erpc_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

func TestWaitModes(t *testing.T) {
	for name, wait := range map[string]erpc.Wait{"adaptive": erpc.WaitAdaptive, "spin": erpc.WaitSpin,
		"sleep": erpc.WaitSleep} {
		t.Run(name, func(t *testing.T) {
			_, c := pair(t, erpc.Config{Wait: wait})
			for i := range 20 {
				if err := echo(c, typeEcho, i, i*500); err != nil {
					t.Fatal(err)
				}
				if err := echo(c, typeEchoInline, i, i*500); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestServeTwoTransports(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{})
	a, b := g.serve(t, "127.0.0.1:0"), g.serve(t, "127.0.0.1:0")
	if a == b {
		t.Fatal("two transports have one address")
	}
	ca, cb := dial(t, a, erpc.Config{}), dial(t, b, erpc.Config{})
	var all sync.WaitGroup
	for _, c := range []*erpc.Client{ca, cb} {
		all.Go(func() {
			for i := range 50 {
				if err := echo(c, typeEcho, i, i*100); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := len(g.Addrs()); n != 2 {
		t.Errorf("%d addresses, want 2", n)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	for i, st := range g.Stats() {
		if st.RequestsServed != 50 {
			t.Errorf("loop %d served %d requests, want 50", i, st.RequestsServed)
		}
	}
}

func TestServeAfterClose(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{})
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	tr := listen(t, "127.0.0.1:0")
	if err := g.Serve(tr); !errors.Is(err, erpc.ErrClosed) {
		t.Errorf("Serve after Close: %v", err)
	}
	if err := tr.Wait(0); err == nil {
		t.Error("Serve after Close left the transport open")
	}
}

func TestHandleAfterServe(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{})
	dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	if err := g.Handle(50, func(context.Context, []byte) ([]byte, error) {
		return nil, nil
	}); !errors.Is(err, erpc.ErrConfig) {
		t.Errorf("Handle after Serve: %v", err)
	}
	if err := g.Handle(51, nil); !errors.Is(err, erpc.ErrConfig) {
		t.Errorf("nil handler: %v", err)
	}
}

// refused calls until the server refuses new requests.
func refused(t *testing.T, c *erpc.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(bg, hang)
	defer cancel()
	for {
		switch _, err := c.Call(ctx, typeEchoInline, nil); {
		case err == nil:
		case errors.Is(err, erpc.ErrDraining):
			return
		default:
			t.Fatalf("a call during Shutdown: %v", err)
		}
	}
}

func TestShutdownDrains(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{})
	addr := g.serve(t, "127.0.0.1:0")
	c := dial(t, addr, erpc.Config{})
	const held = 3
	results := make(chan error, held)
	for i := range held {
		go func() { results <- echo(c, typeHold, i, 3000) }()
	}
	for range held {
		eventually(t, g.started, "a handler")
	}
	down := make(chan error, 1)
	go func() { down <- g.Shutdown(bg) }()
	refused(t, c)
	tr := listen(t, "127.0.0.1:0")
	if _, err := erpc.Dial(bg, tr, addr, erpc.Config{}); !errors.Is(err, erpc.ErrRefused) {
		t.Errorf("a new session during Shutdown: %v", err)
	}
	select {
	case err := <-down:
		t.Fatalf("Shutdown returned %v while handlers ran", err)
	default:
	}
	close(g.release)
	for range held {
		if err := eventually(t, results, "a held call"); err != nil {
			t.Errorf("a call that ran when Shutdown began: %v", err)
		}
	}
	if err := eventually(t, down, "Shutdown"); err != nil {
		t.Error(err)
	}
}

func TestShutdownExpires(t *testing.T) {
	for name, ctx := range map[string]func() (context.Context, context.CancelFunc){
		"in time": func() (context.Context,
			context.CancelFunc) {
			return context.WithTimeout(bg, 20*time.Millisecond)
		},
		"at start": func() (context.Context,
			context.CancelFunc) {
			return context.WithDeadline(bg, time.Unix(0, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, c := pair(t, erpc.Config{})
			result := make(chan error, 1)
			go func() {
				_, err := c.Call(bg, typeHold, nil)
				result <- err
			}()
			eventually(t, g.started, "the handler")
			ctx, cancel := ctx()
			defer cancel()
			err := g.Shutdown(ctx)
			if !errors.Is(err, erpc.ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Shutdown: %v", err)
			}
			if err := eventually(t, result, "the call"); err == nil {
				t.Error("the call has an answer, but its handler did not finish")
			}
		})
	}
}

// TestShutdownLeavesHandlers: handlers of each kind that ignore their contexts do not keep Shutdown
// longer than its own. Sessions end, and Close waits for the handlers, also twice at a time.
func TestShutdownLeavesHandlers(t *testing.T) {
	const typeDeaf, typeLater, typeSlowEnd = 40, 41, 42
	for name, typ := range map[string]uint8{
		"before the answer": typeDeaf, "later": typeLater, "behind the answer": typeSlowEnd,
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			g := newRig(t, erpc.Config{})
			release := sync.OnceFunc(func() { close(g.release) })
			defer release()
			ended := make(chan error, 1) // what the handler's context said
			deaf := func(ctx context.Context) {
				g.started <- struct{}{}
				<-g.release
				ended <- ctx.Err()
			}
			g.handle(t, typeDeaf, func(ctx context.Context, b []byte) ([]byte, error) {
				deaf(ctx)
				return b, nil
			})
			slowEnd := func(ctx context.Context, h erpc.ReqHandle) {
				_ = h.RespondBytes(nil)
				deaf(ctx)
			}
			later := func(h erpc.ReqHandle) {
				go func() {
					deaf(bg)
					_ = h.RespondBytes(nil)
				}()
			}
			if err := errors.Join(g.HandleRequest(typeSlowEnd, slowEnd),
				g.HandleLater(typeLater, later)); err != nil {
				t.Fatal(err)
			}
			c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
			result := make(chan error, 1)
			go func() {
				_, err := c.Call(bg, typ, nil)
				result <- err
			}()
			eventually(t, g.started, "the handler")
			ctx, cancel := context.WithCancel(bg)
			cancel()
			down := make(chan error, 1)
			go func() { down <- g.Shutdown(ctx) }()
			err := eventually(t, down, "Shutdown, while the handler runs")
			if !errors.Is(err, erpc.ErrCancelled) || !errors.Is(err, context.Canceled) {
				t.Errorf("Shutdown: %v", err)
			}
			err = eventually(t, result, "the call, while the handler runs")
			if typ != typeSlowEnd && !errors.Is(err, erpc.ErrPeerClosed) {
				t.Errorf("the call: %v", err)
			}
			closed := make(chan error, 2)
			for range cap(closed) {
				go func() { closed <- g.Close() }()
			}
			select {
			case err := <-closed:
				t.Errorf("Close gave %v while the handler ran", err)
			default:
			}
			release()
			for range cap(closed) {
				if err := eventually(t, closed, "Close"); err != nil {
					t.Error(err)
				}
			}
			select { // Close has waited
			case err := <-ended:
				if typ != typeLater && !errors.Is(err, context.Canceled) {
					t.Errorf("the handler's context: %v", err)
				}
			default:
				t.Error("Close returned while the handler ran")
			}
			g.served.Wait()
		})
	}
}

// TestShutdownTwice shuts down from several goroutines; each call must return.
func TestShutdownTwice(t *testing.T) {
	g, c := pair(t, erpc.Config{})
	if err := echo(c, typeEcho, 1, 10); err != nil {
		t.Fatal(err)
	}
	const n = 4
	down := make(chan error, n)
	for range n {
		go func() { down <- g.Shutdown(bg) }()
	}
	for range n {
		if err := eventually(t, down, "Shutdown"); err != nil {
			t.Error(err)
		}
	}
	if err := g.Shutdown(bg); err != nil {
		t.Errorf("Shutdown of a closed server: %v", err)
	}
}

func TestCloseEndsHandlersContexts(t *testing.T) {
	g, c := pair(t, erpc.Config{})
	result := make(chan error, 1)
	go func() {
		_, err := c.Call(bg, typeHold, nil)
		result <- err
	}()
	eventually(t, g.started, "the handler")
	closed := make(chan error, 1)
	go func() { closed <- g.Close() }()
	if err := eventually(t, closed, "Close"); err != nil {
		t.Error(err)
	}
	if err := eventually(t, result, "the call"); err == nil {
		t.Error("the call has an answer, but its handler was stopped")
	}
}

// TestServerRestart has a new server on the old port: pending calls get a typed
// error, and the client comes to the new server by itself.
func TestServerRestart(t *testing.T) {
	checkLeaks(t)
	cfg := erpc.Config{Timing: erpc.Timing{Heartbeat: 50 * time.Millisecond,
		FailureTimeout: 10 * time.Second}}
	g := newRig(t, cfg)
	tr := &mute{Conn: listen(t, "127.0.0.1:0")}
	addr := tr.LocalAddr().String()
	g.served.Go(func() { _ = g.Serve(tr) })
	c := dial(t, addr, cfg)
	if err := echo(c, typeEcho, 1, 10); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := c.Call(bg, typeHold, nil)
		result <- err
	}()
	eventually(t, g.started, "the handler")
	tr.crash()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	g2 := newRig(t, cfg)
	g2.serve(t, addr)
	if err := eventually(t, result, "the pending call"); !errors.Is(err, erpc.ErrPeerRestarted) {
		t.Errorf("pending across a restart: %v", err)
	}
	for i := range 10 {
		if err := echo(c, typeEcho, i, 5000); err != nil {
			t.Errorf("after the restart: %v", err)
		}
	}
}

// TestPeerLost has a server that falls silent for good.
func TestPeerLost(t *testing.T) {
	checkLeaks(t)
	cfg := erpc.Config{Timing: erpc.Timing{Heartbeat: 10 * time.Millisecond,
		FailureTimeout: 50 * time.Millisecond, ConnectTimeout: 100 * time.Millisecond}}
	g := newRig(t, erpc.Config{})
	tr := &mute{Conn: listen(t, "127.0.0.1:0")}
	g.served.Go(func() { _ = g.Serve(tr) })
	c := dial(t, tr.LocalAddr().String(), cfg)
	result := make(chan error, 1)
	go func() {
		_, err := c.Call(bg, typeHold, nil)
		result <- err
	}()
	eventually(t, g.started, "the handler")
	tr.crash()
	if err := eventually(t, result, "the pending call"); !errors.Is(err, erpc.ErrPeerLost) {
		t.Errorf("pending when the peer fell silent: %v", err)
	}
	if _, err := c.Call(bg, typeEcho, nil); !errors.Is(err, erpc.ErrConnect) {
		t.Errorf("a call to a silent peer: %v", err)
	}
	if _, err := c.Call(bg, typeEcho, nil); !errors.Is(err, erpc.ErrConnect) {
		t.Errorf("the next one: %v", err)
	}
}
