package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// state is a Source of bytes.
type state struct{ *bytes.Reader }

func (s state) Size() uint64 { return uint64(s.Reader.Size()) }

func stateIn(s *pb.Snapshot) state { return state{bytes.NewReader(s.GetData())} }

// prepare writes a snapshot as this replica's own.
func prepare(d *Dir, s *pb.Snapshot) error { return d.Copy(Own, s.GetMetadata(), stateIn(s)) }

// compact writes and installs one of the leader.
func compact(d *Dir, s *pb.Snapshot, hard *pb.HardState, entries []*pb.Entry) error {
	if err := d.Copy(Leader, s.GetMetadata(), stateIn(s)); err != nil {
		return err
	}
	return d.Install(Leader, s.GetMetadata(), hard, entries)
}

// stateOf reads the state that was opened with a log, and closes it.
func stateOf(t *testing.T, s State) string {
	t.Helper()
	b, err := io.ReadAll(s.State)
	if err = errors.Join(err, s.State.Close(), s.State.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestSnapshotBytes: a file that is written in pieces of any size is that of the whole snapshot,
// and is read in pieces of any size.
func TestSnapshotBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	d, _, err := Open(t.TempDir(), me)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 1, 127, 128, 100_000} {
		s := snapAt(uint64(size + 7))
		s.Data = make([]byte, size)
		for i := range s.Data {
			s.Data[i] = byte(r.Uint32())
		}
		want, err := AppendSnapshot(nil, d.ID(), s)
		if err != nil {
			t.Fatal(err)
		}
		w, err := d.Prepare(Leader, uint64(size))
		for rest := s.Data; err == nil && len(rest) > 0; {
			n := min(len(rest), r.IntN(30_000))
			_, err = w.Write(rest[:n])
			rest = rest[n:]
		}
		if err = errors.Join(err, w.Commit(s.Metadata)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(d.name(snapName + preparedNames[Leader]))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %v, the file is not that of a whole snapshot", size, err)
		}
		// As an older program reads it.
		old := &pb.Snapshot{}
		if err := proto.Unmarshal(got[headerSize:len(got)-4], old); err != nil || !proto.Equal(old, s) {
			t.Errorf("%d bytes: not a raftpb.Snapshot: %v", size, err)
		}
		f, err := ReadSnapshot(bytes.NewReader(got), me)
		if err != nil || f.Size() != uint64(size) || !proto.Equal(f.Meta, s.Metadata) {
			t.Fatal(err)
		}
		var read []byte
		for err == nil {
			p := make([]byte, 1+r.IntN(30_000))
			var n int
			n, err = f.Read(p)
			read = append(read, p[:n]...)
		}
		if err != io.EOF || !bytes.Equal(read, s.Data) {
			t.Errorf("%d bytes: read as %d, %v", size, len(read), err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestSnapshotFlips: each bit of a snapshot file that is another one is noticed.
func TestSnapshotFlips(t *testing.T) {
	for _, data := range []string{"", "state"} {
		s := snapAt(5)
		s.Data = []byte(data)
		b, err := AppendSnapshot(nil, me, s)
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(b) * 8 {
			bad := bytes.Clone(b)
			bad[i/8] ^= 1 << (i % 8)
			if at := i / 8; at >= 44 && at < headerSize {
				continue // nobody reads these
			}
			_, err := verify(bytes.NewReader(bad), me)
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrForeign) {
				t.Errorf("bit %d: %v", i, err)
			}
		}
	}
}

// TestWrongSize: a state of another size than was said is no snapshot, and leaves no file; nor does
// one that is given up. What is not prepared is not installed, and the snapshot that is there
// stays.
func TestWrongSize(t *testing.T) {
	path := t.TempDir()
	d, _, err := Open(path, me)
	if err == nil {
		err = compact(d, snapAt(3), hard(1, 3), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Origin{Own, Leader} {
		for _, size := range []uint64{4, 6, 1 << 40} {
			s := snapAt(9)
			if err := d.Copy(o, s.Metadata, said{stateIn(s), size}); !errors.Is(err, errSize) {
				t.Errorf("%d bytes where 5 are said: %v", size, err)
			}
			if err := d.Install(o, s.Metadata, hard(1, 9), nil); err == nil {
				t.Error("it is installed")
			}
			if _, err := os.Stat(d.name(snapName + preparedNames[o])); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file is left: %v", err)
			}
		}
	}
	if err := prepare(d, snapAt(4)); err != nil {
		t.Fatal(err)
	}
	w, err := d.Prepare(Own, 5) // in the place of that
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Install(Own, snapAt(4).Metadata, hard(1, 4), nil); err == nil {
		t.Error("a snapshot that is not whole is installed")
	}
	if n, err := w.Write(make([]byte, 6)); n != 0 || !errors.Is(err, errSize) {
		t.Errorf("%d of more bytes than were said are written: %v", n, err)
	}
	if err := errors.Join(w.Abort(), prepare(d, snapAt(4))); err != nil { // the process ends then
		t.Fatal(err)
	}
	if err := errors.Join(d.Close()); err != nil {
		t.Fatal(err)
	}
	d, st, err := Open(path, me)
	if err != nil || st.Snapshot.GetMetadata().GetIndex() != 3 || stateOf(t, st) != "state" {
		t.Fatal(err, st)
	}
	if err := d.Install(Own, snapAt(4).Metadata, hard(1, 4), nil); err == nil {
		t.Error("what an earlier process has prepared is installed")
	}
	if err := errors.Join(d.Clean(), d.Clean()); err != nil {
		t.Error(err)
	}
	list, err := filepath.Glob(filepath.Join(path, snapName+"*"))
	if err != nil || len(list) != 1 {
		t.Errorf("the folder has %v, %v", list, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// said is a state that says another size.
type said struct {
	state
	size uint64
}

func (s said) Size() uint64 { return s.size }

// TestSnapshotOpen: the snapshot of an index is read as it was, while others take its place: what
// is prepared, and what is installed.
func TestSnapshotOpen(t *testing.T) {
	d, _, err := Open(t.TempDir(), me)
	if err != nil {
		t.Fatal(err)
	}
	var open []*Snapshot
	look := func(index uint64) {
		t.Helper()
		s, err := d.Snapshot(index)
		if err != nil || s.Meta.GetIndex() != index {
			t.Fatalf("the snapshot at %d: %v", index, err)
		}
		open = append(open, s)
	}
	for i := range uint64(3) {
		s := snapAt(i + 5)
		s.Data = fmt.Append(nil, "state ", s.Metadata.GetIndex())
		if err := prepare(d, s); err != nil {
			t.Fatal(err)
		}
		look(i + 5)
		if err := d.Install(Own, s.Metadata, hard(1, i+5), nil); err != nil {
			t.Fatal(err)
		}
		look(i + 5)
		if s, err := d.Snapshot(i + 4); err == nil {
			t.Errorf("the snapshot at %d is that at %d", i+4, s.Meta.GetIndex())
		}
	}
	for _, s := range open {
		b, err := io.ReadAll(s)
		if want := fmt.Sprint("state ", s.Meta.GetIndex()); string(b) != want || err != nil {
			t.Errorf("%q, %v, want %q", b, err, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
