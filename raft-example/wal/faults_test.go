package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

var errDisk = errors.New("the disk is broken")

// brokenDisk is the system's disk, of which one operation fails. A write that fails has written a
// half.
type brokenDisk struct {
	system
	at, count int
}

func (d *brokenDisk) next() error {
	d.count++
	if d.count-1 == d.at {
		return errDisk
	}
	return nil
}

func (d *brokenDisk) open(name string, flag int) (file, error) {
	if err := d.next(); err != nil {
		return nil, err
	}
	f, err := d.system.open(name, flag)
	return &brokenFile{f, d}, err
}

func (d *brokenDisk) rename(from, to string) error {
	if err := d.next(); err != nil {
		return err
	}
	return d.system.rename(from, to)
}

func (d *brokenDisk) syncDir(path string) error {
	return errors.Join(d.next(), d.system.syncDir(path))
}

type brokenFile struct {
	file
	d *brokenDisk
}

func (f *brokenFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.d.next(); err != nil {
		n, _ := f.file.WriteAt(b[:len(b)/2], at)
		return n, err
	}
	return f.file.WriteAt(b, at)
}

func (f *brokenFile) Truncate(size int64) error {
	if err := f.d.next(); err != nil {
		return err
	}
	return f.file.Truncate(size)
}

func (f *brokenFile) Sync() error  { return errors.Join(f.d.next(), f.file.Sync()) }
func (f *brokenFile) Close() error { return errors.Join(f.d.next(), f.file.Close()) }

func snapAt(index uint64) *pb.Snapshot {
	return &pb.Snapshot{Data: []byte("state"), Metadata: &pb.SnapshotMetadata{Index: &index,
		Term: new(uint64(1)), ConfState: &pb.ConfState{Voters: []uint64{1}}}}
}

// life is what is done with a log, step by step; each gets the folder's Dir and returns it.
func life(path string, on disk) []func(d *Dir) (*Dir, error) {
	open := func(*Dir) (*Dir, error) {
		d, _, err := open(path, me, on)
		return d, err
	}
	save := func(index uint64, data string) func(d *Dir) (*Dir, error) {
		return func(d *Dir) (*Dir, error) {
			return d, d.Save(&Record{Hard: hard(1, index-1), Entries: []*pb.Entry{entry(index, 1, data)}})
		}
	}
	return []func(d *Dir) (*Dir, error){
		open, save(2, "a"), save(3, "b"),
		func(d *Dir) (*Dir, error) { return d, d.SavePeers(map[uint64]uint64{1: 11}) },
		func(d *Dir) (*Dir, error) { return d, d.Probe() },
		func(d *Dir) (*Dir, error) { return d, prepare(d, snapAt(2)) },
		func(d *Dir) (*Dir, error) {
			return d, d.Install(Own, snapAt(2).GetMetadata(), hard(1, 2), []*pb.Entry{entry(3, 1, "b")})
		},
		save(4, "c"),
		func(d *Dir) (*Dir, error) { return d, compact(d, snapAt(4), hard(1, 4), nil) },
		save(5, "d"),
		func(d *Dir) (*Dir, error) { return d, d.Raise(1) },
		func(d *Dir) (*Dir, error) { return d, d.Close() },
		func(d *Dir) (*Dir, error) { // the power fails while one more record is written
			b, err := os.ReadFile(filepath.Join(path, logName))
			if err == nil {
				err = os.WriteFile(filepath.Join(path, logName), append(b, "torn"...), 0o600)
			}
			return d, err
		},
		open, save(6, "e"),
		func(d *Dir) (*Dir, error) { return d, d.Close() },
		func(d *Dir) (*Dir, error) { // ... and now between the two steps of a compaction
			b, err := AppendSnapshot(nil, me, snapAt(5))
			if err == nil {
				err = os.WriteFile(filepath.Join(path, snapName), b, 0o600)
			}
			return d, err
		},
		open, save(7, "f"),
		func(d *Dir) (*Dir, error) { return d, d.Close() },
	}
}

