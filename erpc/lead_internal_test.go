package erpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/gid"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

const (
	leadEcho = 1
	leadHold = 2
)

// leadRig is a Client whose loop can be made vacant.
type leadRig struct {
	*Client
	conn *leadConn
	held chan struct{} // one value for each leadHold that began
}

// leadConn is the transport of such a Client.
type leadConn struct {
	*udp.Conn
	woken chan struct{} // Wake was called
	deaf  bool          // RxBurst finds nothing; the loop's

	looked atomic.Pointer[chan struct{}] // closed by the next RxBurst
}

// look returns a channel that is closed once somebody looks for packets.
func (c *leadConn) look() chan struct{} {
	looked := make(chan struct{})
	c.looked.Store(&looked)
	return looked
}

func (c *leadConn) Wake() {
	c.Conn.Wake()
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

func (c *leadConn) RxBurst(pkts []transport.RxPacket) (int, error) {
	if looked := c.looked.Swap(nil); looked != nil {
		close(*looked)
	}
	if c.deaf {
		return 0, nil
	}
	return c.Conn.RxBurst(pkts)
}

func newLeadRig(t *testing.T) leadRig {
	t.Helper()
	s, err := NewServer(Config{})
	if err != nil {
		t.Fatal(err)
	}
	g := leadRig{held: make(chan struct{}, 1000)}
	echo := func(_ context.Context, req []byte) ([]byte, error) { return req, nil }
	hold := func(ctx context.Context, req []byte) ([]byte, error) {
		g.held <- struct{}{}
		<-ctx.Done()
		return req, nil
	}
	if err := errors.Join(s.Handle(leadEcho, echo), s.Handle(leadHold, hold)); err != nil {
		t.Fatal(err)
	}
	var conns [2]*udp.Conn
	for i := range conns {
		if conns[i], err = udp.Listen("127.0.0.1:0", udp.Config{}); err != nil {
			t.Fatal(err)
		}
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(conns[0]) }()
	g.conn = &leadConn{Conn: conns[1], woken: make(chan struct{}, 1)}
	g.Client, err = Dial(t.Context(), g.conn, conns[0].LocalAddr().String(),
		Config{OnSession: func(*Rpc, *Session, SessionEvent) {}}) // a Loop of its own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		<-served
	})
	return g
}

// alone has the loop take the callers for one that is alone. In its own time it sees that no call
// comes.
func (g leadRig) alone() {
	_ = g.loop.Post(func(*Rpc) {
		g.loop.lead.alone, g.loop.lead.beside = aloneAfter, 0
		g.loop.lead.ended = g.rpc.engine.Now().Add(time.Hour)
	})
}

// vacate returns when the loop is vacant.
func (g leadRig) vacate() {
	for g.alone(); g.rpc.state.Load() != vacant; {
		runtime.Gosched()
	}
}

// probe has fn run with the next call, by whoever runs the loop then.
func (g leadRig) probe(fn func()) { g.rpc.commands.Push(command{fn: func(*Rpc) { fn() }}) }

// leads makes calls to a vacant loop until the caller runs it itself. Once it does, fn runs in its
// goroutine, in the loop.
func (g leadRig) leads(t *testing.T, typ uint8, ctx context.Context, fn func()) (err error) {
	t.Helper()
	for range 1000 {
		g.vacate()
		me, ran := gid.Current(), uintptr(0)
		g.probe(func() {
			if ran = gid.Current(); ran == me && fn != nil {
				fn()
			}
		})
		var got []byte
		got, err = g.Call(ctx, typ, []byte("request"))
		if err == nil && !bytes.Equal(got, []byte("request")) {
			t.Fatalf("got %q", got)
		}
		if ran == me {
			return err
		}
	}
	t.Fatal("callers do not run the loop")
	return nil
}

// TestAlone: a caller is alone after some calls that follow each other soon, until one of eight is
// late, or a call begins beside another one: then it is not for apartFor.
func TestAlone(t *testing.T) {
	var d lead
	now := monotime.Time(0).Add(time.Second)
	call := func(gap time.Duration) {
		now = now.Add(gap)
		d.begin(now, true)
		if d.lone() {
			t.Fatal("lone while a call is under way")
		}
		now = now.Add(10 * time.Microsecond)
		d.end(now)
	}
	want := func(when string, lone bool) {
		t.Helper()
		if d.lone() != lone {
			t.Fatalf("%s: %v", when, !lone)
		}
	}
	call(soonAfter + 1)
	for range aloneAfter {
		want("at first", false)
		call(soonAfter)
	}
	want("soon", true)
	for range 100 * aloneAfter {
		for range lateCall {
			call(soonAfter)
		}
		call(soonAfter + 1)
		want("one of nine is late", true)
	}
	for range aloneAfter {
		for range lateCall - 2 {
			call(soonAfter)
		}
		call(soonAfter + 1)
	}
	want("one of seven is late", false)
	for range 2 * aloneAfter {
		call(0)
	}
	want("soon again", true)
	beside := now
	d.begin(beside, true)
	call(0)
	d.end(now)
	for now.Sub(beside) < apartFor {
		want("after a call beside another one", false)
		call(0)
	}
	want("long after", true)
	d.begin(now, false)
	d.end(now)
	call(0)
	want("after a Start", false)
}

