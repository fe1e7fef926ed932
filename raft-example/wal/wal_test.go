package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

var me = Identity{Cluster: 1, Replica: 2, Log: 3}

func entry(index, term uint64, data string) *pb.Entry {
	return &pb.Entry{Type: pb.EntryNormal.Enum(), Index: new(index), Term: new(term),
		Data: []byte(data)}
}

func hard(term, commit uint64) *pb.HardState {
	return &pb.HardState{Term: new(term), Vote: new(uint64(1)), Commit: new(commit)}
}

// sample is a log with three records, and where each begins.
func sample() (log []byte, at []int) {
	log = NewLog(me)
	for _, r := range []Record{
		{Hard: hard(1, 0), Entries: []*pb.Entry{entry(2, 1, "a"), entry(3, 1, "b")}},
		{Entries: []*pb.Entry{entry(4, 1, "c")}},
		{Hard: hard(2, 3), Entries: []*pb.Entry{entry(4, 2, "d"), entry(5, 2, "e")}},
	} {
		at = append(at, len(log))
		log = AppendRecord(log, me, int64(len(log)), &r)
	}
	return log, at
}

func text(s State) (t string) {
	for _, e := range s.Entries {
		t += string(e.Data)
	}
	return t
}

// TestLoad: later entries take the place of earlier ones.
func TestLoad(t *testing.T) {
	log, _ := sample()
	s, err := Load(log, nil, me)
	if err != nil || text(s) != "abde" || s.Hard.GetTerm() != 2 || s.Hard.GetCommit() != 3 ||
		s.Good != int64(len(log)) || s.Cut != 0 {
		t.Errorf("%v: %q %+v", err, text(s), s)
	}
}

// FuzzLoad: a record with the right checksum may hold anything, and bytes behind it, too:
// what is taken can be written anew and is the same then.
func FuzzLoad(f *testing.F) {
	log, at := sample()
	f.Add(log[at[0]+frameSize:at[1]], []byte{})
	f.Add(log[at[1]+frameSize:at[2]], log[at[2]:])
	f.Fuzz(func(t *testing.T, payload, tail []byte) {
		b := NewLog(me)
		frame := binary.LittleEndian.AppendUint32(nil, recMagic)
		frame = binary.LittleEndian.AppendUint32(frame, uint32(len(payload)))
		frame = binary.LittleEndian.AppendUint32(frame, checksum(me, int64(len(b)), payload))
		b = append(append(b, append(frame, 0, 0, 0, 0)...), payload...)
		b = append(b, make([]byte, -len(payload)&7)...)
		s, err := Load(append(b, tail...), nil, me)
		if err != nil || len(s.Entries) == 0 {
			return
		}
		again, err := Load(AppendRecord(NewLog(me), me, int64(headerSize),
			&Record{Hard: s.Hard, Entries: s.Entries}), nil, me)
		if err != nil || text(again) != text(s) || len(again.Entries) != len(s.Entries) ||
			!proto.Equal(again.Hard, s.Hard) {
			t.Errorf("%+v is loaded as %+v, %v", s, again, err)
		}
	})
}

// TestTorn: whatever part of the last record is there, it is cut off, and the rest holds.
func TestTorn(t *testing.T) {
	log, at := sample()
	for n := at[2]; n < len(log); n++ {
		s, err := Load(log[:n], nil, me)
		if err != nil || text(s) != "abc" || s.Good != int64(at[2]) || s.Cut != int64(n-at[2]) {
			t.Fatalf("cut at %d: %v: %q", n, err, text(s))
		}
	}
	for i := at[2]; i < len(log); i++ {
		bad := append([]byte(nil), log...)
		bad[i] ^= 0x10
		// Filling bytes do not matter.
		if s, err := Load(bad, nil, me); err != nil || text(s) != "abc" && text(s) != "abde" {
			t.Fatalf("last record damaged at %d: %v: %q", i, err, text(s))
		}
	}
}

