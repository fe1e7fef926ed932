package erpc_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestLoopShares: many Clients of a Loop are one goroutine, and each has its own server.
func TestLoopShares(t *testing.T) {
	checkLeaks(t)
	const servers, each = 10, 3
	f := newFarm(t, servers)
	before := runtime.NumGoroutine()
	var clients []*erpc.Client
	for i := range servers * each {
		clients = append(clients, f.dial(f.servers[i%servers].name))
	}
	for runtime.NumGoroutine() > before { // those that dialed end
		runtime.Gosched()
	}
	for i, c := range clients {
		f.all("a call", f.calls(of(c), tEcho, uint64(i*100), 20), 20, nil)
		f.once(uint64(i*100), 20)
	}
	for i, s := range f.servers {
		if s.count != each*20 {
			t.Errorf("server %d ran %d calls, want %d", i, s.count, each*20)
		}
	}
}

// TestLoopSlowName: a Client whose name resolves slowly does not disturb the others.
func TestLoopSlowName(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 2)
	release := make(chan struct{})
	f.end.slow["s0"] = release
	slow := make(chan error, 1)
	ctx, cancel := context.WithCancel(bg)
	go func() {
		_, err := f.loop.Dial(ctx, "s0")
		slow <- err
	}()
	c := f.dial("s1")
	f.all("a call", f.calls(of(c), tEcho, 0, 50), 50, nil)
	f.once(0, 50)
	cancel()
	err := wait(f, slow, "the slow dial")
	is(t, "the slow dial", err, erpc.ErrCancelled, context.Canceled)
	if d := (*erpc.DialError)(nil); !errors.As(err, &d) || d.Server != "s0" {
		t.Errorf("the slow dial: %v", err)
	}
	close(release)
	f.all("a call", f.calls(of(f.dial("s0")), tEcho, 100, 5), 5, nil)
}

// TestLoopSlowRedial: a Client that looks its name up again holds up no other of its Loop.
func TestLoopSlowRedial(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 2)
	a, b := f.dial("s0"), f.dial("s1")
	f.servers[0].die()
	f.all("a call to a dead server", f.calls(of(a), tEcho, 0, 3), 3, erpc.ErrPeerLost)
	release := make(chan struct{})
	f.end.mu.Lock()
	f.end.slow["s0"] = release
	f.end.mu.Unlock()
	again := f.calls(of(a), tEcho, 10, 3)
	f.round()
	f.all("a call", f.calls(of(b), tEcho, 100, 50), 50, nil)
	f.all("a call to nobody", again, 3, erpc.ErrConnect)
	close(release)
	f.servers[0].start(f.cfg)
	f.rounds(time.Second)
	f.all("a call to the new server", f.calls(of(a), tEcho, 20, 3), 3, nil)
	f.once(20, 3)
}

// TestLoopDeadServer: calls to a dead server fail, those beside them do not wait.
func TestLoopDeadServer(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 2)
	a, b := f.dial("s0"), f.dial("s1")
	dead := f.calls(of(a), tHold, 0, 20)
	f.holds(8)
	f.servers[0].die()
	at := f.net.now
	beside := f.calls(of(b), tEcho, 100, 20)
	f.until("calls beside", func() bool { return len(f.servers[1].runs) == 20 })
	if took := f.net.now.Sub(at); took > 20*time.Millisecond {
		t.Errorf("calls to the other server took %v", took)
	}
	f.all("a call beside", beside, 20, nil)
	lost := 0
	for range 20 {
		err := wait(f, dead, "a call to the dead server")
		if errors.Is(err, erpc.ErrPeerLost) {
			lost++
		} else {
			is(t, "a call that waited", err, erpc.ErrConnect)
		}
	}
	if lost < 8 {
		t.Errorf("%d calls were under way", lost)
	}
}

// TestLoopClientClosed: a Client is closed under calls, in sessions that take calls, in one whose
// server shuts down, and in its queue. Another Client of the same server goes on.
func TestLoopClientClosed(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 1)
	s := f.servers[0]
	a, b := f.dial("s0"), f.dial("s0")
	under := f.calls(of(a), tHold, 0, 40)
	beside := f.calls(of(b), tHold, 100, 4)
	f.holds(20)
	is(t, "refuse", s.rpc.Refuse(), nil)
	f.rounds(5 * time.Millisecond)
	closed := make(chan error, 1)
	go func() { closed <- a.Close() }()
	is(t, "close", wait(f, closed, "Close"), nil)
	refused := 0
	for range 40 {
		if err := wait(f, under, "a call under way"); !errors.Is(err, erpc.ErrClosed) {
			is(t, "a call that was not sent", err, erpc.ErrRefused)
			refused++
		}
	}
	if refused > 32 {
		t.Errorf("%d calls were not sent", refused)
	}
	is(t, "close again", a.Close(), nil)
	_, err := a.Call(bg, tEcho, id(1))
	is(t, "a call after Close", err, erpc.ErrClosed, erpc.ErrNotRun)
	is(t, "Ready after Close", a.Ready(bg), erpc.ErrClosed)
	f.rounds(time.Second)
	s.answer()
	f.all("a call beside", beside, 4, nil)
	f.once(100, 4)
}

