package wal

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// TestVolatile: synced bytes are there after a power failure, whatever became of the rest.
func TestVolatile(t *testing.T) {
	lost, torn, whole := 0, 0, 0
	for range 100 {
		path := t.TempDir()
		d, _, err := OpenVolatile(path, me)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Save(&Record{Hard: hard(1, 1), Entries: []*pb.Entry{entry(2, 1, "a")}}); err != nil {
			t.Fatal(err)
		}
		good := d.end.Load()
		more := AppendRecord(nil, me, good, &Record{Entries: []*pb.Entry{entry(3, 1, "b")}})
		if _, err := d.file.WriteAt(more, good); err != nil { // and the power fails
			t.Fatal(err)
		}
		st, err := os.Stat(filepath.Join(path, logName))
		if err != nil {
			t.Fatal(err)
		}
		switch st.Size() - good {
		case 0:
			lost++
		case int64(len(more)):
			whole++
		default:
			torn++
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d, s, err := Open(path, me)
		if err != nil || text(s) != "a" && text(s) != "ab" {
			t.Fatalf("%q, %v", text(s), err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if lost == 0 || torn == 0 || whole == 0 {
		t.Errorf("of the write that was not synced: %d lost, %d torn, %d whole", lost, torn, whole)
	}
}

// TestVolatileNames: a new name may be lost until its folder is synced, and then it is not.
func TestVolatileNames(t *testing.T) {
	early := 0
	for range 100 {
		d, path := &volatileDisk{}, t.TempDir()
		from, to := filepath.Join(path, "from"), filepath.Join(path, "to")
		if err := os.WriteFile(from, []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.rename(from, to); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(to); err == nil {
			early++
		}
		if err := d.syncDir(path); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(to); err != nil || !bytes.Equal(b, []byte("new")) {
			t.Fatalf("%q, %v", b, err)
		}
	}
	if early == 0 || early == 100 {
		t.Errorf("%d of 100 names were there before the sync", early)
	}
}
