package replica

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// wire is a host whose messages wait in a buffer as bytes.
type wire struct {
	sent     [4][]byte // by receiver
	answered int
}

func (w *wire) Send(m *pb.Message) {
	w.sent[m.GetTo()] = AppendMessage(w.sent[m.GetTo()], m)
}

func (w *wire) Answer(_ uint64, a *kv.Answer)                    { w.answered++ }
func (w *wire) Save(*pb.HardState, []*pb.Entry, *pb.Snapshot)    {}
func (w *wire) Compact(*pb.Snapshot, *pb.HardState, []*pb.Entry) {}
func (w *wire) SendSnapshot(*pb.Message, *kv.Saver)              {}
func (w *wire) Prepare(*pb.Snapshot, *kv.Saver)                  {}
func (w *wire) Durable() bool                                    { return false }

// trio is three replicas whose messages are carried by hand.
type trio struct {
	wires [4]*wire
	reps  [4]*Replica
	parse [4]Parser // as each node has one
}

func newTrio(tb testing.TB) *trio {
	tb.Helper()
	t := &trio{}
	members := map[uint64]string{1: "1", 2: "2", 3: "3"}
	for id := uint64(1); id <= 3; id++ {
		t.wires[id] = &wire{}
		r, err := New(Config{Cluster: 1, ID: id, CommitDelay: 1}, t.wires[id], Boot(members), 0)
		if err != nil {
			tb.Fatal(err)
		}
		t.reps[id] = r
	}
	t.reps[1].Campaign()
	for range 10 {
		for id := 1; id <= 3; id++ {
			t.reps[id].Process()
			for from := 1; from <= 3; from++ {
				t.deliver(from, id)
			}
		}
	}
	if !t.reps[1].Leads() {
		tb.Fatal("no leader")
	}
	return t
}

// deliver gives a replica what another one has sent to it.
func (t *trio) deliver(from, to int) {
	b := t.wires[from].sent[to]
	for len(b) > 0 {
		m, rest, err := t.parse[to].Parse(b)
		if err != nil {
			panic(err)
		}
		t.reps[to].Step(m)
		b = rest
	}
	t.wires[from].sent[to] = t.wires[from].sent[to][:0]
}

// parts are the times of what a PUT makes replicas do, by node's steps. The first three come one
// after the other between the client's request and its answer: the rest can overlap with packets
// on their way. Another follower's answer comes when the client has its own.
type parts struct{ propose, append, ack, rest, late time.Duration }

// put does n PUTs of one pass.
func (t *trio) put(cmd []byte, n int, p *parts) {
	took := func(to *time.Duration, f func()) {
		begin := monotime.Now()
		f()
		*to += monotime.Now().Sub(begin)
	}
	took(&p.propose, func() {
		for range n {
			t.reps[1].Propose(cmd, 1)
		}
		t.reps[1].Quick()
	})
	took(&p.append, func() { t.deliver(1, 2); t.reps[2].Quick() })
	took(&p.rest, t.reps[1].Process)
	t.reps[2].Process()
	took(&p.ack, func() { t.deliver(2, 1); t.reps[1].Quick() })
	took(&p.rest, t.reps[1].Process)
	t.deliver(1, 3)
	t.reps[3].Quick()
	t.reps[3].Process()
	took(&p.late, func() { t.deliver(3, 1); t.reps[1].Quick(); t.reps[1].Process() })
}

// BenchmarkPut measures the cost of Raft and the store on the three replicas together, with
// everything in the cache; path-ns of it are in the way of the answer, and the leader has rest-ns
// more to do.
func BenchmarkPut(b *testing.B) { benchPut(b, 1) }

// BenchmarkPuts is the same for 64 PUTs that come in one pass, all together.
func BenchmarkPuts(b *testing.B) { benchPut(b, 64) }

func benchPut(b *testing.B, n int) {
	t := newTrio(b)
	b.ReportAllocs()
	cmd := kv.Command{Op: kv.Put, Session: 1, Seq: 1}
	cmd.Key, _ = kv.MakeKey("key")
	cmd.Value, _ = kv.MakeValue(make([]byte, kv.MaxValue))
	data := cmd.Append(nil)
	var p parts
	for b.Loop() {
		t.put(data, n, &p)
	}
	for unit, d := range map[string]time.Duration{"propose-ns/op": p.propose, "append-ns/op": p.append,
		"ack-ns/op": p.ack, "path-ns/op": p.propose + p.append + p.ack, "rest-ns/op": p.rest,
		"late-ns/op": p.late} {
		b.ReportMetric(float64(d)/float64(b.N), unit)
	}
	if t.wires[1].answered != b.N*n {
		b.Errorf("%d of %d answered", t.wires[1].answered, b.N)
	}
}
