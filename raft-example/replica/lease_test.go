package replica

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

const tick20 = 20 * time.Millisecond // the default tick: a lease is at most 180 ms

// ask reads the key at a replica and returns whether it was served without a message.
func (m *mesh) atOnce(p *post, tag uint64) bool {
	m.t.Helper()
	if _, ok := p.Read(theKey(), true, tag); !ok {
		m.t.Fatal("not taken")
	}
	p.Now(m.now)
	p.Process()
	_, ok := p.answers[tag]
	return ok
}

func leasedMesh(t *testing.T) (*mesh, *post) {
	m := newMesh(t, Config{Lease: 100 * time.Millisecond}, 1, 2, 3)
	if l := m.posts[1]; m.atOnce(l, 1) {
		t.Fatal("a read without a lease did not wait")
	}
	m.settle()
	if !m.atOnce(m.posts[1], 2) {
		t.Fatal("a read under a lease was not served at once")
	}
	return m, m.posts[1]
}

// TestLease: it lasts as long as it shall from the begin of the round, reads renew it, and
// without an answer of a quorum it ends.
func TestLease(t *testing.T) {
	m, l := leasedMesh(t)
	for i := range uint64(30) { // longer than an election timeout; each read finds it in force
		m.pass(tick20)
		if !m.atOnce(l, 100+i) {
			t.Fatalf("read %d had to wait", i)
		}
		m.settle()
	}
	m.cut[1] = true
	m.now = m.now.Add(99 * time.Millisecond)
	if !m.atOnce(l, 200) {
		t.Error("the lease ended too early")
	}
	m.now = m.now.Add(time.Millisecond)
	if m.atOnce(l, 201) {
		t.Error("the lease did not end")
	}
}

// TestNoLease: without a lease each read waits for a round, also when the clock is before its zero.
func TestNoLease(t *testing.T) {
	for _, lease := range []time.Duration{0, 100 * time.Millisecond} {
		m := newMesh(t, Config{Lease: lease}, 1, 2, 3)
		m.now = -monotime.Time(time.Hour)
		m.pass(tick20)
		m.settle()
		if l := m.posts[1]; !l.Leads() || m.atOnce(l, 1) {
			t.Errorf("lease %v: a read did not wait, or the leader has gone", lease)
		}
	}
}

// TestLeaseNeedsTime: a read that comes after the time was told does not count as under it.
func TestLeaseNeedsTime(t *testing.T) {
	_, l := leasedMesh(t)
	l.Read(theKey(), false, 5)
	l.Process()
	if _, ok := l.answers[5]; ok {
		t.Error("served with the time of before it came")
	}
}

// TestLeaseVoid: a transfer, a change of membership, and a clock that goes back end it.
func TestLeaseVoid(t *testing.T) {
	for name, end := range map[string]func(*mesh, *post){
		"clock": func(m *mesh, _ *post) { m.now -= 1 },
		"transfer": func(m *mesh, l *post) {
			m.cut[1] = true
			l.Transfer(2)
			m.settle()
		},
		"change": func(m *mesh, l *post) {
			if err := l.Change(Learner, 4, "d", 9); err != nil {
				m.t.Fatal(err)
			}
			for _, ok := l.answers[9]; !ok; _, ok = l.answers[9] {
				m.carry()
			}
		},
	} {
		m, l := leasedMesh(t)
		end(m, l)
		if m.atOnce(l, 3) {
			t.Errorf("%s: the lease goes on", name)
		}
	}
}

// TestTransferEndsLeases: after a transfer was begun its term has no lease, however late the order
// for an election comes.
func TestTransferEndsLeases(t *testing.T) {
	m, l := leasedMesh(t)
	m.cut[2] = true
	l.Transfer(2)
	m.settle()
	m.cut[2] = false
	m.pass(15 * tick20) // raft has given the transfer up
	if !l.Leads() {
		t.Fatal("the leader has gone")
	}
	for i := range uint64(3) {
		if m.atOnce(l, 10+i) {
			t.Error("a lease in a term with a transfer")
		}
		m.settle()
	}
}

// TestRestartedIsSilent: a replica that starts again votes for nobody for an election timeout,
// except by order of a leader.
func TestRestartedIsSilent(t *testing.T) {
	m := newMesh(t, Config{Lease: 100 * time.Millisecond}, 1, 2, 3)
	start := Boot(map[uint64]string{1: "a", 2: "a", 3: "a"})
	start.Hard = &pb.HardState{Term: new(uint64(1)), Vote: new(uint64(0)), Commit: new(uint64(1))}
	p := m.add(2, start)
	vote := func(context string) int {
		typ := pb.MsgVote
		p.Step(&pb.Message{Type: &typ, To: new(uint64(2)), From: new(uint64(3)), Term: new(uint64(9)),
			LogTerm: new(uint64(8)), Index: new(uint64(50)), Context: []byte(context)})
		p.out = nil
		p.Process()
		return len(p.out)
	}
	if vote("") != 0 {
		t.Error("it voted right after its start")
	}
	for range 9 {
		m.now = m.now.Add(tick20)
		p.Tick(m.now)
	}
	if vote("") != 0 {
		t.Error("it voted after 9 ticks")
	}
	m.now = m.now.Add(tick20)
	p.Tick(m.now)
	if vote("") == 0 {
		t.Error("it does not vote after an election timeout")
	}
	p = m.add(2, start)
	if vote(string(transfer)) == 0 {
		t.Error("it does not vote by order of the leader")
	}
}

