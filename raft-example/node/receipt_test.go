package node_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/transport/udp"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// liar is a member that sends snapshots by hand.
type liar struct {
	t     *testing.T
	g     *group
	b     *client.Blocking
	dir   string // of the receiver, empty without a disk
	data  []byte
	id    uint64
	index uint64
}

const snapPiece = 64 << 10

func newLiar(t *testing.T, durable bool) *liar {
	t.Helper()
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	members := map[uint64]string{1: "127.0.0.1:1", 2: conn.LocalAddr().String()}
	l := &liar{t: t, index: 10}
	var files *node.Files
	l.g = startChanged(t, 1, func(cfg *node.Config) {
		cfg.Start = replica.Boot(members)
		if durable {
			l.dir = t.TempDir()
			if files, err = node.OpenFiles(l.dir, cfg, cfg.Start); err != nil {
				t.Fatal(err)
			}
			cfg.Peers = map[uint64]uint64{2: 200}
		}
	})
	if durable {
		attached := make(chan struct{})
		err := l.g.nodes[0].Rpc().Post(func(r *erpc.Rpc) {
			files.Attach(r)
			close(attached)
		})
		if err != nil {
			t.Fatal(err)
		}
		<-attached
		t.Cleanup(func() {
			l.g.close()
			l.g.nodes, l.g.nexus = nil, nil
			if err := files.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if l.b, err = client.Dial(conn, client.Config{Cluster: testCluster, Servers: l.g.addrs},
		erpc.Config{NoHugepages: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.b.Close)
	empty := replica.Boot(members).Snapshot.Data
	s := kv.NewStore()
	s.Apply(1, (&kv.Command{Op: kv.Open}).Append(nil))
	c := kv.Command{Op: kv.Put, Session: 1}
	for c.Seq = 1; c.Seq <= 5000; c.Seq++ {
		c.Key, _ = kv.MakeKey(fmt.Sprint(c.Seq))
		c.Value, _ = kv.MakeValue(strings.Repeat("v", 60))
		s.Apply(1, c.Append(nil))
	}
	head := empty[:len(empty)-36] // the members
	v := s.Save(head)
	l.data = make([]byte, v.Size())
	if n, _ := v.Read(l.data); uint64(n) != v.Size() || n < 4*snapPiece {
		t.Fatal(n)
	}
	return l
}

// message is the one of the last piece.
func (l *liar) message() *pb.Message {
	return &pb.Message{Type: pb.MsgSnap.Enum(), To: new(uint64(1)), From: new(uint64(2)),
		Term: new(uint64(5)), Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
			Index: new(l.index), Term: new(uint64(5)),
			ConfState: &pb.ConfState{Voters: []uint64{1, 2}}}}}
}

// piece sends one and returns whether it was taken.
func (l *liar) piece(total, offset uint64, m *pb.Message, data []byte) bool {
	b := make([]byte, 40, 72+len(data))
	for i, v := range []uint64{0, testCluster, 2, 1, 200} {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
	var head []byte
	if m != nil {
		head, _ = proto.Marshal(m)
	}
	for _, v := range []uint64{l.id, total, offset, uint64(len(head))} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	got, err := l.b.Call(ctx, l.g.addrs[0], node.TypeSnap, append(append(b, head...), data...))
	if err != nil || len(got) < 40 {
		l.t.Errorf("no answer: %v", err)
		return false
	}
	return binary.LittleEndian.Uint64(got) == 0
}

// send sends pieces in order, the message with the last one, and returns how many were taken.
func (l *liar) send(data []byte, m *pb.Message) (taken int) {
	l.id++
	for at := 0; at < len(data); at += snapPiece {
		end := min(at+snapPiece, len(data))
		var last *pb.Message
		if end == len(data) {
			last = m
		}
		if !l.piece(uint64(len(data)), uint64(at), last, data[at:end]) {
			return taken
		}
		taken++
	}
	return taken
}

// applied is the receiver's, when it is as large as that, or soon.
func (l *liar) applied(want uint64) (got uint64) {
	for range 200_000 { // each waits for a pass of the loop
		ch := make(chan uint64)
		err := l.g.nodes[0].Rpc().Post(func(*erpc.Rpc) {
			ch <- l.g.nodes[0].Replica().Status().Applied
		})
		if err != nil {
			l.t.Fatal(err)
		}
		if got = <-ch; got >= want {
			return got
		}
	}
	return got
}

// TestReceipt: what a member sends that is no snapshot, or not the one that it said, is refused,
// and changes nothing; a whole one that follows is taken, in order or not.
func TestReceipt(t *testing.T) {
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprint("durable=", durable), func(t *testing.T) { receipts(t, newLiar(t, durable)) })
	}
}

func receipts(t *testing.T, l *liar) {
	whole := len(l.data) / snapPiece // pieces before the last one
	change := func(do func(m *pb.Message)) *pb.Message {
		m := l.message()
		do(m)
		return m
	}
	flipped := slices.Clone(l.data)
	flipped[len(flipped)/2] ^= 1
	members := slices.Clone(l.data)
	binary.LittleEndian.PutUint32(members, 1<<31)
	for name, c := range map[string]struct {
		data []byte
		m    *pb.Message
	}{
		"a bit":         {flipped, l.message()},
		"members":       {members, l.message()},
		"cut":           {l.data[:len(l.data)-1], l.message()},
		"of another":    {l.data, change(func(m *pb.Message) { m.From = new(uint64(3)) })},
		"for another":   {l.data, change(func(m *pb.Message) { m.To = new(uint64(3)) })},
		"another type":  {l.data, change(func(m *pb.Message) { m.Type = pb.MsgApp.Enum() })},
		"data twice":    {l.data, change(func(m *pb.Message) { m.Snapshot.Data = []byte{1} })},
		"no members":    {l.data, change(func(m *pb.Message) { m.Snapshot.Metadata.ConfState = nil })},
		"no message":    {l.data, nil},
		"none":          {[]byte("x"), l.message()},
		"a little":      {l.data[:snapPiece/2], l.message()},
		"zeros":         {make([]byte, len(l.data)), l.message()},
		"an end behind": {append(slices.Clone(l.data), 1), l.message()},
	} {
		if n := l.send(c.data, c.m); n > whole {
			t.Errorf("%s: %d pieces are taken", name, n)
		}
	}
	for name, ok := range map[string]bool{
		"a message too early": l.first(l.message(), uint64(len(l.data))),
		"a size that cannot be": l.first(nil, 1<<63) &&
			l.piece(1<<62, snapPiece, nil, l.data[snapPiece:2*snapPiece]),
		"another size":    l.first(nil, 1<<40) && l.piece(1<<41, snapPiece, nil, l.data[:10]),
		"far ahead":       l.first(nil, 1<<40) && l.piece(1<<40, 100*snapPiece, nil, l.data[:10]),
		"beyond its end":  l.first(nil, snapPiece+5) && l.piece(snapPiece+5, snapPiece, nil, l.data[:6]),
		"in the past":     l.first(nil, 1<<40) && l.piece(1<<40, 0, nil, l.data[:10]),
		"not its place":   l.first(nil, 1<<40) && l.piece(1<<40, snapPiece+1, nil, l.data[:10]),
		"without a byte":  l.first(nil, 1<<40) && l.piece(1<<40, snapPiece, nil, nil),
		"a late stranger": l.piece(1<<40, 50*snapPiece, nil, l.data[:10]),
	} {
		if ok {
			t.Errorf("%s: it is taken", name)
		}
	}
	if got := l.applied(1); got != 1 {
		t.Fatalf("applied %d", got)
	}
	if l.first(nil, uint64(len(l.data))); l.send(l.data, l.message()) != whole+1 { // one is left off
		t.Error("a whole one is not taken")
	}
	if got := l.applied(l.index); got != l.index {
		t.Fatalf("applied %d, want %d", got, l.index)
	}
	l.index = 20
	l.shuffled(whole)
	if got := l.applied(l.index); got != l.index {
		t.Fatalf("applied %d, want %d", got, l.index)
	}
	if list, err := filepath.Glob(filepath.Join(l.dir, "snapshot.*")); l.dir != "" &&
		(len(list) > 0 || err != nil) {
		t.Error("left on the disk:", list, err)
	}
	if l.dir != "" {
		if _, err := os.Stat(filepath.Join(l.dir, "snapshot")); err != nil {
			t.Error(err)
		}
	}
}

// first sends the first piece of a new transfer.
func (l *liar) first(m *pb.Message, total uint64) bool {
	l.id++
	return l.piece(total, 0, m, l.data[:min(uint64(snapPiece), total)])
}

// shuffled sends a whole snapshot, whose pieces come four at a time and in no order.
func (l *liar) shuffled(whole int) {
	l.id++
	total := uint64(len(l.data))
	for at := 0; at < whole; at += 4 {
		var wg sync.WaitGroup
		for i := min(at+4, whole) - 1; i >= at; i-- {
			wg.Go(func() {
				if !l.piece(total, uint64(i*snapPiece), nil, l.data[i*snapPiece:(i+1)*snapPiece]) {
					l.t.Errorf("piece %d is refused", i)
				}
			})
		}
		wg.Wait()
	}
	if !l.piece(total, uint64(whole*snapPiece), l.message(), l.data[whole*snapPiece:]) {
		l.t.Error("the last piece is refused")
	}
}
