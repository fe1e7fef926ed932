package erpc

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/userspace-rpc/erpc/internal/monotime"
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
// for a hundred times, then each time half as long again after the last one but no later than about
// RTOMax, until ConnectTimeout. "About" is a quarter less or more, and each time another number.
func TestConnectIsRepeated(t *testing.T) {
	var events []SessionEvent
	cfg := Config{OnSession: func(_ *Rpc, _ *Session, ev SessionEvent) { events = append(events, ev) }}
	st := newStub(t, cfg)
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
		if i >= 100 {
			wait = min(wait*3/2, 200*time.Millisecond)
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
	if len(times) < 110 || early < 20 || early > len(times)/2 {
		t.Errorf("%d repetitions, %d of them early", len(times), early)
	}
	if s.Err() != nil {
		t.Errorf("the session ended before its time with %v", s.Err())
	}
	if times = st.sendTimes(wire.OpConnect, start.Add(4*time.Second)); len(times) != 0 {
		t.Errorf("%d packets after ConnectTimeout", len(times))
	}
	if !errors.Is(s.Err(), ErrConnect) || len(events) != 1 || events[0] != SessionRefused {
		t.Errorf("the session ended with %v, events %v", s.Err(), events)
	}
	if n := len(st.engine.handshakes.repeating); n != 0 || st.Sessions() != 0 {
		t.Errorf("%d sessions, %d are repeated", st.Sessions(), n)
	}
}

// TestMassDial: sessions that dial together repeat no more first Connects than the budget of their
// endpoint, and each is sent once at least.
func TestMassDial(t *testing.T) {
	st := newStub(t, Config{})
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
	if st.Sessions() != count {
		t.Errorf("%d sessions", st.Sessions())
	}
}

// TestDisconnectIsRepeated: a Disconnect is sent again each ConnectRetry, until it is acknowledged
// or DisconnectLinger has passed. The session's number stays in use for as long.
func TestDisconnectIsRepeated(t *testing.T) {
	for _, acknowledged := range []bool{false, true} {
		events := 0
		cfg := Config{OnSession: func(*Rpc, *Session, SessionEvent) { events++ }}
		st := newStub(t, cfg)
		s := st.dialTo(1)
		st.accepted(s, 1, 3)
		st.pass(2 * time.Millisecond)
		at := st.now
		if err := st.CloseSession(s); err != nil || events != 2 {
			t.Fatalf("%v, %d events", err, events)
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
		if st.Sessions() != 1 || st.engine.table.next() == s.end.Local {
			t.Error("the session was forgotten too soon")
		}
		if acknowledged {
			x := alive(s)
			st.receive(1, wire.OpDisconnectAck, s.end.Local, s.end.LocalToken, wire.AliveSize, x.Put)
		}
		st.pass(1250 * time.Microsecond)
		if st.Sessions() != 0 || st.engine.table.next() != s.end.Local {
			t.Error("the session is not forgotten")
		}
		if times := st.sendTimes(wire.OpDisconnect, end.Add(time.Second)); len(times) != 0 {
			t.Errorf("%d packets after the end", len(times))
		}
		if events != 2 || len(st.engine.handshakes.repeating) != 0 {
			t.Errorf("%d events, %d sessions are repeated", events, len(st.engine.handshakes.repeating))
		}
	}
}

// TestConnectAgain: a Connect that comes again gets the Accept again, for the same session, of
// which the application is told once. When that has ended it makes a new one.
func TestConnectAgain(t *testing.T) {
	events := 0
	st := newStub(t, Config{OnSession: func(*Rpc, *Session, SessionEvent) { events++ }})
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
	if events != 3 || st.Sessions() != 3 || st.engine.stats.SessionsOpened != 3 {
		t.Errorf("%d events, %d sessions, %d opened", events, st.Sessions(),
			st.engine.stats.SessionsOpened)
	}
	st.take()
	x := alive(first)
	st.receive(1, wire.OpDisconnect, first.end.Local, first.end.LocalToken, wire.AliveSize, x.Put)
	st.pass(1000)
	if ops := st.take(); len(ops) != 1 || ops[0] != wire.OpDisconnectAck || st.Sessions() != 2 {
		t.Errorf("answered with %v, %d sessions", ops, st.Sessions())
	}
	if s := st.connectFrom(1, 7, 5); s == nil || s == first || s.err != nil {
		t.Errorf("after the end: %+v", s)
	}
}

// lifeOf follows the events of each session: at most one that it is open, then one that it has
// ended, and nothing after that.
type lifeOf map[*Session][]SessionEvent

func (l lifeOf) hear(t *rapid.T, s *Session, ev SessionEvent) {
	for _, was := range l[s] {
		if was != SessionConnected || ev == SessionConnected {
			t.Fatalf("a session is %v after %v", ev, l[s])
		}
	}
	if ended := ev != SessionConnected; ended != (s.Err() != nil) {
		t.Fatalf("session %v, its error is %v", ev, s.Err())
	}
	l[s] = append(l[s], ev)
}

// TestHandshakes makes random steps in the lives of client sessions. Those that repeat a packet
// are the ones that connect or close, after each epoch, and each life has one end.
func TestHandshakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		told := lifeOf{}
		cfg := Config{MaxSessions: 100, OnSession: func(_ *Rpc, s *Session, ev SessionEvent) {
			told.hear(t, s, ev)
		}}
		st := newStub(t, cfg)
		e := &st.engine
		var all []*Session
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			op := rapid.IntRange(0, 5).Draw(t, "op")
			if op == 0 || len(all) == 0 {
				all = append(all, st.dialTo(rapid.IntRange(1, 3).Draw(t, "peer")))
			}
			s := all[rapid.IntRange(0, len(all)-1).Draw(t, "session")]
			peer := int(s.end.Peer.Port) - 1
			say := func(op wire.Op) {
				x := alive(s)
				st.receive(peer, op, s.end.Local, s.end.LocalToken, wire.AliveSize, x.Put)
			}
			switch {
			case op == 1 && s.state == sessConnecting:
				st.accepted(s, peer, 3)
			case op == 1 && s.state == sessConnected:
				say(wire.OpReset)
			case op == 2:
				if err := st.CloseSession(s); err != nil {
					t.Fatal(err)
				}
			case op == 3 && s.state == sessClosing:
				say(wire.OpDisconnectAck)
			case op == 3 && s.state == sessConnected:
				say(wire.OpDisconnect)
			}
			st.pass(time.Duration(rapid.IntRange(2, 600).Draw(t, "ms")) * time.Millisecond)
			checkHandshakes(t, e, all)
			e.table.check()
			e.assocs.check()
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if l := told[s]; len(l) == 0 || l[len(l)-1] == SessionConnected {
				t.Fatalf("the application was told %v of a session's life", l)
			}
		}
	})
}

// checkHandshakes looks at the sessions after an epoch.
func checkHandshakes(t *rapid.T, e *engine, all []*Session) {
	repeats := map[*Session]bool{}
	for _, s := range e.handshakes.repeating {
		repeats[s] = true
	}
	for _, s := range all {
		known := e.table.at(s.end.Local) == s
		switch s.state {
		case sessConnecting, sessClosing:
			if !repeats[s] || !known {
				t.Fatalf("a session in state %d is repeated: %v, known: %v", s.state, repeats[s], known)
			}
		case sessConnected:
			if repeats[s] || !known || s.assoc == nil || s.dialer != nil {
				t.Fatalf("an open session: %+v", s)
			}
		case sessDead:
			if repeats[s] || known || s.assoc != nil || s.err == nil {
				t.Fatalf("a session that is over: %+v", s)
			}
		default:
			t.Fatalf("a session in state %d after a pass", s.state)
		}
	}
}
