package erpc_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// heardIDs notes when an id came to a server first.
func (f *farm) heardIDs(s *farmServer) map[uint64]erpc.Time {
	first := map[uint64]erpc.Time{}
	s.end.tap = func(pkt []byte, _ transport.Addr) {
		var h wire.Header
		if h.Parse(pkt) == nil && h.Type == wire.TypeReq && len(pkt) >= wire.HeaderSize+8 {
			n := binary.LittleEndian.Uint64(pkt[wire.HeaderSize:])
			if _, ok := first[n]; !ok {
				first[n] = f.net.now
			}
		}
	}
	return first
}

// checkBack makes 20 calls through a Pool of two servers; the first one, which has returned, gets
// half of them.
func (f *farm) checkBack(p *erpc.Pool) {
	f.tb.Helper()
	before := f.servers[0].count
	f.all("a call", f.calls(through(p, plain), tEcho, 5000, 20), 20, nil)
	if n := f.servers[0].count - before; n != 10 {
		f.tb.Errorf("the server that returned got %d of 20 calls", n)
	}
}

// TestPoolSilentServer: a server that stands still gets no new call after 20 ms, though its
// sessions live, and calls go to the other one. It returns when it goes on, and what it had taken
// in is answered then.
func TestPoolSilentServer(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 2)
	f.cfg.NoBundles = true
	f.servers[0].die()
	f.servers[0].start(f.cfg) // its packets are read by the test
	p := f.poolOf(erpc.RoundRobin)
	f.all("a call", f.calls(through(p, plain), tEcho, 0, 20), 20, nil)
	heard := f.heardIDs(f.servers[0])
	f.servers[0].mute = true
	from := f.net.now
	next := uint64(100)
	var errs []chan error
	ejected := from
	for f.net.now < from.Add(200*time.Millisecond) {
		if stateOf(p, "s0") == erpc.ServerReady {
			ejected = f.net.now
		}
		errs = append(errs, f.calls(through(p, plain), tEcho, next, 2))
		next += 2
		f.rounds(time.Millisecond)
	}
	// The least timeout is 5 ms, and is looked at each 1.25 ms.
	if d := ejected.Sub(from); d > 25*time.Millisecond || d < 19*time.Millisecond {
		t.Errorf("the silent server is ejected after %v", d)
	}
	last := from
	for _, at := range heard {
		last = max(last, at)
	}
	// How early its last call comes depends on which of two callers gets which server.
	if d := last.Sub(from); d > 25*time.Millisecond || d <= 0 {
		t.Errorf("the silent server got its last call after %v", d)
	}
	f.servers[0].mute = false
	f.state(p, "s0", erpc.ServerReady)
	for _, e := range errs {
		f.all("a call", e, 2, nil)
	}
	f.once(100, int(next-100))
	f.checkBack(p)
}

// TestPoolQueuedCalls: calls that wait for a slot of a server which falls silent go to another one.
func TestPoolQueuedCalls(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 2)
	one := f.cfg
	one.MaxSessions, one.Shares.Off = 1, true
	f.servers[0].die()
	f.servers[0].start(one)
	p := f.poolOf(erpc.RoundRobin)
	errs := f.calls(through(p, plain), tHold, 0, 40)
	f.holds(28)
	if n := f.counts(); n[0] != 8 || n[1] != 20 {
		t.Fatalf("the servers run %v calls", n)
	}
	f.servers[0].answer()
	f.servers[0].mute = true
	f.until("the other server has all that waited", func() bool { return f.servers[1].count == 32 })
	f.servers[0].mute = false
	f.holds(32)
	f.state(p, "s0", erpc.ServerReady)
	f.rounds(20 * time.Millisecond)
	f.answer()
	f.all("a call", errs, 40, nil)
	f.once(0, 40)
}

