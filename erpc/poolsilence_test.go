package erpc_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// TestPoolSilenceTimeout: silence that ejects is a time of its own, whatever retransmission takes.
func TestPoolSilenceTimeout(t *testing.T) {
	for _, c := range []struct {
		timing      erpc.Timing
		least, most time.Duration
	}{
		{erpc.Timing{}, 20, 25},
		{erpc.Timing{RTOMin: 10 * time.Millisecond, RTOInitial: 40 * time.Millisecond}, 20, 26},
		{erpc.Timing{SilenceTimeout: 60 * time.Millisecond}, 60, 67},
		{erpc.Timing{SilenceTimeout: 5 * time.Millisecond}, 5, 10},
	} {
		checkLeaks(t)
		f := newFarm(t, 2, func(cfg erpc.Config) erpc.Config {
			cfg.Timing = c.timing
			return cfg
		})
		p := f.poolOf(erpc.RoundRobin)
		f.all("a call", f.calls(through(p, plain), tEcho, 0, 20), 20, nil)
		f.servers[0].mute = true
		from := f.net.now
		errs := f.calls(through(p, plain), tEcho, 100, 2)
		f.state(p, "s0", erpc.ServerEjected)
		if d := f.net.now.Sub(from); d < c.least*time.Millisecond || d > c.most*time.Millisecond {
			t.Errorf("with %+v it is ejected after %v", c.timing, d)
		}
		f.servers[0].mute = false
		f.all("a call", errs, 2, nil)
	}
}

// TestPoolAllSilent: of servers that all stand still at most half are ejected, a single one never,
// and they return as soon as they go on.
func TestPoolAllSilent(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		f, p := newPool(t, n)
		f.all("a call", f.calls(through(p, plain), tEcho, 0, 40), 40, nil)
		for _, s := range f.servers {
			s.mute = true
		}
		ejected := func() (sum int) {
			for _, s := range p.Servers() {
				if s.State != erpc.ServerReady {
					sum++
				}
			}
			return sum
		}
		errs := f.calls(through(p, plain), tEcho, 100, 40)
		most := 0
		for end := f.net.now.Add(50 * time.Millisecond); f.net.now < end; f.round() {
			most = max(most, ejected())
		}
		if most != n/2 {
			t.Errorf("of %d servers %d were ejected", n, most)
		}
		for _, s := range f.servers {
			s.mute = false
		}
		from := f.net.now
		f.until("all are back", func() bool { return ejected() == 0 })
		if d := f.net.now.Sub(from); d > 6*time.Millisecond {
			t.Errorf("of %d servers the last one is back after %v", n, d)
		}
		f.all("a call", errs, 40, nil)
		f.once(100, 40)
	}
}

// TestPoolOwnPause: time in which the loop itself did not run is no silence of a server, however
// often that is.
func TestPoolOwnPause(t *testing.T) {
	f, p := newPool(t, 2)
	f.all("a call", f.calls(through(p, plain), tEcho, 0, 20), 20, nil)
	for _, s := range f.servers {
		s.mute = true
	}
	errs := f.calls(through(p, plain), tEcho, 100, 2)
	for range 3 {
		f.rounds(4 * time.Millisecond)
		f.net.now = f.net.now.Add(time.Second) // all processes of this machine stand still
		f.round()
		for _, s := range p.Servers() {
			if s.State != erpc.ServerReady {
				t.Fatalf("%s is %v", s.Addr, s.State)
			}
		}
	}
	for _, s := range f.servers {
		s.mute = false
	}
	f.all("a call", errs, 2, nil)
}

// TestPoolLongPath: servers that are far away are not silent, though each answer takes longer than
// the silence that ejects; one that stands still is, in a few round trips.
func TestPoolLongPath(t *testing.T) {
	f, p := newPool(t, 2)
	f.end.delay = 100 * time.Millisecond
	f.all("a call", f.calls(through(p, plain), tEcho, 0, 2), 2, nil)
	check := func() {
		t.Helper()
		for _, s := range p.Servers() {
			if s.State != erpc.ServerReady {
				t.Fatalf("%s is %v", s.Addr, s.State)
			}
		}
	}
	for i := range uint64(20) {
		errs := f.calls(through(p, plain), tEcho, 100+2*i, 2)
		for end := f.net.now.Add(150 * time.Millisecond); f.net.now < end; f.round() {
			if i > 0 { // the path has just become so long
				check()
			}
		}
		f.all("a call", errs, 2, nil)
	}
	f.servers[0].mute = true
	from := f.net.now
	errs := f.calls(through(p, plain), tEcho, 1000, 2)
	f.state(p, "s0", erpc.ServerEjected)
	if d := f.net.now.Sub(from); d > 500*time.Millisecond {
		t.Errorf("it is ejected after %v", d)
	}
	f.servers[0].mute = false
	f.all("a call", errs, 2, nil)
}

// TestPoolLossNoSilence: neither slow handlers nor the loss of a few packets on sessions that are
// idle else is taken for silence.
func TestPoolLossNoSilence(t *testing.T) {
	f, p := newPool(t, 2)
	rng := rand.New(rand.NewPCG(1, 2))
	lose := func([]byte) bool { return rng.IntN(100) < 3 }
	f.end.lose = lose
	for _, s := range f.servers {
		s.end.lose = lose
	}
	for i := range uint64(400) {
		errs := f.calls(through(p, plain), tHold, 10*i, 2)
		for end := f.net.now.Add(40 * time.Millisecond); f.net.now < end; f.round() {
			for _, s := range p.Servers() {
				if s.State != erpc.ServerReady {
					t.Fatalf("call %d: %s is %v", i, s.Addr, s.State)
				}
			}
		}
		f.holds(2)
		f.answer()
		f.all("a call", errs, 2, nil)
	}
}

// TestPoolAsksSilent: a server that owes an answer is asked for a sign of life several times before
// it counts as silent, by one session.
func TestPoolAsksSilent(t *testing.T) {
	f, p := newPool(t, 2)
	f.all("a call", f.calls(through(p, plain), tEcho, 0, 100), 100, nil) // in many sessions
	pings := 0
	f.servers[0].end.tap = func(pkt []byte, _ transport.Addr) {
		var h wire.Header
		if h.Parse(pkt) == nil && h.Type == wire.TypeMgmt && wire.Op(h.ReqType) == wire.OpPing {
			pings++
		}
	}
	f.servers[0].mute = true
	errs := f.calls(through(p, plain), tHold, 1000, 60)
	f.state(p, "s0", erpc.ServerEjected)
	if pings < 4 || pings > 12 {
		t.Errorf("it was asked %d times", pings)
	}
	f.servers[0].mute = false
	f.holds(60)
	f.answer()
	f.all("a call", errs, 60, nil)
}
