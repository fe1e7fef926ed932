package erpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/wire"
)

// holders makes n calls of typeHold, and returns the channel of their errors.
func holders(c *erpc.Client, n int) chan error {
	errs := make(chan error, n)
	for range n {
		go func() {
			_, err := c.Call(bg, typeHold, []byte("x"))
			errs <- err
		}()
	}
	return errs
}

// all takes the errors of n calls; each must match want.
func all(t *testing.T, errs chan error, n int, want error) {
	t.Helper()
	for range n {
		is(t, "a call", eventually(t, errs, "a call"), want)
	}
}

// TestCallersInFlight: as many calls are under way as there are callers, at zero settings.
func TestCallersInFlight(t *testing.T) {
	const callers = 300
	g, c := pair(t, erpc.Config{})
	errs := holders(c, callers)
	for range callers {
		eventually(t, g.started, "a handler")
	}
	close(g.release)
	all(t, errs, callers, nil)
	if st := c.Stats(); st.SessionsRefused != 0 {
		t.Errorf("%d sessions were refused", st.SessionsRefused)
	}
}

// TestRefusedFurther: a server that refuses further sessions serves all calls in those that there
// are.
func TestRefusedFurther(t *testing.T) {
	checkLeaks(t)
	cfg := erpc.Config{MaxSessions: 2, Shares: erpc.Shares{Off: true}}
	g := newRig(t, cfg)
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	const callers = 60
	errs := holders(c, callers)
	for range 16 {
		eventually(t, g.started, "a handler")
	}
	for range 300 { // each would like a further session
		ctx, cancel := context.WithTimeout(bg, time.Millisecond)
		_, err := c.Call(ctx, typeEcho, nil)
		is(t, "a call that waits", err, erpc.ErrDeadline)
		cancel()
	}
	close(g.release)
	all(t, errs, callers, nil)
	is(t, "close", g.Close(), nil)
	if st := g.Stats()[0]; st.SessionsOpened != 2 || st.SessionsRefused > 50 {
		t.Errorf("%d sessions, %d refused", st.SessionsOpened, st.SessionsRefused)
	}
}

// TestLargeCalls: large requests open no further sessions until they have arrived.
func TestLargeCalls(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 1)
	c, s := f.dial("s0"), f.servers[0]
	const callers = 12
	before := f.loop.Posted()
	errs := make(chan error, callers)
	for i := range uint64(callers) {
		go func() {
			req := append(id(i), make([]byte, 1<<20)...)
			got, err := c.Call(bg, tEcho, req)
			if err == nil && !bytes.Equal(got, req) {
				err = errors.New("a foreign answer")
			}
			errs <- err
		}()
	}
	for f.loop.Posted() < before+callers {
		runtime.Gosched()
	}
	s.end.lose = func(pkt []byte) bool { return wire.Type(pkt[0]&15) == wire.TypeReq }
	f.rounds(200 * time.Millisecond)
	if n := s.rpc.Stats().SessionsOpened; n != 1 {
		t.Errorf("%d sessions while nothing has arrived", n)
	}
	s.end.lose = nil
	f.all("a large call", errs, callers, nil)
}

// TestServerAtItsLimit: calls that a server refuses for its limits are tried again, until they end.
func TestServerAtItsLimit(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{MaxBackground: 5, Shares: erpc.Shares{Off: true}})
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	const callers, each = 40, 20
	var ran atomic.Int64
	done := holders(c, 5)
	for range 5 {
		eventually(t, g.started, "a handler")
	}
	ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
	defer cancel()
	_, err := c.Call(ctx, typeEcho, []byte("x"))
	is(t, "a call at the limit", err, erpc.ErrDeadline)
	var work sync.WaitGroup
	for w := range callers {
		work.Go(func() {
			for i := range each {
				if err := echo(c, typeEcho, w*each+i, 100); err != nil {
					t.Errorf("worker %d, call %d: %v", w, i, err)
				}
				ran.Add(1)
			}
		})
	}
	for refused := uint64(0); refused < 8; {
		refused = g.Stats()[0].WorkRefused
	}
	if n := ran.Load(); n != 0 {
		t.Errorf("%d calls have ended while handlers block", n)
	}
	close(g.release)
	all(t, done, 5, nil)
	work.Wait()
}

// TestMaxQueueOfClient: it bounds all calls of a Client.
func TestMaxQueueOfClient(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{MaxSessions: 1, Shares: erpc.Shares{Off: true}})
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{MaxQueue: 20})
	errs := holders(c, 21)
	is(t, "one of 21", eventually(t, errs, "a call"), erpc.ErrExhausted)
	ctx, cancel := context.WithCancel(bg)
	cancel()
	_, err := c.Call(ctx, typeEcho, nil)
	is(t, "cancelled before", err, erpc.ErrCancelled)
	is(t, "another", echo(c, typeEcho, 1, 1), erpc.ErrExhausted)
	close(g.release)
	all(t, errs, 20, nil)
	is(t, "after them", echo(c, typeEcho, 1, 1), nil)
}

