package engine

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/wire"
)

const stubStep = 100 * time.Microsecond

// sendTimes makes passes until time end, and returns when management packets of a kind were sent.
func (st *stub) sendTimes(op wire.Op, end monotime.Time) (times []monotime.Time) {
	st.tb.Helper()
	for st.take(); st.now < end; st.pass(stubStep) {
		for _, got := range st.take() {
			if got == op {
				times = append(times, st.now)
			}
		}
	}
	return times
}

// wantTimes checks that the packets between two times were sent when they were due, or an epoch and
// a pass later. Interval returns how long after the packet before packet i was due.
func wantTimes(
	t *testing.T, from, to monotime.Time, times []monotime.Time, interval func(i int) time.Duration,
) {
	t.Helper()
	const slack = 1250*time.Microsecond + 2*stubStep
	due := from.Add(interval(0))
	for i, got := range times {
		if got < due || got > due.Add(slack) {
			t.Errorf("repetition %d at %v, due at %v", i, got, due)
		}
		due = got.Add(interval(i + 1))
	}
	if due.Add(slack) < to {
		t.Errorf("%d repetitions, and none at %v", len(times), due)
	}
}

// TestConnectIsRepeated: a first Connect that nobody answers is sent again about every ConnectRetry
// for some times, then each time a sixteenth later after the last one but no later than about
// RTOMax, until ConnectTimeout. "About" is a quarter less or more, and each time another number.
func TestConnectIsRepeated(t *testing.T) {
	var events []session.EventKind
	st := newStub(t, setup{OnSession: func(_ *Conn, ev session.EventKind) {
		events = append(events, ev)
	}})
	start := st.now
	s := st.dialTo(1)
	st.pass(0)
	if ops := st.take(); len(ops) != 1 || ops[0] != wire.OpConnect {
		t.Errorf("sent %v", ops)
	}
	times := st.sendTimes(wire.OpConnect, start.Add(3*time.Second-stubStep))
	const slack = 1250*time.Microsecond + 2*stubStep
	wait, was, early := 10*time.Millisecond, start, 0
	for i, at := range times {
		if i >= 20 {
			wait = min(wait+wait/16, 200*time.Millisecond)
		}
		d := at.Sub(was)
		if d < wait*3/4 || d > wait*5/4+slack {
			t.Errorf("repetition %d after %v, not about %v", i, d, wait)
		}
		if d < wait {
			early++
		}
		was = at
	}
	if len(times) < 60 || len(times) > 75 || early < 15 || early > len(times)/2 {
		t.Errorf("%d repetitions, %d of them early", len(times), early)
	}
	if s.Err() != nil {
		t.Errorf("the session ended before its time with %v", s.Err())
	}
	if times = st.sendTimes(wire.OpConnect, start.Add(4*time.Second)); len(times) != 0 {
		t.Errorf("%d packets after ConnectTimeout", len(times))
	}
	if !errors.Is(s.Err(), ErrConnect) || len(events) != 1 ||
		events[0] != session.EventClosed || s.fate != Refused {
		t.Errorf("the session ended with %v, events %v, fate %d", s.Err(), events, s.fate)
	}
	if n := len(st.handshakes.repeating); n != 0 || st.Live() != 0 {
		t.Errorf("%d sessions, %d are repeated", st.Live(), n)
	}
}

// TestMassDial: sessions that dial together repeat no more first Connects than the budget of their
// endpoint, and each is sent once at least.
func TestMassDial(t *testing.T) {
	st := newStub(t, setup{})
	const count = 5000
	for i := range count {
		st.dialTo(i)
	}
	st.pass(0)
	if n := len(st.take()); n != count {
		t.Errorf("%d Connects for %d sessions", n, count)
	}
	repeats := len(st.sendTimes(wire.OpConnect, st.now.Add(500*time.Millisecond)))
	if repeats > repeatsAtOnce+repeatsPerSecond/2 || repeats < repeatsPerSecond/2 {
		t.Errorf("%d repetitions in half a second", repeats)
	}
	if st.Live() != count {
		t.Errorf("%d sessions", st.Live())
	}
}

// TestDisconnectIsRepeated: a Disconnect is sent again each ConnectRetry, until it is acknowledged
// or DisconnectLinger has passed. The session's number stays in use for as long.
func TestDisconnectIsRepeated(t *testing.T) {
	for _, acknowledged := range []bool{false, true} {
		events := 0
		st := newStub(t, setup{OnSession: func(*Conn, session.EventKind) { events++ }})
		s := st.dialTo(1)
		st.accepted(s, 1, 3)
		st.pass(2 * time.Millisecond)
		at := st.now
		if st.closeConn(s); events != 2 {
			t.Fatalf("%d events", events)
		}
		st.pass(0)
		if ops := st.take(); len(ops) != 1 || ops[0] != wire.OpDisconnect {
			t.Errorf("sent %v", ops)
		}
		end := at.Add(200*time.Millisecond - stubStep)
		if acknowledged {
			end = at.Add(100 * time.Millisecond)
		}
		retry := func(int) time.Duration { return 10 * time.Millisecond }
		wantTimes(t, at, end, st.sendTimes(wire.OpDisconnect, end), retry)
		if st.Live() != 1 || st.table.next() == s.End.Local {
			t.Error("the session was forgotten too soon")
		}
		if acknowledged {
			x := alive(s)
			st.receive(1, wire.OpDisconnectAck, s.End.Local, s.End.LocalToken, wire.AliveSize, x.Put)
		}
		st.pass(1250 * time.Microsecond)
		if st.Live() != 0 || st.table.next() != s.End.Local {
			t.Error("the session is not forgotten")
		}
		if times := st.sendTimes(wire.OpDisconnect, end.Add(time.Second)); len(times) != 0 {
			t.Errorf("%d packets after the end", len(times))
		}
		if events != 2 || len(st.handshakes.repeating) != 0 {
			t.Errorf("%d events, %d sessions are repeated", events, len(st.handshakes.repeating))
		}
	}
}

