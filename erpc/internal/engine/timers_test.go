package erpc

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
)

// queueOne gives a client session, which is not open, one more request.
func queueOne(t *rapid.T, s *Session, ref uint32) {
	if err := s.cl.Start(session.Op{Ref: ref}, 0, 0, nil); err != nil {
		t.Fatal(err)
	}
}

// TestActiveSessions compares the active set with a map: a session is in it from its first request
// to its last, once, and no other is.
func TestActiveSessions(t *testing.T) {
	st := newStub(t, Config{})
	out := session.NewOut(4, false)
	rapid.Check(t, func(t *rapid.T) {
		var tm timers
		all := make([]*Session, 6)
		requests := map[*Session][]uint32{}
		for i := range all {
			all[i] = newClientSession(&st.engine)
			all[i].cl.Init(
				stubAddr(1), uint32(i), 1, session.Timing{}, 100, nil, nil, &session.Stats{})
		}
		for ref := range uint32(rapid.IntRange(1, 60).Draw(t, "steps")) {
			s := all[rapid.IntRange(0, len(all)-1).Draw(t, "session")]
			if rapid.Bool().Draw(t, "start") {
				queueOne(t, s, ref)
				requests[s] = append(requests[s], ref)
				tm.activate(s)
			} else {
				if rest := requests[s]; len(rest) > 0 {
					s.cl.Cancel(rest[0], nil, 0, out)
					for out.Next() != nil { // nobody is told
					}
					requests[s] = rest[1:]
				}
				tm.deactivate(s)
			}
			tm.check()
			for _, s := range all {
				if n := len(requests[s]); slices.Contains(tm.active, s) != (n > 0) {
					t.Fatalf("a session with %d requests is in the set: %v", n, n == 0)
				}
			}
			if slices.Contains(tm.active[:cap(tm.active)][len(tm.active):], s) && s.activeAt == 0 {
				t.Fatal("the set keeps a session that has left it from being collected")
			}
		}
	})
}

// TestWakeAt: the loop sleeps until the first thing that it has to do by itself.
func TestWakeAt(t *testing.T) {
	const ms = monotime.Time(time.Millisecond)
	st := newStub(t, Config{})
	e := &st.engine
	s := newClientSession(e)
	reset := func() {
		e.in.Now = 100 * ms
		e.timers.nextScan, e.timers.nextSweep = 101*ms, 150*ms
		e.timers.active, e.timers.wheel, e.timers.idle = nil, nil, idleWatch{}
		e.setAlarm(0, nil)
		e.handshakes.repeating, e.calls.deadlines, e.table.live = nil, 0, 0
		e.out.Reset()
	}
	for _, c := range []struct {
		name string
		set  func()
		want monotime.Time
	}{
		{"nothing", func() {}, monotime.Never},
		{"a session", func() { e.table.live = 1 }, 150 * ms},
		{"a sweep that is overdue", func() { e.table.live, e.timers.nextSweep = 1, 20*ms }, 101 * ms},
		{"requests", func() { e.timers.active = []*Session{s} }, 101 * ms},
		{"a handshake", func() { e.handshakes.repeating = []*Session{s} }, 101 * ms},
		{"a deadline", func() { e.calls.deadlines = 1 }, 101 * ms},
		{"somebody waits for handlers", func() { e.timers.idle.fn = func() {} }, 101 * ms},
		{"an alarm", func() { e.setAlarm(300*ms, func() {}) }, 300 * ms},
		{"an alarm that is overdue", func() { e.setAlarm(20*ms, func() {}) }, 101 * ms},
		{"an alarm before the sweep", func() {
			e.table.live = 1
			e.setAlarm(120*ms, func() {})
		}, 120 * ms},
		{"an alarm after the sweep", func() {
			e.table.live = 1
			e.setAlarm(170*ms, func() {})
		}, 150 * ms},
		{"requests of one of the sessions", func() {
			e.table.live, e.timers.active = 3, []*Session{s}
		}, 101 * ms},
		{"packets are kept", func() {
			e.table.live, e.timers.active, e.out.Tx = 1, []*Session{s}, append(e.out.Tx, session.Tx{})
		}, 100*ms + monotime.Time(time.Microsecond)},
	} {
		reset()
		c.set()
		if got := e.wakeAt(); got != c.want {
			t.Errorf("%s: wakes at %v, want %v", c.name, got, c.want)
		}
	}
	// A paced session: to the rate limiter's granularity.
	reset()
	s.cl.Init(stubAddr(1), 0, 1, session.Timing{}, 1, nil, nil, &session.Stats{})
	e.timers.pace(s, e.in.Now) // due at once
	if got := e.wakeAt(); got > 100*ms+monotime.Time(wheelConfig.Granularity) {
		t.Errorf("a packet is due: wakes at %v", got)
	}
	e.timers.active = []*Session{s}
	e.timers.nextScan = 99 * ms
	if got := e.wakeAt(); got != 99*ms {
		t.Errorf("an epoch before the packet: wakes at %v", got)
	}
	reset()
}

// TestAlarm: an alarm goes off once, in the first epoch at or after its time. It may set the next.
func TestAlarm(t *testing.T) {
	const step = 100 * time.Microsecond
	st := newStub(t, Config{})
	e := &st.engine
	var calls []monotime.Time
	ring := func() { calls = append(calls, st.now) }
	from := st.now
	second := func() {
		ring()
		e.setAlarm(st.now.Add(5*time.Millisecond), ring)
	}
	e.setAlarm(from.Add(10*time.Millisecond), second)
	for range 1000 {
		st.pass(step)
	}
	if len(calls) != 2 {
		t.Fatalf("%d calls", len(calls))
	}
	for _, late := range []time.Duration{
		calls[0].Sub(from) - 10*time.Millisecond, calls[1].Sub(calls[0]) - 5*time.Millisecond,
	} {
		if late < 0 || late >= e.timers.epoch+step {
			t.Errorf("an alarm %v late", late)
		}
	}
	e.setAlarm(st.now, ring)
	e.setAlarm(0, nil)
	for range 100 {
		st.pass(step)
	}
	if len(calls) != 2 {
		t.Error("an alarm that was taken back went off")
	}
}

// TestTickSweepsInTime: an epoch is a quarter of RTOMin, and a sweep comes each quarter of a
// heartbeat; both are late by a pass at most, and none is missed.
func TestTickSweepsInTime(t *testing.T) {
	st := newStub(t, Config{Timing: Timing{RTOMin: 8 * time.Millisecond,
		Heartbeat: 80 * time.Millisecond}})
	tm := &st.engine.timers
	if tm.epoch != 2*time.Millisecond || tm.sweepEvery != 20*time.Millisecond {
		t.Fatalf("epochs of %v, sweeps each %v", tm.epoch, tm.sweepEvery)
	}
	st.pass(0)
	scans, sweeps := 0, 0
	const step = 100 * time.Microsecond
	for range 10_000 {
		scan, sweep := tm.nextScan, tm.nextSweep
		st.pass(step)
		if tm.nextScan != scan {
			scans++
			if st.now < scan || st.now >= scan.Add(step) || tm.nextScan != st.now.Add(tm.epoch) {
				t.Fatalf("an epoch at %v, due at %v", st.now, scan)
			}
		}
		if tm.nextSweep != sweep {
			sweeps++
			if late := st.now.Sub(sweep); late < 0 || late >= tm.epoch {
				t.Fatalf("a sweep %v late", late)
			}
		}
	}
	if scans != 500 || sweeps != 50 {
		t.Errorf("%d epochs and %d sweeps in a second", scans, sweeps)
	}
}
