package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// holding is a leader that has just answered a write, and holds back the notices that tell its
// followers that it is committed.
func holding(t *testing.T, delay time.Duration) (m *mesh, l *post, session uint64) {
	t.Helper()
	m = newMesh(t, Config{}, 1, 2, 3)
	l = m.posts[1]
	session = m.session(l)
	l.cfg.CommitDelay = delay
	l.Now(m.now)
	l.Propose(putBytes(session, 1, "a"), 1)
	m.carry()
	m.settle()
	if l.answers[1].Status != kv.OK {
		t.Fatalf("%+v", l.answers)
	}
	return m, l, session
}

func appsTo(out []*pb.Message) (to []uint64) {
	for _, msg := range out {
		if msg.GetType() == pb.MsgApp {
			to = append(to, msg.GetTo())
		}
	}
	return to
}

// TestHeldNotice: the notice of a commit index waits for CommitDelay and no longer, and leaves at
// once if the clock goes back. The replica says when it wants to be called for it.
func TestHeldNotice(t *testing.T) {
	const delay = 500 * time.Microsecond
	for name, c := range map[string]struct {
		at    time.Duration // since it is held
		leave bool
	}{"early": {delay - 1, false}, "due": {delay, true}, "late": {delay + 1, true},
		"at once": {0, false}, "back": {-1, true}} {
		m, l, _ := holding(t, delay)
		if at := l.NextWake(); at != m.now.Add(delay) {
			t.Errorf("%s: it wakes after %v", name, at.Sub(m.now))
		}
		l.Tick(m.now.Add(c.at))
		want := []uint64(nil)
		if c.leave {
			want = []uint64{2, 3} // in this order, so that a run can be repeated
		}
		if to := appsTo(l.out); !slices.Equal(to, want) {
			t.Errorf("%s: sent to %v, want %v", name, to, want)
		}
		if l.NextWake() == m.now.Add(delay) == c.leave {
			t.Errorf("%s: it wakes at %v", name, l.NextWake())
		}
		m.settle()
		for id := uint64(2); id <= 3; id++ {
			if v, _ := m.posts[id].Store().Get(theKey()); (v.String() == "a") != c.leave {
				t.Errorf("%s: replica %d has %q", name, id, v)
			}
		}
	}
}

// TestHeldGather: the notice of a commit index rides with the writes that gathered until then.
func TestHeldGather(t *testing.T) {
	for _, quick := range []bool{false, true} {
		_, l, s := holding(t, 500*time.Microsecond)
		for seq := uint64(2); seq < few+6; seq++ {
			if l.Propose(putBytes(s, seq, "v"), seq); seq >= few+2 {
				l.Process()
			}
		}
		l.out = nil
		l.Step(l.answerOf(2, l.log.last()))
		if quick {
			l.Quick()
		}
		l.Process()
		if to := appsTo(l.out); len(to) != 2 || writesIn(l.out[0].Entries) != 3 {
			t.Errorf("sent to %v: %v", to, l.out)
		}
	}
}

// TestHeldEarly: the notice waits, too, if raft commits in the Ready of entries that left early.
func TestHeldEarly(t *testing.T) {
	_, l, s := holding(t, 500*time.Microsecond)
	l.Propose(putBytes(s, 2, "b"), 2)
	l.Process()
	last := l.log.last()
	l.Propose(putBytes(s, 3, "c"), 3)
	l.out = nil
	if l.Quick(); len(appsTo(l.out)) != 2 {
		t.Fatalf("%v", l.out)
	}
	l.Step(l.answerOf(2, last))
	if l.Process(); len(appsTo(l.out)) != 2 || l.answers[2].Status != kv.OK {
		t.Errorf("%v, %+v", l.out, l.answers[2])
	}
}

// TestHeldRides: the next entries tell the commit index, too, and nothing else leaves for it.
func TestHeldRides(t *testing.T) {
	m, l, s := holding(t, 500*time.Microsecond)
	clear(m.moved)
	l.Propose(putBytes(s, 2, "b"), 2)
	m.carry()
	if n := m.moved[pb.MsgApp]; n != 2 {
		t.Errorf("%d messages with one write to two followers", n)
	}
	for id := uint64(2); id <= 3; id++ {
		if v, _ := m.posts[id].Store().Get(theKey()); v.String() != "a" {
			t.Errorf("replica %d has %q", id, v)
		}
	}
}

