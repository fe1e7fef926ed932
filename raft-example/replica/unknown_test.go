package replica

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// TestUnknownEntry: a committed entry that a replica cannot read ends it, by name and with what to
// do. What is before the entry is applied, and nothing behind it is.
func TestUnknownEntry(t *testing.T) {
	later, odd, large := putBytes(1, 2, "w"), putBytes(1, 2, "w"), putBytes(1, 2, "w")
	later[5], odd[0], large[2] = 7, 99, 17
	run := append(later[:len(later):len(later)], putBytes(1, 3, "v")...)
	get := (&kv.Command{Op: kv.Get, Key: theKey()}).Append(nil)
	for name, c := range map[string]struct {
		data []byte
		want string
		err  error
	}{
		"later format":        {later, "format 7, put", kv.ErrMalformed},
		"unknown operation":   {odd, "format 0, op(99)", kv.ErrMalformed},
		"larger key":          {large, "format 0, put", kv.ErrTooLarge},
		"a read":              {get, "format 0, get", kv.ErrMalformed},
		"a few bytes":         {[]byte("nonsense"), "format 0, op(0), 8 bytes", kv.ErrMalformed},
		"behind another":      {append(putBytes(1, 2, "v"), later...), "format 7", kv.ErrMalformed},
		"before another":      {run, "format 7", kv.ErrMalformed},
		"another type of log": {nil, "type 3", ErrRaft},
	} {
		for _, behind := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", name, behind), func(t *testing.T) {
				r := newUnknown(t, c.data, behind)
				for range 3 {
					r.Process()
				}
				err := r.Err()
				if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) ||
					!strings.Contains(err.Error(), "newer") {
					t.Errorf("it ended with %v, want %q", err, c.want)
				}
				if e, ok := errors.AsType[*kv.EntryError](err); ok == (c.data == nil) || ok && e.Index != 4 {
					t.Errorf("%#v", err)
				}
				if r.applied != 3 || r.Status().Applied != 3 {
					t.Errorf("%d is applied", r.applied)
				}
			})
		}
	}
}

// newUnknown returns a lone replica with a disk whose log has an entry 4 with these bytes, or of an
// unknown type if there are none, which is committed; and another write behind it if asked for.
func newUnknown(t *testing.T, data []byte, behind bool) *post {
	t.Helper()
	boot := Boot(map[uint64]string{1: "a"})
	open := (&kv.Command{Op: kv.Open}).Append(nil)
	put := putBytes(2, 1, "v")
	from := Start{Snapshot: boot.Snapshot,
		Entries: []*pb.Entry{entryOf(2, open), entryOf(3, put), entryOf(4, data)}}
	if data == nil {
		from.Entries[2].Type = pb.EntryType(3).Enum()
	}
	if behind {
		from.Entries = append(from.Entries, entryOf(5, putBytes(2, 9, "x")))
	}
	last := uint64(len(from.Entries) + 1)
	from.Hard = &pb.HardState{Term: new(uint64(1)), Commit: &last}
	p := &post{answers: map[uint64]kv.Answer{}, durable: true}
	var err error
	p.Replica, err = New(Config{Cluster: 1, ID: 1}, p, from, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.Campaign()
	return p
}

func entryOf(index uint64, data []byte) *pb.Entry {
	return &pb.Entry{Type: pb.EntryNormal.Enum(), Index: &index, Term: new(uint64(1)), Data: data}
}

// TestUnknownEntryEnds: replicas in memory stop at the same entry, the leader before it answers.
func TestUnknownEntryEnds(t *testing.T) {
	m := newMesh(t, Config{}, 1, 2, 3)
	l := m.posts[1]
	s := m.session(l)
	before := l.applied
	bad := putBytes(s, 1, "v")
	bad[5] = 1
	if _, ok := l.Propose(bad, 7); !ok {
		t.Fatal("not taken")
	}
	m.settle()
	if a := l.answers[7]; a.Status != kv.Retry {
		t.Errorf("it is answered with %v", a.Status)
	}
	if _, ok := errors.AsType[*kv.EntryError](l.Err()); !ok || l.applied != before {
		t.Errorf("the leader: %v, %d applied", l.Err(), l.applied)
	}
}
