package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// TestRecordTypes: entries of each type, with data and without, come back as they were.
func TestRecordTypes(t *testing.T) {
	want := []*pb.Entry{}
	for i, typ := range []pb.EntryType{pb.EntryNormal, pb.EntryConfChange, pb.EntryConfChangeV2} {
		for j, data := range []string{"", "12345678", "x", ""} {
			e := entry(uint64(4*i+j+2), 1, data)
			if e.Type = typ.Enum(); data == "" {
				e.Data = nil
			}
			want = append(want, e)
			for _, list := range [][]*pb.Entry{want, {want[0]}, want[:1:1]} {
				log := NewLog(me)
				log = AppendRecord(log, me, int64(len(log)), &Record{Entries: list})
				s, err := Load(log, nil, me)
				if err != nil || len(s.Entries) != len(list) {
					t.Fatalf("%d of %d entries, %v", len(s.Entries), len(list), err)
				}
				for k, got := range s.Entries {
					if !proto.Equal(got, list[k]) {
						t.Errorf("%v, want %v", got, list[k])
					}
				}
			}
		}
	}
}

// TestRecordBounds: a record whose checksum is right and whose sizes or types are not is damage.
func TestRecordBounds(t *testing.T) {
	const at = headerSize + frameSize + fixedSize // of the entry
	for name, c := range map[string]struct {
		change func(b []byte)
		ok     bool
	}{
		"as it was":       {func([]byte) {}, true},
		"a longer entry":  {func(b []byte) { b[at+4]++ }, false},
		"much longer":     {func(b []byte) { b[at+4] += entrySize }, false},
		"a shorter entry": {func(b []byte) { b[at+4]-- }, false},
		"one more":        {func(b []byte) { b[headerSize+frameSize+4]++ }, false},
		"one less":        {func(b []byte) { b[headerSize+frameSize+4]-- }, false},
		"another type":    {func(b []byte) { b[at] = 3 }, false},
		"a negative type": {func(b []byte) { b[at+3] = 0x80 }, false},
		"another flag":    {func(b []byte) { b[headerSize+frameSize] |= 4 }, false},
	} {
		log := NewLog(me)
		log = AppendRecord(log, me, int64(len(log)), &Record{Hard: hard(1, 1),
			Entries: []*pb.Entry{entry(2, 1, "12345678")}})
		c.change(log)
		size := binary.LittleEndian.Uint32(log[headerSize+4:])
		payload := log[headerSize+frameSize:][:size]
		binary.LittleEndian.PutUint32(log[headerSize+8:], checksum(me, headerSize, payload))
		if s, err := Load(log, nil, me); (err == nil) != c.ok || !c.ok && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %q, %v", name, text(s), err)
		}
	}
}

// TestSnapshotCut: a part of a snapshot file is none.
func TestSnapshotCut(t *testing.T) {
	b, err := AppendSnapshot(nil, me, snapAt(2))
	if err != nil {
		t.Fatal(err)
	}
	for n := range b {
		_, err := verify(bytes.NewReader(b[:n]), me)
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
			t.Errorf("%d of %d bytes: %v", n, len(b), err)
		}
	}
}

// watchedDisk counts the syncs of files, and knows the most that was written without one.
type watchedDisk struct {
	system
	syncs, since, most int
}

func (d *watchedDisk) open(name string, flag int) (file, error) {
	f, err := d.system.open(name, flag)
	return watchedFile{f, d}, err
}

type watchedFile struct {
	file
	d *watchedDisk
}

func (f watchedFile) WriteAt(b []byte, at int64) (int, error) {
	f.d.since += len(b)
	f.d.most = max(f.d.most, f.d.since)
	return f.file.WriteAt(b, at)
}

func (f watchedFile) Sync() error {
	f.d.syncs, f.d.since = f.d.syncs+1, 0
	return f.file.Sync()
}

// TestLargeSnapshot: a large snapshot is synced piece by piece, so that no sync of the log waits
// for all of it; a small one once.
func TestLargeSnapshot(t *testing.T) {
	for _, c := range []struct{ size, syncs int }{{10, 1}, {writtenAtOnce - 1000, 1},
		{writtenAtOnce, 2}, {2*writtenAtOnce + 5, 3}} {
		path, on := t.TempDir(), &watchedDisk{}
		d, _, err := open(path, me, on)
		if err != nil {
			t.Fatal(err)
		}
		s := snapAt(2)
		s.Data = make([]byte, c.size)
		s.Data[c.size-1] = 7
		*on = watchedDisk{}
		if err := prepare(d, s); err != nil {
			t.Fatal(err)
		}
		if on.syncs != c.syncs || on.most > writtenAtOnce+headerSize+1000 || on.since != 0 {
			t.Errorf("%d bytes: %+v", c.size, *on)
		}
		got, err := d.Snapshot(2)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(got)
		if err != nil || !bytes.Equal(b, s.Data) || !proto.Equal(got.Meta, s.Metadata) {
			t.Errorf("%d bytes do not come back: %v", c.size, err)
		}
		if err := errors.Join(got.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNewerFormat: a folder of a later format is refused by its number, whichever of its files says
// so, and nothing in it changes.
func TestNewerFormat(t *testing.T) {
	for _, file := range []string{logName, peersName, snapName} {
		dir := t.TempDir()
		d, _, err := Open(dir, me)
		if err != nil {
			t.Fatal(err)
		}
		meta := &pb.SnapshotMetadata{Index: new(uint64(1)), Term: new(uint64(1))}
		err = errors.Join(compact(d, &pb.Snapshot{Metadata: meta}, nil, nil),
			d.SavePeers(map[uint64]uint64{2: 3}), d.Close())
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, file)
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		binary.LittleEndian.PutUint32(b[8:], 1+Format+7)
		binary.LittleEndian.PutUint32(b[40:], crc32.Checksum(b[:40], castagnoli))
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err = Open(dir, me)
		e, ok := errors.AsType[*FormatError](err)
		text := fmt.Sprintf("is of format %d, and this program knows 0 to %d", Format+7, Format)
		if !ok || e.Format != Format+7 || !errors.Is(err, ErrVersion) ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", file, err)
		}
		if after, err := os.ReadFile(name); err != nil || !bytes.Equal(after, b) {
			t.Errorf("%s has changed, %v", file, err)
		}
	}
}
