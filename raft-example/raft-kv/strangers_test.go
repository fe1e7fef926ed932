package main

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// madeUpTerm is the least of what strangers send: no real term comes near.
const madeUpTerm = 1000

// stranger is a client that passes for a member.
type stranger struct {
	r     *rand.Rand
	terms map[uint64]report // what it knows of the cluster, by replica
}

// header is that of a message: of a member or a made-up one, to a replica, with any verdict.
func (s *stranger) header(from, to uint64) []byte {
	verdicts := []uint64{0, 0, 0, 1, 2, 3, 4, 5, 6, 7, s.r.Uint64()}
	logs := []uint64{0, 1, s.r.Uint64()}
	b := binary.LittleEndian.AppendUint64(nil, verdicts[s.r.IntN(len(verdicts))])
	for _, v := range []uint64{5, from, to, logs[s.r.IntN(len(logs))]} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// message is one of Raft's, of a type that replicas send each other, or a piece of a snapshot.
func (s *stranger) message(from, to uint64) (typ uint8, b []byte) {
	term, index := uint64(madeUpTerm+s.r.IntN(9)), s.terms[to].Last
	types := []pb.MessageType{pb.MsgApp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp, pb.MsgPreVote,
		pb.MsgPreVoteResp, pb.MsgHeartbeat, pb.MsgHeartbeatResp, pb.MsgTimeoutNow}
	m := &pb.Message{Type: types[s.r.IntN(len(types))].Enum(), To: &to, From: &from, Term: &term,
		Index: &index, LogTerm: new(s.terms[to].Term), Commit: &index}
	b = s.header(from, to)
	if m.GetType() == pb.MsgApp {
		c := kv.Command{Op: kv.Open, Cluster: 5}
		m.Entries = []*pb.Entry{{Type: pb.EntryNormal.Enum(), Index: new(index + 1), Term: &term,
			Data: c.Append(nil)}}
		m.Commit = new(index + 1)
	}
	if s.r.IntN(4) > 0 {
		return node.TypeRaft, replica.AppendMessage(b, m)
	}
	m.Type, m.Entries = pb.MsgSnap.Enum(), nil
	m.Snapshot = &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(index + 99), Term: &term,
		ConfState: &pb.ConfState{Voters: []uint64{from, to}}}}
	head, _ := proto.Marshal(m)
	data := []byte("no snapshot")
	for _, v := range []uint64{s.r.Uint64(), uint64(len(data)), 0, uint64(len(head))} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return node.TypeSnap, append(append(b, head...), data...)
}

// request is any request to a replica.
func (s *stranger) request(to uint64) (typ uint8, b []byte) {
	from := []uint64{1, 2, 3, 4, 9, s.r.Uint64()}[s.r.IntN(6)]
	switch s.r.IntN(4) {
	case 0: // every type, any bytes
		b = make([]byte, s.r.IntN(200))
		for i := range b {
			b[i] = byte(s.r.Uint32())
		}
		return uint8(s.r.IntN(12)), b
	case 1: // 40 bytes
		return []uint8{node.TypeRaft, node.TypeSnap}[s.r.IntN(2)], s.header(from, to)
	}
	return s.message(from, to)
}

// attack sends a replica so many requests, and does not care for the answers.
func (s *stranger) attack(ctx context.Context, t *testing.T, net *netFlags, at report, n int) {
	t.Helper()
	tr, err := net.listen("")
	if err != nil {
		t.Fatal(err)
	}
	cfg := erpc.Config{NoHugepages: true}
	net.Apply(&cfg)
	c, err := erpc.Dial(ctx, tr, at.Addr, cfg)
	if err != nil {
		t.Fatalf("replica %d: %v", at.ID, err)
	}
	defer c.Close()
	for i := range n {
		typ, b := s.request(at.ID)
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := c.Call(short, typ, b)
		if cancel(); errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("replica %d, request %d: %v", at.ID, i, err)
		}
	}
}

// startFleet starts replicas until the test ends, and returns a client.
func startFleet(t *testing.T, f *fleet, cf *clientFlags) *client.Blocking {
	t.Helper()
	if err := f.startAll(); err != nil {
		t.Fatal(err)
	}
	cf.Servers = strings.Join(f.addrs(), ",")
	c, err := cf.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		for _, m := range f.children {
			m.stop()
		}
	})
	return c
}

// withstand starts three replicas, durable ones if asked for, and has strangers attack them: nobody
// ends, no term changes, and nothing of theirs is applied.
func withstand(t *testing.T, f *fleet, net netFlags) {
	t.Helper()
	ctx := testContext(t)
	cf := clientFlags{netFlags: net, Timeout: 60 * time.Second}
	c := startFleet(t, f, &cf)
	value := func(text string) {
		t.Helper()
		if err := c.Put(ctx, "k", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	value("before")
	list, err := statuses(ctx, c, f.addrs())
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &stranger{rand.New(rand.NewPCG(seed, 45)), map[uint64]report{}}
	for _, r := range list {
		s.terms[r.ID] = r
	}
	for _, r := range list {
		s.attack(ctx, t, &net, r, 500)
	}
	for _, m := range f.children {
		select {
		case <-m.ended:
			t.Fatalf("replica %d has ended: %s", m.id, m.text())
		default:
		}
	}
	value("after")
	if list, err = statuses(ctx, c, f.addrs()); err != nil {
		t.Fatal(err)
	}
	for i, r := range list {
		if r.ID == 0 || r.Err != "" || r.Term >= madeUpTerm || len(r.Members) != 3 || r.Sessions > 1 {
			t.Errorf("%+v\n%s", r, f.children[i].text())
		}
	}
	if v, _, err := c.Get(ctx, "k"); err != nil || string(v) != "after" {
		t.Errorf("%q, %v", v, err)
	}
}

// TestStrangers: clients that pass for members end nobody and change nothing, with plain packets.
func TestStrangers(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		addrs, err := freeAddrs(3)
		if err != nil {
			t.Fatal(err)
		}
		net := netFlags{Transport: "udp", Cluster: 5}
		f, err := newFleet(net, 3, dir, testTick, addrs)
		if err != nil {
			t.Fatal(err)
		}
		withstand(t, f, net)
	}
}