// TestPoolSilenceEnds: a silent server is asked for a sign of life, and returns in its old session.
func TestPoolSilenceEnds(t *testing.T) {
	f, p := newPool(t, 2)
	for range 3 {
		f.servers[0].mute = true
		errs := f.calls(through(p, plain), tHold, 0, 2)
		f.state(p, "s0", erpc.ServerEjected)
		f.rounds(time.Second)
		f.servers[0].mute = false
		from := f.net.now
		f.state(p, "s0", erpc.ServerReady)
		if d := f.net.now.Sub(from); d > 20*time.Millisecond {
			t.Errorf("it returned after %v", d)
		}
		f.holds(2)
		f.answer()
		f.all("a call", errs, 2, nil)
	}
	if n := f.loop.Sessions(); n != 2 {
		t.Errorf("%d sessions", n)
	}
}

// TestPoolSlowHandlers: handlers that take long are no silence.
func TestPoolSlowHandlers(t *testing.T) {
	f, p := newPool(t, 1)
	errs := f.hold(through(p, plain), 30)
	f.tick = time.Millisecond
	for range 100 {
		f.rounds(50 * time.Millisecond)
		if s := stateOf(p, "s0"); s != erpc.ServerReady {
			t.Fatalf("a server with slow handlers is %v", s)
		}
	}
	f.servers[0].answer()
	f.all("a call", errs, 30, nil)
	f.once(0, 30)
}

// TestPoolServerDies: calls under way to a server that dies fail, may have run and are not
// repeated; no others fail. It returns as a new process.
func TestPoolServerDies(t *testing.T) {
	f, p := newPool(t, 2)
	held := f.hold(through(p, repeat), 40)
	f.servers[0].die()
	for i := range uint64(50) {
		next := f.calls(through(p, repeat), tEcho, 1000+i, 1)
		if f.rounds(time.Millisecond); i > 25 { // it is ejected
			f.all("a call", next, 1, nil)
		}
	}
	f.state(p, "s0", erpc.ServerEjected)
	f.servers[1].answer()
	lost := 0
	for range 40 {
		if err := wait(f, held, "a held call"); err != nil {
			is(t, "a held call", err, erpc.ErrPeerLost)
			lost++
		}
	}
	if lost != 20 {
		t.Errorf("%d calls failed, 20 were at the server that died", lost)
	}
	f.once(0, 40)
	f.servers[0].start(f.cfg)
	f.state(p, "s0", erpc.ServerReady)
	f.checkBack(p)
	f.tick = 20 * time.Millisecond
	f.rounds(40 * time.Second)
	if n := f.loop.Sessions(); n != 2 {
		t.Errorf("%d sessions are left", n)
	}
}

// TestPoolLostReason: a call that no server takes names why the last one was lost, and says that it
// did not run.
func TestPoolLostReason(t *testing.T) {
	f, p := newPool(t, 1)
	held := f.hold(through(p, plain), 1)
	f.servers[0].die()
	f.servers[0].start(f.cfg)
	f.state(p, "s0", erpc.ServerEjected)
	f.servers[0].mute = true // no session opens
	is(t, "the call under way", wait(f, held, "it"), erpc.ErrPeerRestarted)
	is(t, "a call", last(p.Call(bg, tEcho, id(1))), erpc.ErrNoServer, erpc.ErrPeerRestarted,
		erpc.ErrNotRun)
}

// TestPoolServerRestarts: a server is started again before anybody has noticed that it died. Few
// calls find out.
func TestPoolServerRestarts(t *testing.T) {
	f, p := newPool(t, 2)
	f.all("a call", f.calls(through(p, plain), tEcho, 0, 100), 100, nil) // in many sessions
	f.servers[0].die()
	f.servers[0].start(f.cfg)
	failed := 0
	for i := range uint64(100) {
		err := wait(f, f.calls(through(p, repeat), tEcho, 1000+i, 1), "a call")
		if err != nil {
			is(t, "a call", err, erpc.ErrPeerRestarted)
			failed++
		}
	}
	if failed > 1 {
		t.Errorf("%d calls failed", failed)
	}
	f.state(p, "s0", erpc.ServerReady)
}

