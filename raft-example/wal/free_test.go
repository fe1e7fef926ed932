package wal

import (
	"errors"
	"io"
	"os"
	"runtime"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// freed is a file that notes how it is freed.
type freed struct {
	file
	t      *testing.T
	size   int64
	synced int64
	closed bool
}

func (f *freed) Truncate(size int64) error {
	if f.size = size; f.synced-f.size > freedAtOnce {
		f.t.Errorf("%d bytes are freed in one commit", f.synced-f.size)
	}
	return nil
}

func (f *freed) Sync() error {
	f.synced = f.size
	return nil
}

func (f *freed) Close() error {
	f.closed = true
	return nil
}

// TestFree: a file is freed in steps, each in a commit of its own.
func TestFree(t *testing.T) {
	for _, size := range []int64{0, 1, freedAtOnce, freedAtOnce + 1, 5*freedAtOnce - 1} {
		f := &freed{t: t, size: size, synced: size}
		if err := free(f, size); err != nil || !f.closed || f.synced > freedAtOnce {
			t.Errorf("of %d bytes %d are freed when it is closed: %v", size, f.synced, err)
		}
	}
}

// TestReplacedFreed: what a new snapshot and its log replace is freed in steps, unless somebody
// reads it, who then frees it, or has a link to it.
func TestReplacedFreed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be replaced there")
	}
	d, _, err := Open(t.TempDir(), me)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	watch := func(name string) *os.File {
		t.Helper()
		f, err := os.Open(d.name(name))
		check(err)
		return f
	}
	length := func(f *os.File) int64 {
		t.Helper()
		st, err := f.Stat()
		check(err)
		return st.Size()
	}
	large := func(index uint64) *pb.Snapshot {
		s := snapAt(index)
		s.Data = make([]byte, freedAtOnce+1<<20)
		return s
	}
	next := func(index uint64) {
		t.Helper()
		check(compact(d, large(index), hard(1, index), []*pb.Entry{entry(index+1, 1,
			string(make([]byte, freedAtOnce+1)))}))
		d.side.Wait()
	}
	next(5)
	first, log := watch(snapName), watch(logName)
	read, err := d.Snapshot(5)
	check(err)
	check(d.Scrub()) // leaves it, too
	next(6)
	second := watch(snapName)
	if size := length(log); size > freedAtOnce {
		t.Errorf("the old log has %d bytes", size)
	}
	if b, err := io.ReadAll(read); err != nil || len(b) != freedAtOnce+1<<20 {
		t.Errorf("%d bytes of a snapshot that was replaced: %v", len(b), err)
	}
	check(read.Close())
	if size := length(first); size > freedAtOnce {
		t.Errorf("a snapshot that was replaced and read has %d bytes", size)
	}
	third := watch(logName)
	cold, end, err := d.forScrub()
	check(err)
	next(7)
	if b, err := d.readCold(cold, end); err != nil || len(b) <= freedAtOnce {
		t.Errorf("%d bytes of a log that was replaced: %v", len(b), err)
	}
	if size := length(third); size > freedAtOnce {
		t.Errorf("a log that was replaced and read has %d bytes", size)
	}
	check(errors.Join(third.Close(), os.Link(d.name(snapName), d.name("copy")),
		os.Link(d.name(logName), d.name("copied log"))))
	if size := length(second); size > freedAtOnce {
		t.Errorf("a snapshot that was replaced has %d bytes", size)
	}
	next(8)
	for _, name := range []string{"copy", "copied log"} {
		f := watch(name)
		if size := length(f); size <= freedAtOnce {
			t.Errorf("%s by a link has %d bytes", name, size)
		}
		check(f.Close())
	}
	check(errors.Join(d.Close(), first.Close(), second.Close(), log.Close()))
}