// content is what a folder holds for one that opens it. The commit index may be that of before: a
// snapshot tells a later one.
func content(path string) string {
	d, s, err := Open(path, me)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("format %d: %q behind %d, peers %v, term %d, %v", d.ID().Format, text(s),
		s.Snapshot.GetMetadata().GetIndex(), s.Peers, s.Hard.GetTerm(), d.Close())
}

// TestDiskFails: whichever operation of the disk fails, the call says so, and the folder holds what
// it held before the call or what it should hold after it.
func TestDiskFails(t *testing.T) {
	want := []string{content(t.TempDir())}
	steps := len(life("", system{}))
	for k := range steps {
		path := t.TempDir()
		var d *Dir
		for i, step := range life(path, system{}) {
			var err error
			if d, err = step(d); err != nil {
				t.Fatal(i, err)
			}
			if i == k {
				break
			}
		}
		_ = d.Close() // the last step has, or content could not open it
		want = append(want, content(path))
	}
	if last := want[steps]; last != `format 1: "ef" behind 5, peers map[1:11], term 1, <nil>` {
		t.Fatal(last)
	}
	failed := 0
	for at := 0; failed == at; at++ {
		path, on := t.TempDir(), &brokenDisk{at: at}
		var d *Dir
		for i, step := range life(path, on) {
			was := d
			var err error
			d, err = step(d)
			if on.count <= at {
				if err != nil {
					t.Fatal(i, err)
				}
				continue
			}
			failed++
			if !errors.Is(err, errDisk) {
				t.Errorf("operation %d, in step %d, failed, and the call says %v", at, i, err)
			}
			on.at = -1
			for _, d := range []*Dir{was, d} {
				if d != nil {
					_ = d.Close()
				}
			}
			if got := content(path); got != want[i] && got != want[i+1] {
				t.Errorf("operation %d, in step %d, failed: the log has\n%s, want\n%s or\n%s", at, i, got,
					want[i], want[i+1])
			}
			break
		}
	}
	if failed < 50 {
		t.Errorf("%d operations were broken", failed)
	}
}

// TestSyncDir: what cannot be opened is not synced.
func TestSyncDir(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("folders cannot be synced there")
	}
	path := t.TempDir()
	if err := syncDir(filepath.Join(path, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := syncDir(path); err != nil {
		t.Error(err)
	}
}

// TestFolderNotSynced: a folder whose name may be lost again holds no log.
func TestFolderNotSynced(t *testing.T) {
	was := syncDir
	defer func() { syncDir = was }()
	path := filepath.Join(t.TempDir(), "a")
	syncDir = func(string) error { return errDisk }
	if _, _, err := Open(path, me); !errors.Is(err, errDisk) {
		t.Error(err)
	}
}

// TestVolatileFails: the disk that forgets says what the system says.
func TestVolatileFails(t *testing.T) {
	path := t.TempDir()
	d := &volatileDisk{}
	err := d.rename(filepath.Join(path, "missing"), filepath.Join(path, "to"))
	if err = errors.Join(err, d.syncDir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is missing has a new name: %v", err)
	}
	name := filepath.Join(path, "file")
	if err := os.WriteFile(name, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name) // to be read only
	if err != nil {
		t.Fatal(err)
	}
	v := &volatileFile{f: f, writes: []pending{{[]byte("a"), 0}}}
	if v.Sync() == nil || v.Truncate(3) == nil {
		t.Error("what cannot be written is synced")
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if _, err := d.open(filepath.Join(path, "no", "folder"), os.O_RDWR); err == nil {
		t.Error("a file in no folder is open")
	}
}

// TestVolatileTruncate: what is cut off is gone, and writes of before come before it. A write may
// have a byte, or none.
func TestVolatileTruncate(t *testing.T) {
	d, name := &volatileDisk{}, filepath.Join(t.TempDir(), "file")
	f, err := d.open(name, os.O_RDWR|os.O_CREATE)
	for range 100 {
		for at, b := range []string{"a", "b", "c", ""} {
			_, e := f.WriteAt([]byte(b), int64(at))
			err = errors.Join(err, e)
		}
		err = errors.Join(err, f.Truncate(2))
		if b, e := os.ReadFile(name); e != nil || string(b) != "ab" {
			t.Fatalf("%q, %v", b, e)
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Error(err)
	}
}
