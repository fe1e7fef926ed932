package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
	pb "go.etcd.io/raft/v3/raftpb"
)

// wake lets time pass until the next replica wants to be called, and calls it alone.
func (m *mesh) wake() {
	m.now = max(m.now+1, m.nextWake())
	for id := uint64(1); id < 16; id++ {
		if p := m.posts[id]; p != nil && !m.cut[id] && p.NextWake() <= m.now {
			p.Tick(m.now)
		}
	}
	m.carryAll()
}

// carryAll carries all messages, and lets replicas see the time after each pass, as a loop does.
func (m *mesh) carryAll() {
	for m.carry() {
		for id := uint64(1); id < 16; id++ {
			if p := m.posts[id]; p != nil && !m.cut[id] {
				p.Tick(m.now)
			}
		}
	}
}

// nextWake is when the next replica wants to be called.
func (m *mesh) nextWake() monotime.Time {
	next := monotime.Never
	for _, p := range m.posts {
		if !m.cut[p.cfg.ID] {
			next = min(next, p.NextWake())
		}
	}
	return next
}

// TestRest: replicas that have nothing to do wake some twelve times in a second, and the leader
// stays. When it dies the others elect one as soon as if they had woken at each tick: after nine
// ticks at the earliest, and before twenty and the time of an election have passed.
func TestRest(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	const tick = 20 * time.Millisecond
	m.pass(time.Second)
	clear(m.moved)
	wakes, term := 0, m.posts[1].Status().Term
	from := m.now
	for ; m.now < from.Add(10*time.Second); wakes++ {
		m.wake()
	}
	if beats := m.moved[pb.MsgHeartbeat]; beats < 2*100 || beats > 2*10*1000/80+2 {
		t.Errorf("%d heartbeats in 10 s", beats)
	}
	if wakes > 130 || !m.posts[1].Leads() || m.posts[1].Status().Term != term {
		t.Errorf("they wake %d times in 10 s; %+v", wakes, m.posts[1].Status())
	}
	for i := range 30 {
		m.wake()
		m.cut[1] = true
		heard := m.now
		for !m.posts[2].Leads() && !m.posts[3].Leads() {
			if m.wake(); m.now > heard.Add(3*time.Second) {
				t.Fatal("nobody leads")
			}
		}
		if took := m.now.Sub(heard); took < 9*tick || i == 0 && took > 41*tick {
			t.Errorf("another one leads after %v", took)
		}
		m.cut[1] = false
		m.pass(time.Second)
		m.posts[2].Transfer(1)
		m.posts[3].Transfer(1)
		m.pass(time.Second)
		if !m.posts[1].Leads() {
			t.Fatal("it does not lead again")
		}
	}
}

// TestRestEnds: a leader with a request, or whose follower lacks an entry, ticks as ever.
func TestRestEnds(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	const tick = 20 * time.Millisecond
	m.pass(time.Second)
	l := m.posts[1]
	if at := l.TickAt(); at != l.nextTick.Add((beatTicks-1)*tick) {
		t.Errorf("at rest it ticks %v after the next one", at.Sub(l.nextTick))
	}
	rests := func(leader, follower bool) {
		t.Helper()
		if l.Rests() != leader || m.posts[2].Rests() != follower {
			t.Errorf("the leader rests: %v, a follower: %v", l.Rests(), m.posts[2].Rests())
		}
	}
	rests(true, true)
	id := m.session(l)
	m.cut[3] = true
	l.Propose(putBytes(id, 1, "a"), 7)
	rests(false, false)
	if at := l.TickAt(); at != l.nextTick {
		t.Errorf("with a request it ticks %v after the next one", at.Sub(l.nextTick))
	}
	m.settle()
	m.pass(tick)
	if at := l.TickAt(); at != l.nextTick {
		t.Errorf("with a follower behind it ticks %v after the next one", at.Sub(l.nextTick))
	}
	m.pass(time.Second)
	if at := l.TickAt(); at == l.nextTick {
		t.Error("it does not rest while a follower is away")
	}
	m.cut[3] = false
	m.pass(time.Second)
	if at := l.TickAt(); at == l.nextTick {
		t.Error("it does not rest again")
	}
}

// TestRestBusy: a leader that dies while it is busy is missed as soon as one at rest: what a
// follower hears is the end of what had passed before, not of what comes.
func TestRestBusy(t *testing.T) {
	const tick = 20 * time.Millisecond
	var took []time.Duration
	for i := range 60 {
		m := newMesh(t, Config{}, 1, 2, 3)
		m.pass(time.Second)
		l := m.posts[1]
		id := m.session(l)
		m.pass(time.Second)
		end := m.now.Add(time.Second + time.Duration(i)*7*tick/60)
		for seq := uint64(1); m.now < end; seq++ {
			next := m.now.Add(2 * time.Millisecond)
			for m.nextWake() < next {
				m.wake()
			}
			m.now = max(m.now, next)
			l.Propose(putBytes(id, seq, "a"), 7)
			l.Process()
			m.carryAll()
		}
		if !l.Leads() {
			t.Fatal("it does not lead")
		}
		m.cut[1] = true
		died := m.now
		for !m.posts[2].Leads() && !m.posts[3].Leads() {
			if m.wake(); m.now > died.Add(3*time.Second) {
				t.Fatal("nobody leads")
			}
		}
		took = append(took, m.now.Sub(died))
	}
	slices.Sort(took)
	if took[30] > 15*tick { // the least of two times between 10 and 20 ticks
		t.Errorf("another one leads after %v, %v and %v", took[0], took[30], took[59])
	}
}
