package wal

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// filled is a folder with a log of two records, closed.
func filled(t *testing.T) (path string) {
	t.Helper()
	path = t.TempDir()
	d, _, err := Open(path, me)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(2) {
		if err := d.Save(&Record{Hard: hard(1, i),
			Entries: []*pb.Entry{entry(2+i, 1, "data")}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func edit(t *testing.T, name string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, f(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamagedLastRecord: a last record that was synced and is bad is damage; without knowledge of
// the sync it is a torn one.
func TestDamagedLastRecord(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"flipped": func(b []byte) []byte { b[len(b)-9] ^= 1; return b },
		"cut":     func(b []byte) []byte { return b[:len(b)-8] },
		"zeroes":  func(b []byte) []byte { clear(b[len(b)-60:]); return b },
	} {
		path := filled(t)
		edit(t, filepath.Join(path, logName), damage)
		if _, _, err := Open(path, me); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		edit(t, filepath.Join(path, markName), func(b []byte) []byte { b[8] ^= 1; return b })
		d, s, err := Open(path, me)
		if err != nil || text(s) != "data" || s.Cut == 0 {
			t.Fatalf("%s, the mark is bad, too: %v, %+v", name, err, s)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if d, _, err = Open(path, me); err != nil { // the mark is right again
			t.Fatal(name, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDamagedFirstRecord: a log of one record, as it begins and as each compaction leaves it, that
// was synced: whatever is damaged or lost of it is noticed.
func TestDamagedFirstRecord(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		path := t.TempDir()
		d, _, err := Open(path, me)
		if err == nil {
			err = d.Save(&Record{Hard: hard(1, 1), Entries: []*pb.Entry{entry(2, 1, "data")}})
		}
		if err == nil && compacted {
			err = compact(d, snapAt(2), hard(1, 2), []*pb.Entry{entry(3, 1, "more")})
		}
		if err = errors.Join(err, d.Close()); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(path, logName)
		log, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		check := func(what string, at int, bad []byte) {
			t.Helper()
			if err := os.WriteFile(name, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			d, s, err := Open(path, me)
			if err == nil {
				err = d.Close()
				if text(s) == "data" && !compacted || text(s) == "more" && compacted {
					return // filling bytes do not matter
				}
			}
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("compacted %v: %s %d: %q, %v", compacted, what, at, text(s), err)
			}
		}
		for i := headerSize; i < len(log); i++ {
			bad := bytes.Clone(log)
			bad[i] ^= 0x10
			check("damaged at", i, bad)
			check("cut to", i, log[:i])
			clear(bad[i:])
			check("zeroes from", i, bad)
		}
	}
}

// TestNewLogOldMark: a log that is new has nothing to do with the mark of one that was taken away.
func TestNewLogOldMark(t *testing.T) {
	path := filled(t)
	if err := os.Remove(filepath.Join(path, logName)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		d, s, err := Open(path, me)
		if err != nil || text(s) != "" {
			t.Fatalf("%q, %v", text(s), err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMarkedAgain: after a power failure that took the mark a log is marked when it is opened.
func TestMarkedAgain(t *testing.T) {
	path := filled(t)
	if err := os.Remove(filepath.Join(path, markName)); err != nil {
		t.Fatal(err)
	}
	d, _, err := Open(path, me)
	if err == nil {
		err = d.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(path, logName), func(b []byte) []byte { b[len(b)-9] ^= 1; return b })
	if _, _, err := Open(path, me); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

// TestOldMark: a mark of an earlier log, or of earlier than the last sync, refuses nothing.
func TestOldMark(t *testing.T) {
	path := filled(t)
	mark, err := os.ReadFile(filepath.Join(path, markName))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		d, _, err := Open(path, me)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Save(&Record{Hard: hard(3, 3)}); err != nil {
			t.Fatal(err)
		}
		snap := &pb.Snapshot{Data: []byte("x"), Metadata: &pb.SnapshotMetadata{Index: new(uint64(3)),
			Term: new(uint64(1)), ConfState: &pb.ConfState{}}}
		if err := errors.Join(prepare(d, snap), d.Install(Own, snap.GetMetadata(), hard(3, 3), nil),
			d.Close()); err != nil {
			t.Fatal(err)
		}
		// As a power failure may leave it.
		edit(t, filepath.Join(path, markName), func([]byte) []byte { return mark })
	}
}

// TestScrub: damage on the disk is found while the log is in use, also in the snapshot.
func TestScrub(t *testing.T) {
	for _, name := range []string{logName, snapName} {
		path := filled(t)
		d, _, err := Open(path, me)
		if err != nil {
			t.Fatal(err)
		}
		snap := &pb.Snapshot{Data: bytes.Repeat([]byte("x"), 1000),
			Metadata: &pb.SnapshotMetadata{Index: new(uint64(2)), Term: new(uint64(1)),
				ConfState: &pb.ConfState{}}}
		if err := compact(d, snap, hard(1, 1), []*pb.Entry{entry(3, 1, "data")}); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			var err error
			for range 20 {
				err = errors.Join(err, d.Scrub())
			}
			done <- err
		}()
		for i := range uint64(20) { // at the same time
			err = errors.Join(err, d.Save(&Record{Entries: []*pb.Entry{entry(4+i, 1, "more")}}))
			if i == 10 {
				err = errors.Join(err, prepare(d, snap), d.Install(Own, snap.GetMetadata(), hard(1, 1),
					[]*pb.Entry{entry(3, 1, "data")}))
			}
		}
		if err := errors.Join(err, <-done, d.Scrub()); err != nil {
			t.Errorf("nothing is damaged: %v", err)
		}
		edit(t, filepath.Join(path, name), func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
		if err := d.Scrub(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s is damaged: %v", name, err)
		}
		edit(t, filepath.Join(path, name), func(b []byte) []byte { return b[:60] })
		if err := d.Scrub(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s is cut: %v", name, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestFoldersSynced: the name of each folder that is made is durable in the one above.
func TestFoldersSynced(t *testing.T) {
	was := syncDir
	defer func() { syncDir = was }()
	var synced []string
	syncDir = func(path string) error {
		synced = append(synced, path)
		return was(path)
	}
	base := t.TempDir()
	path := filepath.Join(base, "a", "b")
	d, _, err := Open(path, me)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if want := []string{base, filepath.Join(base, "a"), path}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
}

// TestPeers: the identities of others are kept; a damaged list is refused.
func TestPeers(t *testing.T) {
	path := filled(t)
	d, s, err := Open(path, me)
	if err != nil || len(s.Peers) != 0 {
		t.Fatal(err, s.Peers)
	}
	want := map[uint64]uint64{1: 11, 9: 99}
	if err := errors.Join(d.SavePeers(map[uint64]uint64{1: 11}), d.SavePeers(want),
		d.Close()); err != nil {
		t.Fatal(err)
	}
	if d, s, err = Open(path, me); err != nil || !maps.Equal(s.Peers, want) {
		t.Fatal(err, s.Peers)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	b := AppendPeers(nil, me, want)
	for i := range len(b) * 8 {
		bad := bytes.Clone(b)
		bad[i/8] ^= 1 << (i % 8)
		if got, err := ParsePeers(bad, me); err == nil && !maps.Equal(got, want) {
			t.Errorf("bit %d: %v", i, got)
		}
	}
	for n := range b {
		if _, err := ParsePeers(b[:n], me); err == nil {
			t.Errorf("%d of %d bytes are taken", n, len(b))
		}
	}
}
