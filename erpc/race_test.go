package erpc_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// nowhere is an address from which nothing comes.
func nowhere(i int) (a transport.Addr) {
	a.IP[15], a.Port = 1, uint32(900+i)
	return a
}

// named gives a name several addresses. Resolve knows the last one.
func (f *farm) named(name string, all ...transport.Addr) {
	f.end.mu.Lock()
	defer f.end.mu.Unlock()
	f.end.many[name], f.end.names[name] = all, all[len(all)-1]
}

// racing is a farm that notes when sessions opened and ended. Goroutines take time of their own, so
// only what happens in the loop tells how long something takes.
type racing struct {
	*farm
	at map[erpc.SessionEvent]erpc.Time // when the last one came
}

func newRacing(t *testing.T, servers int) *racing {
	checkLeaks(t)
	r := &racing{at: map[erpc.SessionEvent]erpc.Time{}}
	r.farm = newFarm(t, servers, func(cfg erpc.Config) erpc.Config {
		cfg.OnSession = func(_ *erpc.Rpc, _ *erpc.Session, ev erpc.SessionEvent) {
			r.at[ev] = r.net.now
		}
		return cfg
	})
	return r
}

// begin has the first packet from now on be the beginning.
func (r *racing) begin() { r.end.began = 0 }

// took returns how long it took from the beginning to the last event of a kind.
func (r *racing) took(ev erpc.SessionEvent) time.Duration { return r.at[ev].Sub(r.end.began) }

// dialAny dials, whatever comes of it.
func (r *racing) dialAny(name string) (*erpc.Client, error) {
	r.tb.Helper()
	r.begin()
	type result struct {
		c   *erpc.Client
		err error
	}
	ch := make(chan result, 1)
	go func() {
		c, err := r.loop.Dial(bg, name)
		ch <- result{c, err}
	}()
	d := wait(r.farm, ch, "dial "+name)
	return d.c, d.err
}

