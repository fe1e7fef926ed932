package replica

import (
	"io"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// post is one replica of a mesh, and what it has sent and answered.
type post struct {
	*Replica
	out     []*pb.Message
	answers map[uint64]kv.Answer
	durable bool
}

func (p *post) Send(m *pb.Message) {
	c, _, err := ParseMessage(AppendMessage(nil, m))
	if err != nil {
		panic(err)
	}
	p.out = append(p.out, c)
}

func (p *post) SendSnapshot(m *pb.Message, from *kv.Saver) {
	c := proto.Clone(m).(*pb.Message)
	c.Snapshot.Data, _ = io.ReadAll(from)
	p.out = append(p.out, c)
}

// Step takes snapshots, too.
func (p *post) Step(m *pb.Message) { give(p.Replica, m) }

// give has a replica take a message, also a snapshot with its data.
func give(r *Replica, m *pb.Message) {
	if m.GetType() != pb.MsgSnap {
		r.Step(m)
		return
	}
	l, err := readAll(newWhole(m.Snapshot.Data))
	if err != nil {
		panic(err)
	}
	r.Restore(m, l)
}

func (p *post) Answer(tag uint64, a *kv.Answer)                  { p.answers[tag] = *a }
func (p *post) Save(*pb.HardState, []*pb.Entry, *pb.Snapshot)    {}
func (p *post) Compact(*pb.Snapshot, *pb.HardState, []*pb.Entry) {}
func (p *post) Prepare(*pb.Snapshot, *kv.Saver)                  {}
func (p *post) Durable() bool                                    { return p.durable }

// mesh is replicas whose messages a test carries, and their time.
type mesh struct {
	t     *testing.T
	cfg   Config
	posts map[uint64]*post
	now   monotime.Time
	cut   map[uint64]bool // neither sends nor gets anything
	moved map[pb.MessageType]int
	snaps []*pb.Snapshot // all that were sent
	lossy bool           // none of them arrives
	after func(p *post)  // each step, if not nil
}

func newMesh(t *testing.T, cfg Config, voters ...uint64) *mesh {
	m := &mesh{t: t, cfg: cfg, posts: map[uint64]*post{}, cut: map[uint64]bool{},
		moved: map[pb.MessageType]int{}, now: monotime.Time(time.Hour)}
	members := map[uint64]string{}
	for _, id := range voters {
		members[id] = "a"
	}
	for _, id := range voters {
		m.add(id, Boot(members))
	}
	m.posts[voters[0]].Campaign()
	m.settle()
	if !m.posts[voters[0]].Leads() {
		t.Fatal("no leader")
	}
	return m
}

func (m *mesh) add(id uint64, from Start) *post {
	m.t.Helper()
	p := &post{answers: map[uint64]kv.Answer{}}
	cfg := m.cfg
	cfg.Cluster, cfg.ID, cfg.CommitDelay, cfg.Incarnation = 1, id, -1, id
	if cfg.GatherFor == 0 {
		cfg.GatherFor = -1
	}
	var err error
	if p.Replica, err = New(cfg, p, from, m.now); err != nil {
		m.t.Fatal(err)
	}
	m.posts[id] = p
	return p
}

// carry takes every message that was sent to its receiver, once, and reports whether any was.
func (m *mesh) carry() (any bool) {
	for id := uint64(1); id < 16; id++ {
		p := m.posts[id]
		if p == nil {
			continue
		}
		p.Process()
		out := p.out
		p.out = nil
		for _, msg := range out {
			any = true
			m.moved[msg.GetType()]++
			if msg.GetType() == pb.MsgSnap {
				if m.snaps = append(m.snaps, msg.GetSnapshot()); m.lossy {
					continue
				}
			}
			if to := m.posts[msg.GetTo()]; to != nil && !m.cut[id] && !m.cut[msg.GetTo()] {
				to.Step(msg)
				if m.after != nil {
					m.after(to)
				}
			}
		}
	}
	return any
}

func (m *mesh) settle() {
	for m.carry() {
	}
}

// pass lets time pass, tick after tick, with all messages carried.
func (m *mesh) pass(d time.Duration) {
	for end := m.now.Add(d); m.now < end; {
		m.now = min(end, m.now.Add(20*time.Millisecond))
		for id := uint64(1); id < 16; id++ {
			if p := m.posts[id]; p != nil {
				p.Tick(m.now)
			}
		}
		m.settle()
	}
}

// session opens one at the leader.
func (m *mesh) session(p *post) uint64 {
	m.t.Helper()
	c := kv.Command{Op: kv.Open, Cluster: 1}
	if _, ok := p.Propose(c.Append(nil), 1<<40); !ok {
		m.t.Fatal("not taken")
	}
	m.settle()
	a := p.answers[1<<40]
	if a.Status != kv.OK {
		m.t.Fatalf("%+v", a)
	}
	return a.Number
}

func putBytes(session, seq uint64, value string) []byte {
	c := kv.Command{Op: kv.Put, Cluster: 1, Session: session, Seq: seq}
	c.Key, _ = kv.MakeKey("k")
	c.Value, _ = kv.MakeValue(value)
	return c.Append(nil)
}

func theKey() kv.Key {
	k, _ := kv.MakeKey("k")
	return k
}
