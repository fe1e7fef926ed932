package engine

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
)

// queueOne gives a client session, which is not open, one more request.
func queueOne(t *rapid.T, s *Conn, ref uint32) {
	if err := s.Client.Start(session.Op{Ref: ref}, 0, 0, nil); err != nil {
		t.Fatal(err)
	}
}

// TestActiveSessions compares the active set with a map: a session is in it from its first request
// to its last, once, and no other is.
func TestActiveSessions(t *testing.T) {
	out := session.NewOut(4, false)
	rapid.Check(t, func(t *rapid.T) {
		var tm timers
		all := make([]*Conn, 6)
		requests := map[*Conn][]uint32{}
		for i := range all {
			all[i] = newStubConn(true)
			all[i].Client.Init(
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
					s.Client.Cancel(rest[0], nil, 0, out)
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

// TestWakeAt: the engine sleeps until the first thing that it has to do by itself.
func TestWakeAt(t *testing.T) {
	const ms = monotime.Time(time.Millisecond)
	st := newStub(t, setup{})
	s := newStubConn(true)
	reset := func() {
		st.in.Now = 100 * ms
		st.timers.nextScan, st.timers.nextSweep = 101*ms, 150*ms
		st.timers.active, st.timers.late, st.timers.wheel = nil, nil, nil
		st.handshakes.repeating, st.notices, st.table.live = nil, nil, 0
		st.assocs.probes, st.assocs.idle = nil, nil
	}
	for _, c := range []struct {
		name string
		set  func()
		want monotime.Time
	}{
		{"nothing", func() {}, monotime.Never},
		{"a session", func() { st.table.live = 1 }, 150 * ms},
		{"a sweep that is overdue", func() { st.table.live, st.timers.nextSweep = 1, 20*ms }, 101 * ms},
		{"requests", func() { st.timers.active = []*Conn{s} }, 101 * ms},
		{"answers that are repeated", func() { st.timers.late = []*Conn{s} }, 101 * ms},
		{"a handshake", func() { st.handshakes.repeating = []*Conn{s} }, 101 * ms},
		{"clients to be told of the end", func() { st.notices = []*Conn{s} }, 101 * ms},
		{"a peer that seems to have gone", func() { st.assocs.probes = []*deathProbe{{}} }, 101 * ms},
		{"keys without a session", func() { st.assocs.idle = []*association{{}} }, 150 * ms},
		{"requests of one of the sessions", func() {
			st.table.live, st.timers.active = 3, []*Conn{s}
		}, 101 * ms},
	} {
		reset()
		c.set()
		if got := st.WakeAt(); got != c.want {
			t.Errorf("%s: wakes at %v, want %v", c.name, got, c.want)
		}
	}
	// A paced session: to the rate limiter's granularity.
	reset()
	s.Client.Init(stubAddr(1), 0, 1, session.Timing{}, 1, nil, nil, &session.Stats{})
	st.timers.pace(s, st.in.Now) // due at once
	if got := st.WakeAt(); got > 100*ms+monotime.Time(WheelConfig.Granularity) {
		t.Errorf("a packet is due: wakes at %v", got)
	}
	st.timers.active = []*Conn{s}
	st.timers.nextScan = 99 * ms
	if got := st.WakeAt(); got != 99*ms {
		t.Errorf("an epoch before the packet: wakes at %v", got)
	}
}

// TestTickSweepsInTime: an epoch is a quarter of RTOMin, and a sweep comes each quarter of a
// heartbeat; both are late by a pass at most, and none is missed.
func TestTickSweepsInTime(t *testing.T) {
	st := newStub(t, setup{Timing: session.Timing{RTOMin: 8 * time.Millisecond,
		Heartbeat: 80 * time.Millisecond}})
	tm := &st.timers
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

// TestLookInterval: evidence of losses is looked at often, but less often where many sessions have
// requests.
func TestLookInterval(t *testing.T) {
	tm := timers{epoch: 1600 * time.Microsecond}
	for sessions, want := range map[int]monotime.Time{0: 100_000, 10: 100_000, 50: 500_000} {
		tm.active = make([]*Conn, sessions)
		if tm.looked(1000); tm.nextLook != 1000+want {
			t.Errorf("%d sessions: the next look comes after %v, want %v", sessions,
				time.Duration(tm.nextLook-1000), time.Duration(want))
		}
	}
}