// TestPoolDrains: a server shuts down under load and comes back. Calls that may be repeated do not
// fail, and none runs twice.
func TestPoolDrains(t *testing.T) {
	f, p := newPool(t, 2)
	held := f.hold(through(p, plain), 10)
	var errs []chan error
	for i := range uint64(20) {
		if i == 10 {
			is(t, "refuse", f.servers[0].rpc.Refuse(), nil)
		}
		errs = append(errs, f.calls(through(p, repeat), tEcho, 1000+i*10, 10))
		f.round()
	}
	for _, e := range errs {
		f.all("a call", e, 10, nil)
	}
	f.once(1000, 200)
	if s := stateOf(p, "s0"); s != erpc.ServerDraining {
		t.Errorf("it is %v", s)
	}
	f.rounds(2 * time.Second) // it is asked for sessions, and refuses them
	if s := stateOf(p, "s0"); s != erpc.ServerDraining {
		t.Errorf("it is %v", s)
	}
	f.answer()
	f.all("a call that was at work", held, 10, nil)
	f.servers[0].die()
	f.servers[0].start(f.cfg)
	f.state(p, "s0", erpc.ServerReady)
	f.all("a call", f.calls(through(p, plain), tEcho, 5000, 10), 10, nil)
}

// TestPoolDrainUnrepeated: without that option calls that the server refused fail, and did not run.
func TestPoolDrainUnrepeated(t *testing.T) {
	f, p := newPool(t, 2)
	is(t, "refuse", f.servers[0].rpc.Refuse(), nil)
	errs := f.calls(through(p, plain), tEcho, 0, 10)
	refused := 0
	for range 10 {
		if err := wait(f, errs, "a call"); err != nil {
			is(t, "a call", err, erpc.ErrDraining)
			refused++
		}
	}
	// A caller that comes late finds the server draining, and asks the other one.
	if refused < 1 || refused > 5 || f.servers[0].count != 0 {
		t.Errorf("%d calls were refused, %d ran there", refused, f.servers[0].count)
	}
}

// TestPoolNoRoom: a call that a server refuses for its limits goes to the other one if it may be
// repeated; else, and if no server has room, it waits for room.
func TestPoolNoRoom(t *testing.T) {
	f, p := newPool(t, 2)
	f.servers[0].deaf = true
	f.all("a call", f.calls(through(p, repeat), tBackground, 0, 20), 20, nil)
	f.once(0, 20)
	waits := f.calls(through(p, plain), tBackground, 100, 20)
	for range 10 {
		is(t, "a call", wait(f, waits, "it"), nil)
	}
	f.rounds(time.Second)
	if len(waits) > 0 || f.servers[0].count > 0 {
		t.Error("calls did not wait for room")
	}
	f.servers[1].deaf = true
	all := f.calls(through(p, repeat), tBackground, 200, 20)
	f.rounds(time.Second)
	if len(all) > 0 {
		t.Error("calls did not wait for room at any server")
	}
	f.servers[0].deaf, f.servers[1].deaf = false, false
	f.all("a call", waits, 10, nil)
	f.all("a call", all, 20, nil)
	f.once(100, 20)
	f.once(200, 20)
}

// TestPoolRanOnce: a call whose handler ran is not repeated, whatever error the handler gave.
func TestPoolRanOnce(t *testing.T) {
	f, p := newPool(t, 3)
	f.all("a call", f.calls(through(p, repeat), tHuge, 0, 12), 12, erpc.ErrExhausted)
	f.once(0, 12)
}

// TestPoolNoRoomAnywhere: each server is asked once. Then calls wait at one of them, and are tried
// less and less often.
func TestPoolNoRoomAnywhere(t *testing.T) {
	f, p := newPool(t, 2)
	f.servers[0].deaf, f.servers[1].deaf = true, true
	errs := f.calls(through(p, repeat), tBackground, 0, 20)
	from := f.net.now
	f.until("a while passes", func() bool { return f.net.now > from.Add(500*time.Millisecond) })
	if n := f.servers[0].refused + f.servers[1].refused; n < 20 || n > 150 {
		t.Errorf("the servers refused %d times", n)
	}
	f.servers[0].deaf, f.servers[1].deaf = false, false
	f.all("a call", errs, 20, nil)
	f.once(0, 20)
}