// TestStatsOfVacant: what callers have done is in the counters, also if nobody runs the loop now.
func TestStatsOfVacant(t *testing.T) {
	g := newLeadRig(t)
	g.vacate()
	before := g.Stats().Completed
	for calls, seen := uint64(1), 0; seen < 10; calls++ {
		g.vacate()
		if _, err := g.Call(context.Background(), leadEcho, nil); err != nil {
			t.Fatal(err)
		}
		if g.rpc.state.Load() != vacant {
			continue
		}
		seen++
		if got := g.Stats().Completed - before; got != calls {
			t.Errorf("%d calls, %d are counted", calls, got)
		}
	}
}

// TestCallerLeads: a caller that finds the loop vacant runs it until its call has ended, and leaves
// it vacant. What else needs the loop gets it.
func TestCallerLeads(t *testing.T) {
	g := newLeadRig(t)
	for range 10 {
		if err := g.leads(t, leadEcho, t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, wake := range map[string]func(func()) error{
		"Post":  func(fn func()) error { return g.loop.Post(func(*Rpc) { fn() }) },
		"Start": func(fn func()) error { return g.Start(leadEcho, nil, func([]byte, error) { fn() }) },
		"Wake": func(fn func()) error {
			g.probe(fn)
			g.rpc.Wake()
			return nil
		},
	} {
		g.vacate()
		ran, release := make(chan struct{}), make(chan struct{})
		err := wake(func() {
			close(ran)
			<-release
		})
		if state := g.rpc.state.Load(); err != nil || name != "Start" && state != awake {
			t.Errorf("%s: %v, the loop's state is %d", name, err, state)
		}
		<-ran
		close(release)
	}
}

// TestLeaderLeaves: a caller gives the loop back when its call lasts, and others go on. Its context
// counts.
func TestLeaderLeaves(t *testing.T) {
	g := newLeadRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-g.held
		if _, err := g.Call(context.Background(), leadEcho, nil); err != nil {
			t.Error(err)
		}
		cancel()
	}()
	err := g.leads(t, leadHold, ctx, func() { g.lasts[leadHold].Store(false) })
	if !errors.Is(err, ErrCancelled) {
		t.Error(err)
	}
	if err := g.leads(t, leadEcho, t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestCloseLed: Close ends a vacant loop, and one that a caller runs.
func TestCloseLed(t *testing.T) {
	g := newLeadRig(t)
	g.vacate()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	g = newLeadRig(t)
	go func() {
		<-g.held
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := g.leads(t, leadHold, context.Background(), nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestLeaderExits: a callback that ends the goroutine of a caller ends the loop.
func TestLeaderExits(t *testing.T) {
	g := newLeadRig(t)
	go func() { _ = g.leads(t, leadEcho, context.Background(), runtime.Goexit) }()
	<-g.loop.done
}

// TestLeaderPanics: a callback that panics in a caller ends the process, though the caller
// recovers: the loop would go on with half a pass.
func TestLeaderPanics(t *testing.T) {
	const child = "ERPC_TEST_LEADER_PANICS"
	if os.Getenv(child) != "" {
		g := newLeadRig(t)
		defer os.Exit(0)
		defer func() { _ = recover() }()
		_ = g.leads(t, leadEcho, t.Context(), func() { panic("boom") })
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, "-test.run=^TestLeaderPanics$")
	c.Env = append(os.Environ(), child+"=1")
	said, err := c.CombinedOutput()
	if !bytes.Contains(said, []byte("boom, in a callback of an event loop")) || err == nil {
		t.Errorf("%v: %s", err, said)
	}
}

// TestLeadersTakeTurns: calls, posts, Starts and cancelled contexts of many goroutines, beside one
// that has callers run the loop: each call gets its own answer.
func TestLeadersTakeTurns(t *testing.T) {
	g := newLeadRig(t)
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			for n := range 500 {
				if n%8 == i {
					g.alone()
				}
				req := binary.LittleEndian.AppendUint64(nil, uint64(n<<8|i))
				got, err := g.Call(context.Background(), leadEcho, req)
				if err != nil || !bytes.Equal(got, req) {
					t.Errorf("caller %d, call %d: %x, %v", i, n, got, err)
					return
				}
				if n%16 == i {
					runtime.Gosched()
				}
			}
		})
	}
	callers.Go(func() {
		for range 100 {
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				<-g.held
				cancel()
			}()
			g.lasts[leadHold].Store(false)
			if _, err := g.Call(ctx, leadHold, nil); !errors.Is(err, ErrCancelled) {
				t.Error(err)
			}
			cancel()
		}
	})
	callers.Go(func() {
		for range 200 {
			done := make(chan error, 1)
			if err := g.Start(leadEcho, nil, func(_ []byte, err error) { done <- err }); err != nil {
				t.Error(err)
			} else if err = <-done; err != nil {
				t.Error(err)
			}
			_ = g.loop.Post(func(*Rpc) { done <- nil })
			<-done
		}
	})
	callers.Wait()
}