// TestDialAddresses: Dial tries all addresses of a name. One that is silent costs 250 ms, one where
// nobody listens a few milliseconds.
func TestDialAddresses(t *testing.T) {
	for _, c := range []struct {
		name                  string
		dead                  int // addresses before that of the server
		closed                bool
		atLeast, at, attempts time.Duration
	}{
		{name: "the first one answers", at: 5 * time.Millisecond},
		{name: "the first one is silent", dead: 1, atLeast: 250 * time.Millisecond,
			at: 300 * time.Millisecond},
		{name: "nobody listens at the first one", dead: 1, closed: true, at: 20 * time.Millisecond},
		{name: "nobody listens at seven", dead: 7, closed: true, at: 100 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newRacing(t, 1)
			var all []transport.Addr
			for i := range c.dead {
				all = append(all, nowhere(i))
				f.end.closed[nowhere(i)] = c.closed
			}
			f.named("name", append(all, f.servers[0].end.addr)...)
			client, err := f.dialAny("name")
			is(t, "dial", err, nil)
			if took := f.took(erpc.SessionConnected); took < c.atLeast || took > c.at {
				t.Errorf("after %v", took)
			}
			f.all("a call", f.calls(of(client), tEcho, 1, 1), 1, nil)
			f.rounds(time.Second)
			if n := f.loop.Stats().Sessions; n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// TestRaceWon: both addresses answer, the first one late. The first session that opens gets the
// calls, and the other one is closed.
func TestRaceWon(t *testing.T) {
	f := newRacing(t, 2)
	slow, quick := f.servers[0], f.servers[1]
	f.named("name", slow.end.addr, quick.end.addr)
	slow.mute = true
	c, err := f.dialAny("name")
	is(t, "dial", err, nil)
	slow.mute = false
	f.all("calls", f.calls(of(c), tEcho, 1, 20), 20, nil)
	f.rounds(2 * time.Second)
	if slow.count != 0 || quick.count != 20 {
		t.Errorf("%d and %d calls", slow.count, quick.count)
	}
	if n := slow.rpc.Sessions(); n != 0 {
		t.Errorf("%d sessions are left at the first server", n)
	}
}

// muteAfterChallenge has a server stop when it has given a cookie: it opens the session when it
// goes on.
func (r *racing) muteAfterChallenge(s *farmServer) {
	r.end.tap = func(pkt []byte, from transport.Addr) {
		var h wire.Header
		if h.Parse(pkt) == nil && wire.Op(h.ReqType) == wire.OpChallenge && from == s.end.addr {
			s.mute, r.end.tap = true, nil
		}
	}
}

// ranAlone checks that a server, which goes on, opens a session and has none soon after.
func (r *racing) ranAlone(s *farmServer) {
	r.tb.Helper()
	s.mute = false
	r.rounds(20 * time.Millisecond)
	if opened, n := s.rpc.Counters().SessionsOpened, s.rpc.Sessions(); opened == 0 || n != 0 {
		r.tb.Errorf("the server opened %d sessions, and has %d", opened, n)
	}
}

// TestRaceLoser: the server that loses a race opens its session when that is over. It learns at
// once that nobody wants it.
func TestRaceLoser(t *testing.T) {
	f := newRacing(t, 2)
	slow, quick := f.servers[0], f.servers[1]
	f.named("name", slow.end.addr, quick.end.addr)
	f.muteAfterChallenge(slow)
	c, err := f.dialAny("name")
	is(t, "dial", err, nil)
	f.ranAlone(slow)
	f.all("calls", f.calls(of(c), tEcho, 1, 20), 20, nil)
}

// TestDialGivenUp: the context of a Dial ends while its server opens the session, which ends at
// once.
func TestDialGivenUp(t *testing.T) {
	f := newRacing(t, 1)
	s := f.servers[0]
	f.muteAfterChallenge(s)
	ctx, cancel := context.WithCancel(bg)
	dialed := make(chan error, 1)
	go func() {
		_, err := f.loop.Dial(ctx, s.name)
		dialed <- err
	}()
	f.until("it has a cookie", func() bool { return s.mute })
	f.rounds(5 * time.Millisecond)
	cancel()
	is(t, "dial", wait(f.farm, dialed, "its end"), erpc.ErrCancelled)
	f.ranAlone(s)
}

// TestRedialWhatWorked: a Client whose server has ended its session tries its address first.
func TestRedialWhatWorked(t *testing.T) {
	f := newRacing(t, 1)
	s := f.servers[0]
	f.named("name", nowhere(1), s.end.addr)
	c, err := f.dialAny("name")
	is(t, "dial", err, nil)
	s.die()
	s.start(f.cfg)
	before := f.end.tried[nowhere(1)]
	// A call finds the session gone; the next one opens another.
	_ = wait(f.farm, f.calls(of(c), tEcho, 1, 1), "a call of before")
	f.all("a call", f.calls(of(c), tEcho, 2, 1), 1, nil)
	if n := f.end.tried[nowhere(1)] - before; n != 0 {
		t.Errorf("%d packets left for the address that did not answer", n)
	}
}

// TestDialClosedPort: where nobody listens Dial fails at once, also a second time, and names all
// addresses and their causes.
func TestDialClosedPort(t *testing.T) {
	f := newRacing(t, 1)
	f.named("one", nowhere(1))
	f.named("two", nowhere(1), nowhere(2))
	f.end.closed[nowhere(1)] = true
	for range 2 {
		_, err := f.dialAny("one")
		is(t, "dial", err, erpc.ErrConnect, erpc.ErrNotRun)
		if took := f.took(erpc.SessionRefused); took > 20*time.Millisecond {
			t.Errorf("after %v", took)
		}
	}
	_, err := f.dialAny("two")
	is(t, "dial", err, erpc.ErrConnect)
	var de *erpc.DialError
	if !errors.As(err, &de) || len(de.Remotes) != 2 || de.Remote != nowhere(1) {
		t.Fatalf("%v: %+v", err, de)
	}
	for _, want := range []string{
		nowhere(1).String() + ", " + nowhere(2).String(),
		nowhere(1).String() + ": nobody listens at the server's port",
		nowhere(2).String() + ": connect timeout",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if took := f.took(erpc.SessionRefused); took > 3010*time.Millisecond {
		t.Errorf("after %v", took)
	}
}

// TestRestartBehindClosedPort: the server of a Client starts again, and nobody listens meanwhile.
// Calls wait for it for 150 ms. Then they end, as do those that come after, until it is there.
func TestRestartBehindClosedPort(t *testing.T) {
	for name, c := range map[string]struct{ pause, at time.Duration }{
		"at once":       {time.Millisecond, 20 * time.Millisecond},
		"soon":          {120 * time.Millisecond, 20 * time.Millisecond},
		"half a second": {500 * time.Millisecond, 20 * time.Millisecond},
		"long":          {2 * time.Second, 200 * time.Millisecond}, // it asks less and less often
	} {
		t.Run(name, func(t *testing.T) {
			f := newRacing(t, 1)
			s := f.servers[0]
			client := f.dial(s.name)
			s.die()
			f.end.closed[s.end.addr] = true
			_ = wait(f.farm, f.calls(of(client), tEcho, 1, 1), "a call that finds the server gone")
			errs := f.calls(of(client), tEcho, 2, 1)
			f.rounds(min(c.pause, 140*time.Millisecond))
			if len(errs) > 0 {
				t.Fatalf("a call that waits ended with %v", <-errs)
			}
			want := error(nil)
			if c.pause > 150*time.Millisecond {
				want = erpc.ErrConnect
				f.rounds(20 * time.Millisecond)
				checkShut(t, f, errs, f.calls(of(client), tEcho, 3, 1))
				f.rounds(c.pause - 160*time.Millisecond)
			}
			f.end.closed[s.end.addr] = false
			s.start(f.cfg)
			before := f.net.now
			if want == nil {
				f.all("a call that waits", errs, 1, nil)
			}
			f.until("a session", func() bool { return f.at[erpc.SessionConnected] > before })
			if took := f.at[erpc.SessionConnected].Sub(before); took > c.at {
				t.Errorf("after %v", took)
			}
			f.all("a call afterwards", f.calls(of(client), tEcho, 4, 1), 1, nil)
		})
	}
}

// checkShut checks that calls have ended since nobody listens, that they never ran, and that those
// which come later end at once.
func checkShut(t *testing.T, f *racing, waited, later chan error) {
	t.Helper()
	before := f.net.now
	for _, errs := range []chan error{waited, later} {
		err := wait(f.farm, errs, "a call where nobody listens")
		is(t, "a call", err, erpc.ErrConnect)
		is(t, "a call", err, erpc.ErrNotRun)
	}
	// Rounds go on until the callers run.
	if took := f.net.now.Sub(before); took > time.Second {
		t.Errorf("after %v more", took)
	}
}

// TestPoolAddresses: a server of a Pool whose name has two addresses, of which one is dead. The
// Pool says at once that nobody listens where that is so, and finds the server when it starts.
func TestPoolAddresses(t *testing.T) {
	f := newRacing(t, 1)
	s := f.servers[0]
	f.named("name", nowhere(1), s.end.addr)
	p := f.pool(erpc.PoolConfig{Servers: []string{"name"}})
	f.begin()
	f.state(p, "name", erpc.ServerReady)
	if took := f.took(erpc.SessionConnected); took > 300*time.Millisecond {
		t.Errorf("ready after %v", took)
	}
	f.named("closed", nowhere(2))
	f.end.closed[nowhere(2)] = true
	q := f.pool(erpc.PoolConfig{Servers: []string{"closed"}})
	f.until("a Connect", func() bool { return f.end.tried[nowhere(2)] > 0 })
	before := f.net.now
	f.state(q, "closed", erpc.ServerFailing)
	if took := f.at[erpc.SessionRefused].Sub(before); took > 20*time.Millisecond {
		t.Errorf("failing after %v", took)
	}
	f.rounds(2 * time.Second)
	f.named("closed", s.end.addr)
	f.state(q, "closed", erpc.ServerReady)
}
