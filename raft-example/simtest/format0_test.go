package simtest

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/raft-example/wal"
	pb "go.etcd.io/raft/v3/raftpb"
)

// format0File has the bytes of forms, one a line. It was written by this test, with -write, in a
// tree of commit 4085675.
const format0File = "testdata/format0.txt"

var writeForms = flag.Bool("write", false, "have TestFormat0 write "+format0File)

// form is one thing that a program of format 0 writes, and what this program makes of its bytes.
type form struct {
	name  string
	bytes []byte
	again func(b []byte) ([]byte, error) // read, and written again
}

// commands are one of each operation, as far as format 0 has it.
func commands() (list []kv.Command) {
	key, _ := kv.MakeKey("key")
	value, _ := kv.MakeValue("value")
	old, _ := kv.MakeValue("old")
	return []kv.Command{{Op: kv.Open, Cluster: 1, Session: 7},
		{Op: kv.Get, Cluster: 1, Key: key, Anywhere: true},
		{Op: kv.Put, Cluster: 1, Session: 2, Seq: 1, Key: key, Value: value},
		{Op: kv.Delete, Cluster: 1, Session: 2, Seq: 2, Key: key},
		{Op: kv.CAS, Cluster: 1, Session: 2, Seq: 3, Key: key, Value: value, Absent: true},
		{Op: kv.CAS, Cluster: 1, Session: 2, Seq: 4, Key: key, Value: value, Old: old},
		{Op: kv.Clock, Cluster: 1, Seq: 10000}}
}

// entries are those of a log: each command alone, all writes in one, and a leader's empty one.
func entries() (list []*pb.Entry) {
	var run []byte
	add := func(data []byte) {
		list = append(list, &pb.Entry{Type: pb.EntryNormal.Enum(), Term: new(uint64(3)),
			Index: new(uint64(len(list) + 2)), Data: data})
	}
	for _, c := range commands() {
		if b := c.Append(nil); c.Op != kv.Get {
			add(b)
			if kv.Whole(b) {
				run = append(run, b...)
			}
		}
	}
	add(run)
	add(nil)
	return list
}

// forms are all that a program writes for others, or for its next start.
func forms() (list []form) {
	for i, c := range commands() {
		list = append(list, form{fmt.Sprintf("command %d, %v", i, c.Op), c.Append(nil),
			func(b []byte) ([]byte, error) {
				c, err := kv.ParseCommand(b)
				return c.Append(nil), err
			}})
	}
	value, _ := kv.MakeValue("value")
	answer := kv.Answer{Status: kv.Mismatch, Found: true, Number: 9, Value: value}
	list = append(list, form{"answer", answer.Append(nil), func(b []byte) ([]byte, error) {
		a, err := kv.ParseAnswer(b)
		return a.Append(nil), err
	}})
	store := kv.NewStore()
	for _, e := range entries()[:2] { // a session and a key: more have no order
		store.Apply(2, e.Data)
	}
	store.Apply(5, entries()[5].Data)
	snapshot, _ := io.ReadAll(store.Save(nil))
	list = append(list, form{"snapshot", snapshot, func(b []byte) ([]byte, error) {
		s, err := kv.Load(b)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(s.Save(nil))
	}})
	start := replica.Boot(map[uint64]string{1: "host:1", 2: "host:2"}).Snapshot
	list = append(list, form{"boot", start.GetData(), nil})
	list = append(list, walForms(start)...)
	members := node.Members{Cluster: 1, Index: 5, Addrs: []string{"host:1", "host:2"}}
	list = append(list, form{"members", members.Append(nil), func(b []byte) ([]byte, error) {
		m, err := node.ParseMembers(b)
		return m.Append(nil), err
	}})
	return append(list, messageForms()...)
}