// TestLeaseConfig: one that is longer than what followers keep is refused.
func TestLeaseConfig(t *testing.T) {
	for lease, ok := range map[time.Duration]bool{9 * tick20: true, 9*tick20 + 1: false, -1: false} {
		_, err := Config{ID: 1, Lease: lease}.fill()
		if (err == nil) != ok || err != nil && !errors.Is(err, ErrConfig) {
			t.Errorf("lease %v: %v", lease, err)
		}
	}
}

// TestFollowerReads: a follower serves a read when it has applied what the leader had committed
// then; without the leader the client is told to ask again.
func TestFollowerReads(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l, f := m.posts[1], m.posts[2]
	l.Propose(putBytes(m.session(l), 1, "v"), 7)
	m.settle()
	if a, ok := f.Read(theKey(), false, 1); ok || a.Status != kv.NotLeader {
		t.Errorf("a follower took a read for the leader: %+v", a)
	}
	if m.atOnce(f, 2) {
		t.Error("served without the leader")
	}
	m.settle()
	if a := f.answers[2]; a.Status != kv.OK || a.Value.String() != "v" {
		t.Errorf("%+v", a)
	}
	m.cut[1] = true
	m.atOnce(f, 3)
	m.pass(8 * tick20)
	if a := f.answers[3]; a.Status != kv.Retry {
		t.Errorf("without a leader: %+v", a)
	}
	if got := f.Status().Reads.Followed; got != 1 {
		t.Errorf("%d reads", got)
	}
}

// TestForeignRound: the answer to a question of an earlier start counts for nothing.
func TestForeignRound(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	f := m.posts[2]
	m.cut[2] = true
	m.atOnce(f, 1)
	m.settle()
	typ := pb.MsgReadIndexResp
	foreign := "\x09" + strings.Repeat("\x00", 7) + "\x01" + strings.Repeat("\x00", 7)
	for _, ctx := range []string{"", "12345678", foreign} {
		f.Step(&pb.Message{Type: &typ, To: new(uint64(2)), From: new(uint64(1)),
			Term:  new(f.Status().Term),
			Index: new(uint64(1)), Entries: []*pb.Entry{{Data: []byte(ctx)}}})
		f.Process()
	}
	if a, ok := f.answers[1]; ok {
		t.Errorf("served: %+v", a)
	}
}

// TestReadAlone: the only voter knows what is committed when it has committed an entry of its own
// term. Until then its log may have writes that were acknowledged and that it does not know to be
// committed, so reads wait, those of a learner, too.
func TestReadAlone(t *testing.T) {
	m := newMesh(t, Config{}, 1)
	session := kv.Command{Op: kv.Open, Cluster: 1}
	start := Boot(map[uint64]string{1: "a"})
	start.Hard = &pb.HardState{Term: new(uint64(1)), Vote: new(uint64(1)), Commit: new(uint64(1))}
	for i, data := range [][]byte{session.Append(nil), putBytes(2, 1, "v")} {
		start.Entries = append(start.Entries, &pb.Entry{Term: new(uint64(1)), Data: data,
			Type: pb.EntryNormal.Enum(), Index: new(uint64(2 + i))})
	}
	p := &post{answers: map[uint64]kv.Answer{}, durable: true}
	var err error
	if p.Replica, err = New(Config{Cluster: 1, ID: 1}, p, start, m.now); err != nil {
		t.Fatal(err)
	}
	for !p.Leads() {
		m.now = m.now.Add(tick20)
		p.Tick(m.now)
		p.Process()
		if !p.Leads() {
			p.Saved(nil)
			p.Process()
		}
	}
	if !p.Saving() {
		t.Fatal("its first entry is durable")
	}
	typ := pb.MsgReadIndex
	p.Step(&pb.Message{Type: &typ, To: new(uint64(1)), From: new(uint64(2)), Term: new(p.term),
		Entries: []*pb.Entry{{Data: []byte("0123456789abcdef")}}})
	if m.atOnce(p, 7) || len(p.out) > 0 {
		t.Errorf("answered before it knows what is committed: %+v, %v", p.answers[7], p.out)
	}
	for p.Saving() {
		p.Saved(nil)
		p.Process()
	}
	if a := p.answers[7]; a.Status != kv.OK || a.Value.String() != "v" {
		t.Errorf("%+v", a)
	}
}
