package wal

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// versionOf is what a file's header says, which commit 4085675 compares with 1.
func versionOf(t *testing.T, dir, file string) uint32 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return binary.LittleEndian.Uint32(b[8:])
}

// TestRaise: a folder is of format 0 until it is raised; then the log says so at once, the other
// files with their next writing, and nothing of the log is lost. Its format never falls.
func TestRaise(t *testing.T) {
	dir := t.TempDir()
	d, _, err := Open(dir, me)
	if err != nil {
		t.Fatal(err)
	}
	peers := map[uint64]uint64{2: 3}
	err = errors.Join(compact(d, snapAt(1), nil, nil), d.SavePeers(peers),
		d.Save(&Record{Hard: hard(1, 1), Entries: []*pb.Entry{entry(2, 1, "a")}}))
	if err != nil {
		t.Fatal(err)
	}
	files := func() (list [3]uint32) {
		for i, f := range []string{logName, snapName, peersName} {
			list[i] = versionOf(t, dir, f)
		}
		return list
	}
	if got := files(); got != [3]uint32{1, 1, 1} || d.ID().Format != 0 {
		t.Fatalf("a new folder: %v, format %d", got, d.ID().Format)
	}
	if err := errors.Join(d.Raise(1), d.Raise(0), d.Raise(1)); err != nil {
		t.Fatal(err)
	}
	var newer *FormatError
	if err := d.Raise(Format + 1); !errors.As(err, &newer) || d.ID().Format != 1 {
		t.Errorf("to a format that this program does not know: %v", err)
	}
	if got := files(); got != [3]uint32{2, 1, 1} {
		t.Errorf("raised: %v", got)
	}
	err = errors.Join(d.Scrub(), d.SavePeers(peers),
		d.Save(&Record{Hard: hard(1, 2), Entries: []*pb.Entry{entry(3, 1, "b")}}), d.Close())
	if err != nil {
		t.Fatal(err)
	}
	d, s, err := Open(dir, me)
	if err != nil || text(s) != "ab" || s.Peers[2] != 3 || d.ID().Format != 1 {
		t.Fatalf("%v, %+v", err, s)
	}
	if err := errors.Join(compact(d, snapAt(3), hard(1, 3), nil), d.Close()); err != nil {
		t.Fatal(err)
	}
	if got := files(); got != [3]uint32{2, 2, 2} {
		t.Errorf("after a compaction: %v", got)
	}
}

// TestRaisedSnapshot: a crash between the two steps of a compaction leaves a log of an older format
// beside the leader's snapshot. The folder is of the snapshot's.
func TestRaisedSnapshot(t *testing.T) {
	dir := t.TempDir()
	d, _, err := Open(dir, me)
	if err != nil {
		t.Fatal(err)
	}
	raised := d.ID()
	raised.Format = 1
	b, err := AppendSnapshot(nil, raised, snapAt(5))
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, snapName), b, 0o600), d.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if d, _, err = Open(dir, me); err != nil || d.ID().Format != 1 || versionOf(t, dir, logName) != 2 {
		t.Errorf("%v, version %d", err, versionOf(t, dir, logName))
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