// TestLoopClientsComeAndGo: nothing of a closed Client stays in its Loop.
func TestLoopClientsComeAndGo(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 3)
	keep := f.dial("s0")
	for round := range 30 {
		c := f.dial(f.servers[round%3].name)
		errs := f.calls(of(c), tEcho, uint64(round*100), 30)
		if round%2 == 0 {
			f.all("a call", errs, 30, nil)
		}
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		is(t, "close", wait(f, closed, "Close"), nil)
		if round%2 == 0 {
			continue
		}
		for range 30 {
			if err := wait(f, errs, "a call"); err != nil {
				is(t, "a call under Close", err, erpc.ErrClosed)
			}
		}
	}
	f.rounds(time.Second)
	if n := f.loop.Clients(); n != 1 {
		t.Errorf("%d Clients are left", n)
	}
	if n := f.loop.Sessions(); n != 1 {
		t.Errorf("%d sessions are left", n)
	}
	f.all("a call of the one that stayed", f.calls(of(keep), tEcho, 1e6, 3), 3, nil)
}

// TestLoopClosed: all Clients of a Loop end with it.
func TestLoopClosed(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 3)
	var errs []chan error
	var clients []*erpc.Client
	for _, s := range f.servers {
		clients = append(clients, f.dial(s.name))
		errs = append(errs, f.calls(of(clients[len(clients)-1]), tHold, 0, 10))
	}
	f.holds(10)
	f.free()
	is(t, "close the loop", f.loop.Close(), nil)
	for i, c := range clients {
		for range 10 {
			is(t, "a call", eventually(t, errs[i], "a call"), erpc.ErrClosed)
		}
		is(t, "close", c.Close(), nil)
		_, err := c.Call(bg, tEcho, id(1))
		is(t, "a call after it", err, erpc.ErrClosed)
	}
	_, err := f.loop.Dial(bg, "s0")
	is(t, "dial", err, erpc.ErrClosed)
	is(t, "close again", f.loop.Close(), nil)
}

// TestLoopOverUDP: Clients are dialed, called and closed at a time, from many goroutines.
func TestLoopOverUDP(t *testing.T) {
	checkLeaks(t)
	addrs := make([]string, 4)
	for i := range addrs {
		addrs[i] = newRig(t, erpc.Config{}).serve(t, "127.0.0.1:0")
	}
	l, err := erpc.NewLoop(listen(t, "127.0.0.1:0"), erpc.Config{})
	is(t, "loop", err, nil)
	ended := make(chan error, 12)
	for w := range cap(ended) {
		go func() {
			for round := range 5 {
				c, err := l.Dial(bg, addrs[(w+round)%len(addrs)])
				if err != nil {
					ended <- err
					return
				}
				calls := make(chan error, 10)
				for i := range cap(calls) {
					go func() { calls <- echo(c, typeEcho, w*100+i, i*300) }()
				}
				for range 5 {
					if err := <-calls; err != nil {
						ended <- fmt.Errorf("a call: %w", err)
						return
					}
				}
				if err := c.Close(); err != nil {
					ended <- err
					return
				}
				for range 5 {
					if err := <-calls; err != nil && !errors.Is(err, erpc.ErrClosed) {
						ended <- fmt.Errorf("a call under Close: %w", err)
						return
					}
				}
			}
			ended <- nil
		}()
	}
	for range cap(ended) {
		is(t, "a worker", eventually(t, ended, "a worker"), nil)
	}
	is(t, "close", l.Close(), nil)
}

// TestNewLoopFails: the transport is closed.
func TestNewLoopFails(t *testing.T) {
	checkLeaks(t)
	tr := listen(t, "127.0.0.1:0")
	_, err := erpc.NewLoop(tr, erpc.Config{Slots: -1})
	is(t, "a bad config", err, erpc.ErrConfig)
	if tr.Wait(0) == nil {
		t.Error("the transport is open")
	}
}