// TestDamaged: a bad record before a valid one is an error, and so is a foreign log.
func TestDamaged(t *testing.T) {
	log, at := sample()
	for i := at[0]; i < at[2]; i++ {
		bad := append([]byte(nil), log...)
		bad[i] ^= 0x10
		s, err := Load(bad, nil, me)
		if !errors.Is(err, ErrCorrupt) && (err != nil || text(s) != "abde") {
			t.Fatalf("damaged at %d: %v", i, err)
		}
	}
	for i := range headerSize - 4 {
		bad := append([]byte(nil), log...)
		bad[i] ^= 0x10
		if _, err := Load(bad, nil, me); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
			t.Fatalf("header damaged at %d: %v", i, err)
		}
	}
	if _, err := Load(log, nil, Identity{Cluster: 1, Replica: 3}); !errors.Is(err, ErrForeign) {
		t.Error(err)
	}
	// A valid record of another log, or from another place, is none.
	other := Identity{Cluster: 1, Replica: 2, Log: 4}
	foreign := append(NewLog(other), log[headerSize:]...)
	if s, err := Load(foreign, nil, me); !errors.Is(err, ErrForeign) || text(s) != "" {
		t.Error(err)
	}
	twice := append(append([]byte(nil), log...), log[at[1]:at[2]]...)
	if s, err := Load(twice, nil, me); err != nil ||
		text(s) != "abde" || s.Cut == 0 {
		t.Error(err, text(s))
	}
}

// TestDir: a saved record is there after the folder is opened again, also after a compaction and a
// torn record.
func TestDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	d, s, err := Open(dir, me)
	if err != nil || len(s.Entries) != 0 {
		t.Fatal(err)
	}
	conf := &pb.ConfState{Voters: []uint64{1}}
	save := func(r Record) {
		t.Helper()
		if err := d.Save(&r); err != nil {
			t.Fatal(err)
		}
	}
	save(Record{Hard: hard(1, 0), Entries: []*pb.Entry{entry(2, 1, "a"), entry(3, 1, "b")}})
	snap := &pb.Snapshot{Data: []byte("state"), Metadata: &pb.SnapshotMetadata{
		Index: new(uint64(2)), Term: new(uint64(1)), ConfState: conf}}
	if err := compact(d, snap, hard(1, 2), []*pb.Entry{entry(3, 1, "b")}); err != nil {
		t.Fatal(err)
	}
	save(Record{Entries: []*pb.Entry{entry(4, 1, "c")}})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, logName), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("torn"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time nothing is left to be cut
		if d, s, err = Open(dir, me); err != nil || text(s) != "bc" ||
			stateOf(t, s) != "state" || s.ID != me {
			t.Fatalf("%v: %q %+v", err, text(s), s)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := Open(dir, Identity{Cluster: 9, Replica: 2}); !errors.Is(err, ErrForeign) {
		t.Error(err)
	}
	// A crash between the two steps: the snapshot is newer than the log.
	snap.Metadata.Index = new(uint64(9))
	b, err := AppendSnapshot(nil, me, snap)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, snapName), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if d, s, err = Open(dir, me); err != nil || len(s.Entries) != 0 {
		t.Fatal(err, text(s))
	}
	save(Record{Entries: []*pb.Entry{entry(10, 2, "z")}})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, s, err = Open(dir, me); err != nil || text(s) != "z" {
		t.Fatal(err, text(s))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, logName)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir, me); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

// TestSecondOpen: a folder has one user at a time, and a second one changes nothing in it.
func TestSecondOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	d, _, err := Open(dir, me)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Save(&Record{Entries: []*pb.Entry{entry(1, 1, "a")}}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []Identity{me, {Cluster: 9, Replica: 2}} { // before the log is looked at
		_, _, err := Open(dir, id)
		if pid := fmt.Sprintf("process %d ", os.Getpid()); !errors.Is(err, ErrInUse) ||
			!strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), pid) {
			t.Errorf("opened twice: %v", err)
		}
	}
	if err := d.Save(&Record{Entries: []*pb.Entry{entry(2, 1, "b")}}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir, Identity{Cluster: 9, Replica: 2}); !errors.Is(err, ErrForeign) {
		t.Errorf("opened by another replica: %v", err)
	}
	d, s, err := Open(dir, me) // a failed Open has given the lock back
	if err != nil || text(s) != "ab" {
		t.Fatalf("%q, %v", text(s), err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