// TestConnectAgain: a Connect that comes again gets the Accept again, for the same session, of
// which the owner is told once. When that has ended it makes a new one.
func TestConnectAgain(t *testing.T) {
	events := 0
	st := newStub(t, setup{OnSession: func(*Conn, session.EventKind) { events++ }})
	first := st.connectFrom(1, 7, 5)
	for range 3 {
		st.take()
		if s := st.connectFrom(1, 7, 5); s != first {
			t.Fatalf("another session: %+v", s)
		}
		if ops := st.take(); len(ops) != 1 || ops[0] != wire.OpAccept {
			t.Errorf("answered with %v", ops)
		}
	}
	if other := st.connectFrom(1, 7, 6); other == first || other == nil {
		t.Errorf("another attempt gives %+v", other)
	}
	if third := st.connectFrom(2, 7, 5); third == first || third == nil {
		t.Errorf("another client gives %+v", third)
	}
	if events != 3 || st.Live() != 3 || st.stats.SessionsOpened != 3 {
		t.Errorf("%d events, %d sessions, %d opened", events, st.Live(),
			st.stats.SessionsOpened)
	}
	st.take()
	x := alive(first)
	st.receive(1, wire.OpDisconnect, first.End.Local, first.End.LocalToken, wire.AliveSize, x.Put)
	st.pass(1000)
	if ops := st.take(); len(ops) != 1 || ops[0] != wire.OpDisconnectAck || st.Live() != 2 {
		t.Errorf("answered with %v, %d sessions", ops, st.Live())
	}
	if s := st.connectFrom(1, 7, 5); s == nil || s == first || s.err != nil {
		t.Errorf("after the end: %+v", s)
	}
}

// lifeOf follows the events of each session: at most one that it is open, then one that it has
// ended, and nothing after that.
type lifeOf map[*Conn][]session.EventKind

func (l lifeOf) hear(t *rapid.T, s *Conn, ev session.EventKind) {
	if ev != session.EventOpened && ev != session.EventClosed {
		t.Fatalf("a session has event %d after %v", ev, l[s])
	}
	for _, was := range l[s] {
		if was != session.EventOpened || ev == session.EventOpened {
			t.Fatalf("a session is %v after %v", ev, l[s])
		}
	}
	if ended := ev == session.EventClosed; ended != (s.Err() != nil) || ended != (s.fate != 0) {
		t.Fatalf("session %v, its error is %v, its fate %d", ev, s.Err(), s.fate)
	}
	l[s] = append(l[s], ev)
}

// TestHandshakes makes random steps in the lives of client sessions. Those that repeat a packet
// are the ones that connect or close, after each epoch, and each life has one end.
func TestHandshakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		told := lifeOf{}
		st := newStub(t, setup{MaxSessions: 100, OnSession: func(s *Conn, ev session.EventKind) {
			told.hear(t, s, ev)
		}})
		var all []*Conn
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			op := rapid.IntRange(0, 5).Draw(t, "op")
			if op == 0 || len(all) == 0 {
				all = append(all, st.dialTo(rapid.IntRange(1, 3).Draw(t, "peer")))
			}
			s := all[rapid.IntRange(0, len(all)-1).Draw(t, "session")]
			peer := int(s.End.Peer.Port) - 1
			say := func(op wire.Op) {
				x := alive(s)
				st.receive(peer, op, s.End.Local, s.End.LocalToken, wire.AliveSize, x.Put)
			}
			switch {
			case op == 1 && s.state == connecting:
				st.accepted(s, peer, 3)
			case op == 1 && s.state == connected:
				say(wire.OpReset)
			case op == 2:
				st.closeConn(s)
			case op == 3 && s.state == closing:
				say(wire.OpDisconnectAck)
			case op == 3 && s.state == connected:
				say(wire.OpDisconnect)
			}
			st.pass(time.Duration(rapid.IntRange(2, 600).Draw(t, "ms")) * time.Millisecond)
			checkHandshakes(t, &st.Engine, all)
			st.table.check()
			st.assocs.check()
		}
		st.close()
		for _, s := range all {
			if l := told[s]; len(l) == 0 || l[len(l)-1] == session.EventOpened {
				t.Fatalf("the owner was told %v of a session's life", l)
			}
		}
	})
}

// checkHandshakes looks at the sessions after an epoch.
func checkHandshakes(t *rapid.T, e *Engine, all []*Conn) {
	repeats := map[*Conn]bool{}
	for _, s := range e.handshakes.repeating {
		repeats[s] = true
	}
	for _, s := range all {
		known := e.table.at(s.End.Local) == s
		switch s.state {
		case connecting, closing:
			if !repeats[s] || !known {
				t.Fatalf("a session in state %d is repeated: %v, known: %v", s.state, repeats[s], known)
			}
		case connected:
			if repeats[s] || !known || s.assoc == nil || s.dialer != nil {
				t.Fatalf("an open session: %+v", s)
			}
		case dead:
			if repeats[s] || known || s.assoc != nil || s.err == nil {
				t.Fatalf("a session that is over: %+v", s)
			}
		default:
			t.Fatalf("a session in state %d after a pass", s.state)
		}
	}
}