// TestHeldFirst: the delay counts from the first notice that is held, and the last one leaves.
func TestHeldFirst(t *testing.T) {
	const delay = 500 * time.Microsecond
	m, l, s := holding(t, delay)
	f := m.posts[2]
	l.Propose(putBytes(s, 2, "b"), 2)
	l.Process()
	l.Propose(putBytes(s, 3, "c"), 3)
	l.Process()
	first := m.now
	for _, msg := range l.out { // its two entries, in a message each
		if msg.GetTo() != 2 {
			continue
		}
		f.Step(msg)
		f.Process()
		for _, answer := range f.out {
			l.Step(answer)
		}
		f.out = nil
		l.Process()
		if at := l.NextWake(); at != first.Add(delay) {
			t.Errorf("it wakes %v after the first", at.Sub(first))
		}
		m.now = m.now.Add(delay / 4)
		l.Now(m.now)
	}
	l.out = nil
	l.Tick(first.Add(delay))
	m.settle()
	if v, _ := f.Store().Get(theKey()); v.String() != "c" {
		t.Errorf("a follower has %q", v)
	}
}

// TestHeldOff: with a negative delay nothing is held.
func TestHeldOff(t *testing.T) {
	for _, delay := range []time.Duration{-1, 0} {
		m, l, _ := holding(t, delay)
		if v, _ := m.posts[2].Store().Get(theKey()); v.String() != "a" || len(l.held) > 0 {
			t.Errorf("delay %v: a follower has %q, %d are held", delay, v, len(l.held))
		}
	}
}

// TestHeldLost: a replica that leads no more tells nobody what is committed.
func TestHeldLost(t *testing.T) {
	m, l, _ := holding(t, time.Hour)
	l.Step(&pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(uint64(2)), To: new(uint64(1)),
		Term: new(l.term + 1)})
	l.Process()
	l.out = nil
	l.Tick(m.now.Add(2 * time.Hour))
	if to := appsTo(l.out); l.Leads() || len(to) > 0 {
		t.Errorf("leads %v, sent to %v", l.Leads(), to)
	}
}

// TestExpect: the keys of one pass are looked at, as many as there is room for.
func TestExpect(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	for i := range 100 {
		l.Expect(theKey())
		if got, want := len(l.expect), min(i+1, 16); got != want {
			t.Fatalf("%d keys of %d, want %d", got, i+1, want)
		}
	}
	l.changed = true
	if l.Process(); len(l.expect) != 0 {
		t.Errorf("%d keys are still expected", len(l.expect))
	}
}

