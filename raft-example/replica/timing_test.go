package replica

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// raised is a mesh with a lease whose version is the newest.
func raised(t *testing.T, cfg Config) (*mesh, *post) {
	m := newMesh(t, cfg, 1, 2, 3)
	l := m.posts[1]
	if err := l.Retime(Timing{Tick: tick20}, 1); !errors.Is(err, ErrTiming) {
		t.Fatalf("in version 0: %v", err)
	}
	if err := l.Raise(kv.Format, 2); err != nil {
		t.Fatal(err)
	}
	m.settle()
	return m, l
}

// TestRetime: all replicas take the tick and the lease of an entry, those that begin with the log
// or a snapshot, too, whatever their Config says.
func TestRetime(t *testing.T) {
	m, l := raised(t, Config{Lease: 6 * tick20})
	for _, bad := range []Timing{{Tick: kv.MinTick - 1}, {Tick: kv.MaxTick + 1},
		{Tick: tick20, Lease: 9*tick20 + 1}} {
		if err := l.Retime(bad, 3); !errors.Is(err, ErrTiming) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := m.posts[2].Retime(Timing{Tick: tick20}, 3); !errors.Is(err, ErrLeader) {
		t.Error(err)
	}
	want := Timing{Tick: 30 * time.Millisecond, Lease: 6 * 30 * time.Millisecond, Agreed: true}
	for i := range uint64(2) {
		if err := l.Retime(Timing{Tick: want.Tick, Lease: -1}, 10+i); err != nil {
			t.Fatal(err)
		}
		m.settle()
		m.pass(4 * tick20) // the followers hear of the commit
		if a := l.answers[10+i]; a.Status != kv.OK || a.Found != (i == 1) {
			t.Errorf("%d: %+v", i, a)
		}
		for _, p := range m.posts {
			if got := p.Timing(); got != want || p.TickTime() != want.Tick || !p.Leases() {
				t.Errorf("replica %d: %+v", p.cfg.ID, got)
			}
		}
	}
	snap, from := l.Export(l.applied)
	m.cfg.Tick, m.cfg.Lease = time.Second, 0
	if got := m.add(4, Start{Snapshot: snap, State: from}).Timing(); got != want {
		t.Errorf("of a snapshot: %+v", got)
	}
	first, _ := l.log.FirstIndex()
	list, err := l.log.Entries(first, l.lastIndex()+1, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	m.cut[5] = true
	p := m.add(5, Start{Hard: &pb.HardState{Term: new(uint64(1)), Commit: new(l.lastIndex())},
		Snapshot: Boot(map[uint64]string{1: "a"}).Snapshot, Entries: list})
	if !p.Timing().Agreed || p.TickTime() != time.Second || p.Leases() || p.lease.silent == 0 {
		t.Errorf("with the entry in the log: %+v, %v", p.Timing(), p.TickTime())
	}
	p.Process()
	if got := p.Timing(); got != want || p.TickTime() != want.Tick {
		t.Errorf("of the log: %+v", got)
	}
}

// TestRetimeLease: while the entry is not applied the leader has no lease; then the answers of
// followers count that had it before they were asked.
func TestRetimeLease(t *testing.T) {
	m, l := raised(t, Config{Lease: 6 * tick20, Tick: tick20})
	m.atOnce(l, 100)
	m.settle()
	if !m.atOnce(l, 101) {
		t.Fatal("no lease")
	}
	m.cut[3] = true
	if err := l.Retime(Timing{Tick: 5 * tick20, Lease: 45 * tick20}, 3); err != nil {
		t.Fatal(err)
	}
	l.Process()
	if m.atOnce(l, 102) || l.TickTime() != 5*tick20 || l.Leases() {
		t.Error("a lease while the entry is under way")
	}
	m.settle()
	if l.Timing().Lease != 45*tick20 {
		t.Fatal("not applied")
	}
	// Replica 2 goes, 3 comes back. It answers heartbeats, and gets no entries.
	m.cut[2], m.cut[3] = true, false
	lease := func(tag uint64) bool {
		m.atOnce(l, tag)
		for range 8 {
			l.Process()
			for id, p := range m.posts {
				p.Process()
				out := p.out
				p.out = nil
				for _, msg := range out {
					if !m.cut[id] && !m.cut[msg.GetTo()] && msg.GetType() != pb.MsgApp {
						m.posts[msg.GetTo()].Step(msg)
					}
				}
			}
		}
		if _, ok := l.answers[tag]; !ok {
			t.Fatal("a read without an answer")
		}
		return m.atOnce(l, tag+1)
	}
	m.now = m.now.Add(5 * tick20)
	l.Tick(m.now) // so that all are asked
	if lease(110) {
		t.Error("the answer of a follower without the entry counts")
	}
	if m.posts[3].TickTime() != tick20 {
		t.Fatal("replica 3 has the entry")
	}
	m.pass(20 * tick20)
	if m.posts[3].TickTime() != 5*tick20 {
		t.Fatal("replica 3 has not the entry")
	}
	if !lease(120) {
		t.Error("no lease with two that have the entry")
	}
	was := l.timing
	old := &pb.Message{Term: new(l.term), From: new(uint64(2)),
		Context: binary.LittleEndian.AppendUint64(nil, was.before)}
	if l.returns(old); !slices.Contains(was.rest, 2) || l.timing.have != was.have {
		t.Errorf("an answer to what had left before the round counts: %+v", l.timing)
	}
}

// TestRetimeComing: a follower has the longest tick of those that it has applied and that its log
// has; one that is overwritten does not count.
func TestRetimeComing(t *testing.T) {
	m, l := raised(t, Config{Lease: 6 * tick20, Tick: tick20})
	m.cut[3] = true
	for i, tick := range []time.Duration{3 * tick20, tick20 / 2} {
		if err := l.Retime(Timing{Tick: tick, Lease: -1}, uint64(10+i)); err != nil {
			t.Fatal(err)
		}
	}
	l.Process()
	for _, msg := range l.out {
		if msg.GetTo() == 2 {
			m.posts[2].Step(msg)
		}
	}
	m.posts[2].Process()
	if f := m.posts[2]; f.TickTime() != 3*tick20 || f.Timing().Tick != tick20 || !f.Timing().Agreed {
		t.Errorf("%v, %+v", f.TickTime(), f.Timing())
	}
	l.out, m.posts[2].out = nil, nil
	m.cut[1], m.cut[2], m.cut[3] = true, false, false
	f := m.posts[2]
	f.foresee([]*pb.Entry{{Index: new(f.timing.coming[1].at)}}, false)
	if f.TickTime() != 3*tick20 || len(f.timing.coming) != 1 {
		t.Errorf("the second is overwritten: %v", f.TickTime())
	}
	f.foresee(nil, true)
	if f.TickTime() != tick20 || f.Timing().Agreed || !f.Leases() {
		t.Errorf("both are overwritten: %v", f.TickTime())
	}
}

// TestHead: what is no head of a snapshot is refused.
func TestHead(t *testing.T) {
	want := agreed{7, tick20, time.Second}
	b := appendHead(nil, map[uint64]string{3: "c"}, want)
	members, got, rest, ok := parseHead(append(b, 9))
	if !ok || got != want || len(rest) != 1 || len(members) != 1 || members[3] != "c" {
		t.Error(members, got, rest, ok)
	}
	for _, a := range []agreed{{7, 0, 0}, {7, kv.MaxTick + 1, 0}, {7, tick20, -1}} {
		if _, _, _, ok := parseHead(appendHead(nil, nil, a)); ok {
			t.Error(a)
		}
	}
	if _, _, _, ok := parseHead(appendMembers(nil, map[uint64]string{0: "a"})); ok {
		t.Error("an address of replica 0")
	}
}