// walForms are the files of a folder.
func walForms(start *pb.Snapshot) []form {
	id := wal.Identity{Cluster: 1, Replica: 2, Log: 3}
	log := wal.NewLog(id)
	hard := &pb.HardState{Term: new(uint64(3)), Vote: new(uint64(1)), Commit: new(uint64(4))}
	log = wal.AppendRecord(log, id, int64(len(log)), &wal.Record{Reset: start.GetMetadata()})
	log = wal.AppendRecord(log, id, int64(len(log)), &wal.Record{Hard: hard, Entries: entries()})
	file, err := wal.AppendSnapshot(nil, id, start)
	if err != nil {
		panic(err)
	}
	return []form{{"log", log, func(b []byte) ([]byte, error) {
		s, err := wal.Load(b, bytes.NewReader(file), id)
		b = wal.NewLog(s.ID)
		b = wal.AppendRecord(b, id, int64(len(b)), &wal.Record{Reset: s.Snapshot.GetMetadata()})
		return wal.AppendRecord(b, id, int64(len(b)), &wal.Record{Hard: s.Hard, Entries: s.Entries}), err
	}}, {"snapshot file", file, func(b []byte) ([]byte, error) {
		s, err := wal.Load(log, bytes.NewReader(b), id)
		if err != nil {
			return nil, err
		}
		if s.Snapshot.Data, err = io.ReadAll(s.State); err != nil {
			return nil, err
		}
		return wal.AppendSnapshot(nil, s.ID, s.Snapshot)
	}}, {"peers", wal.AppendPeers(nil, id, map[uint64]uint64{1: 11, 3: 33}),
		func(b []byte) ([]byte, error) {
			p, err := wal.ParsePeers(b, id)
			return wal.AppendPeers(nil, id, p), err
		}}}
}

// messageForms are messages of all types that replicas send each other, with all fields.
func messageForms() (list []form) {
	for _, t := range []pb.MessageType{pb.MsgApp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp,
		pb.MsgPreVote, pb.MsgPreVoteResp, pb.MsgHeartbeat, pb.MsgHeartbeatResp, pb.MsgTimeoutNow,
		pb.MsgReadIndex, pb.MsgReadIndexResp} {
		m := &pb.Message{Type: t.Enum(), To: new(uint64(1)), From: new(uint64(2)), Term: new(uint64(3)),
			LogTerm: new(uint64(2)), Index: new(uint64(1)), Commit: new(uint64(5)), Vote: new(uint64(1)),
			Reject: new(t == pb.MsgAppResp), RejectHint: new(uint64(6)), Context: []byte("context")}
		switch t {
		case pb.MsgApp:
			m.Entries = entries()
		case pb.MsgReadIndex, pb.MsgReadIndexResp:
			m.Entries = []*pb.Entry{{Data: []byte("0123456789abcdef")}}
		}
		list = append(list, form{"message " + t.String(), replica.AppendMessage(nil, m),
			func(b []byte) ([]byte, error) {
				m, _, err := replica.ParseMessage(b)
				if err != nil {
					return nil, err
				}
				return replica.AppendMessage(nil, m), nil
			}})
	}
	return list
}

// TestFormat0: this program writes the very bytes of commit 4085675, and reads them.
func TestFormat0(t *testing.T) {
	list := forms()
	var text strings.Builder
	for _, f := range list {
		fmt.Fprintf(&text, "%s: %x\n", f.name, f.bytes)
	}
	if *writeForms {
		if err := os.WriteFile(format0File, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(format0File)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(golden)), "\n")
	if len(lines) != len(list) {
		t.Fatalf("%d forms, want %d", len(lines), len(list))
	}
	for i, f := range list {
		name, digits, _ := strings.Cut(lines[i], ": ")
		want, err := hex.DecodeString(digits)
		if err != nil || name != f.name {
			t.Fatalf("line %d: %v, of %s", i+1, err, name)
		}
		if !bytes.Equal(f.bytes, want) {
			t.Errorf("%s: %x, and 4085675 writes %x", f.name, f.bytes, want)
		}
		if f.again == nil {
			continue
		}
		if got, err := f.again(want); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %x is read as %x, %v", f.name, want, got, err)
		}
	}
}