// TestLimits: what is just allowed is taken.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		cfg Config
		ok  bool
	}{
		{Config{ID: 1, ElectionTicks: 2}, true}, {Config{ID: 1, ElectionTicks: 1}, false},
		{Config{ID: 1, Tick: 1}, true}, {Config{ID: 1, Tick: -1}, false},
		{Config{ID: 1, MaxWaiting: 1}, true}, {Config{ID: 1, MaxWaiting: -1}, false},
		{Config{}, false},
	} {
		if _, err := c.cfg.fill(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	for n, ok := range map[int]bool{0: false, 1: true, maxAddr: true, maxAddr + 1: false} {
		_, err := l.checkMember(Learner, 4, string(make([]byte, n)))
		if (err == nil) != ok {
			t.Errorf("an address of %d bytes: %v", n, err)
		}
	}
}

// TestBusy: MaxWaiting requests of any kind wait; more are refused as Busy until some are answered.
func TestBusy(t *testing.T) {
	const most = 3
	m := newMesh(t, Config{MaxWaiting: most}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	tag := uint64(0)
	kinds := map[string]func() bool{
		"put": func() bool {
			a, ok := l.Propose(putBytes(s, tag, "v"), tag)
			return ok || a.Status != kv.Busy
		},
		"read": func() bool {
			a, ok := l.Read(theKey(), false, tag)
			return ok || a.Status != kv.Busy
		},
	}
	for name, one := range kinds {
		for _, process := range []bool{false, true} {
			for i := range most + 2 {
				tag++
				if took := one(); took != (i < most) {
					t.Errorf("%s %d: taken %v", name, i, took)
				}
				if process {
					l.Process()
				}
			}
			m.settle()
			m.pass(20 * time.Millisecond)
		}
	}
}

// TestTickFor: an election timeout is four times what the disk takes, in whole milliseconds, and no
// shorter than was asked for.
func TestTickFor(t *testing.T) {
	for _, c := range []struct{ tick, sync, want time.Duration }{
		{20 * time.Millisecond, 0, 20 * time.Millisecond},
		{20 * time.Millisecond, 50 * time.Millisecond, 20 * time.Millisecond},
		{20 * time.Millisecond, 300 * time.Millisecond, 120 * time.Millisecond},
		{time.Millisecond, 25 * time.Millisecond, 10 * time.Millisecond},
		{time.Millisecond, 25*time.Millisecond + 1, 10 * time.Millisecond}, // below 1 ns a tick
		{time.Millisecond, 25*time.Millisecond + 3, 11 * time.Millisecond},
	} {
		if got := (Config{ID: 1, Tick: c.tick}).TickFor(c.sync); got != c.want {
			t.Errorf("tick %v, disk %v: %v, want %v", c.tick, c.sync, got, c.want)
		}
	}
	if got := (Config{ID: 1, Tick: 3, ElectionTicks: 7}).ElectionTimeout(); got != 21 {
		t.Errorf("election timeout %v", got)
	}
}

// TestClockBack: a clock that goes back does not stop the ticks for longer than one.
func TestClockBack(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	back := m.now.Add(-time.Minute)
	l.Tick(back)
	if at := l.NextWake(); at > back.Add(l.TickTime()) {
		t.Errorf("the next tick comes after %v", at.Sub(back))
	}
	clear(m.moved)
	l.Tick(back.Add(l.TickTime() - 1))
	m.settle()
	if n := m.moved[pb.MsgHeartbeat]; n != 0 {
		t.Errorf("%d heartbeats before a tick", n)
	}
	l.Tick(back.Add(l.TickTime()))
	m.settle()
	if n := m.moved[pb.MsgHeartbeat]; n != 2 {
		t.Errorf("%d heartbeats in a tick", n)
	}
}

// TestAge: while there are many sessions a leader tells the log the time, about every ten seconds;
// with few it says nothing.
func TestAge(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	quiet := l.Status().Last
	m.pass(11 * time.Second)
	if last := l.Status().Last; last != quiet {
		t.Errorf("%d entries while nobody asked for anything", last-quiet)
	}
	open := (&kv.Command{Op: kv.Open, Cluster: 1}).Append(nil)
	for i := 0; !l.Store().Crowded(); i++ {
		if _, ok := l.Propose(open, noTag); !ok || i > kv.MaxSessions {
			t.Fatalf("%d sessions are not many", i)
		}
		if i%100 == 0 {
			m.settle()
		}
	}
	m.settle()
	l.aged = l.now
	before := l.Status().Last
	m.pass(ageEvery - l.TickTime())
	if n := l.Status().Last - before; n != 0 {
		t.Errorf("%d entries before the time", n)
	}
	m.pass(beatTicks * l.TickTime()) // it is at rest
	if n := l.Status().Last - before; n != 1 {
		t.Fatalf("%d entries for the time", n)
	}
	var c kv.Command
	e := l.log.entries[len(l.log.entries)-1]
	if c, _ = kv.ParseCommand(e.Data); c.Op != kv.Clock ||
		c.Seq < uint64(ageEvery/time.Millisecond) || c.Seq > uint64(ageEvery/time.Millisecond)+80 {
		t.Errorf("%+v", c)
	}
	m.pass(10 * ageEvery)
	if n := l.Status().Last - before; n != 11 {
		t.Errorf("%d entries in eleven times that", n)
	}
}

// TestGiveUp: a follower asks again for a read whose question was lost after half of an election
// timeout, and at once if the clock goes back.
func TestGiveUp(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		over  bool
	}{"early": {100*time.Millisecond - 1, false}, "due": {100 * time.Millisecond, true},
		"back": {-time.Hour, true}} {
		m := newMesh(t, Config{}, 1, 2, 3)
		m.pass(20 * time.Millisecond)
		f := m.posts[2]
		if _, ok := f.Read(theKey(), true, 7); !ok {
			t.Fatal("not taken")
		}
		f.Process()
		f.out = nil
		at := m.now.Add(c.after)
		f.nextTick = min(f.nextTick, at)
		f.Tick(at)
		a, ok := f.answers[7]
		if ok != c.over || ok && a.Status != kv.Retry {
			t.Errorf("%s: answered %v, %+v", name, ok, a)
		}
	}
}