// TestCancelWhileWaiting: calls that wait for a slot can be given up, wherever they are in line.
func TestCancelWhileWaiting(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{MaxSessions: 1, Shares: erpc.Shares{Off: true}})
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	errs := holders(c, 8)
	for range 8 {
		eventually(t, g.started, "a handler")
	}
	var ends []context.CancelFunc
	results := make([]chan error, 9)
	for i := range results {
		results[i] = make(chan error, 1)
		ctx, cancel := context.WithCancel(bg)
		ends = append(ends, cancel)
		go func() {
			_, err := c.Call(ctx, typeEcho, []byte{byte(i)})
			results[i] <- err
		}()
	}
	for _, i := range []int{4, 0, 8} {
		ends[i]()
		is(t, "a call that was given up", eventually(t, results[i], "it"), erpc.ErrCancelled)
	}
	close(g.release)
	all(t, errs, 8, nil)
	for _, i := range []int{1, 2, 3, 5, 6, 7} {
		is(t, "a call that waited", eventually(t, results[i], "it"), nil)
		ends[i]()
	}
	is(t, "close", g.Close(), nil)
	if st := g.Stats()[0]; st.RequestsServed != 8+6 {
		t.Errorf("%d requests were served", st.RequestsServed)
	}
}

// TestServerStops: a server is stopped under load, and its name leads to another one. No call
// fails, and none runs twice.
func TestServerStops(t *testing.T) {
	checkLeaks(t)
	first, second := newRig(t, erpc.Config{}), newRig(t, erpc.Config{})
	d := &directory{Conn: listen(t, "127.0.0.1:0")}
	addr := first.serve(t, "127.0.0.1:0")
	d.at.Store(&addr)
	c, err := erpc.Dial(t.Context(), d, "server", erpc.Config{})
	is(t, "dial", err, nil)
	var over atomic.Bool
	var answered atomic.Uint64
	var work sync.WaitGroup
	begun := make(chan struct{}, 20)
	for w := range 20 {
		work.Go(func() {
			for i := 0; !over.Load(); i++ {
				if err := echo(c, typeEcho, w*1000+i, 100); err != nil {
					t.Errorf("worker %d, call %d: %v", w, i, err)
					return
				}
				answered.Add(1)
				if i == 0 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range 20 {
		eventually(t, begun, "a call")
	}
	moved := second.serve(t, "127.0.0.1:0")
	d.at.Store(&moved)
	ctx, cancel := context.WithTimeout(bg, hang)
	defer cancel()
	is(t, "shutdown", first.Shutdown(ctx), nil)
	for len(second.Stats()) == 0 && !t.Failed() {
		runtime.Gosched()
	}
	for second.Stats()[0].RequestsServed < 100 && !t.Failed() {
		is(t, "a call", echo(c, typeEcho, 1, 10), nil)
		answered.Add(1)
	}
	over.Store(true)
	work.Wait()
	is(t, "close the client", c.Close(), nil)
	is(t, "close the server", second.Close(), nil)
	served := first.Stats()[0].RequestsServed + second.Stats()[0].RequestsServed
	if n := answered.Load(); served != n {
		t.Errorf("%d calls were answered, and %d ran", n, served)
	}
}

// TestSessionsTrimmed: sessions that are not needed are closed, but for one, and come again.
func TestSessionsTrimmed(t *testing.T) {
	p := newDialedClient(t)
	for round := range 3 {
		results := make(chan error, 40)
		for range cap(results) {
			go func() {
				_, err := p.c.Call(bg, tEcho, []byte{1})
				results <- err
			}()
		}
		for p.c.Posted() < cap(results) { // the loop sleeps
			runtime.Gosched()
		}
		for len(results) < cap(results) {
			p.round()
		}
		all(t, results, cap(results), nil)
		p.rounds(20 * time.Millisecond) // those that were on their way are open
		if n := p.c.ClientSessions(); n < 2 {
			t.Errorf("round %d: %d sessions for %d calls", round, n, cap(results))
		}
		p.tick = 1e8
		p.rounds(30 * time.Second)
		if n := p.c.ClientSessions(); n != 1 || p.server.Sessions() != 1 {
			t.Errorf("round %d: %d sessions, and %d at the server", round, n, p.server.Sessions())
		}
		p.tick = 100_000
	}
}

// rounds makes rounds for a span of virtual time.
func (p *dialedClient) rounds(d time.Duration) {
	for end := p.net.now.Add(d); p.net.now < end; {
		p.round()
	}
}

// TestManyCallersOfOneClient: every response is that of its request.
func TestManyCallersOfOneClient(t *testing.T) {
	_, c := pair(t, erpc.Config{})
	for _, callers := range []int{1, 8, 64, 256, 1000} {
		t.Run(fmt.Sprint(callers), func(t *testing.T) {
			var work sync.WaitGroup
			for w := range callers {
				work.Go(func() {
					for i := range max(2, 2000/callers) {
						if err := echo(c, typeEcho, w*5+i, (w+i)%200); err != nil {
							t.Errorf("caller %d: %v", w, err)
							return
						}
					}
				})
			}
			work.Wait()
		})
	}
	if errors.Is(c.Close(), erpc.ErrBufferLeak) {
		t.Error("buffers are left")
	}
}
