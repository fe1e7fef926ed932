package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync/atomic"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A snapshot file has a header and
//
//	48 the field "data" of raftpb.Snapshot · its other fields, which are few bytes · CRC-32C of these
//	bytes u32
//
// So it can be written and read in passing.

// dataField is the number of raftpb.Snapshot's field data.
const dataField = 1

// snapHead returns what precedes the state, of size bytes.
func snapHead(id Identity, size uint64) []byte {
	b := appendHeader(nil, snapMagic, id)
	b = protowire.AppendTag(b, dataField, protowire.BytesType)
	return protowire.AppendVarint(b, size)
}

// snapTail returns what follows the state; sum is the checksum up to there.
func snapTail(meta *pb.SnapshotMetadata, sum uint32) ([]byte, error) {
	b, err := proto.Marshal(&pb.Snapshot{Metadata: meta})
	return binary.LittleEndian.AppendUint32(b, crc32.Update(sum, castagnoli, b)), err
}

// AppendSnapshot appends the bytes of a snapshot file.
func AppendSnapshot(b []byte, id Identity, s *pb.Snapshot) ([]byte, error) {
	head := snapHead(id, uint64(len(s.GetData())))
	sum := crc32.Update(crc32.Checksum(head[headerSize:], castagnoli), castagnoli, s.GetData())
	tail, err := snapTail(s.GetMetadata(), sum)
	return append(append(append(b, head...), s.GetData()...), tail...), err
}

// File is a snapshot file; a *bytes.Reader is one.
type File interface {
	io.ReaderAt
	Size() int64
}

// Snapshot gives out the state of a snapshot file, in order. It belongs to one goroutine.
type Snapshot struct {
	Meta   *pb.SnapshotMetadata
	Format uint32 // of the file

	size uint64 // of the state
	file File
	at   int64 // the next byte of the file
	end  int64 // of the state
	sum  uint32
	tail []byte
	open io.Closer // nil: there is nothing to close
}

// mostTail bounds what follows the state.
const mostTail = 1 << 20

// ReadSnapshot begins to read a snapshot file. Errors: ErrVersion, ErrForeign, ErrCorrupt. Damage
// is known for certain when all is read.
func ReadSnapshot(f File, want Identity) (*Snapshot, error) {
	damaged := fmt.Errorf("%w: its snapshot", ErrCorrupt)
	head := make([]byte, headerSize+1+binary.MaxVarintLen64)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	head = head[:n]
	id, err := parseHeader(head, snapMagic, want)
	if err != nil {
		return nil, err
	}
	body := head[headerSize:]
	field, typ, n := protowire.ConsumeTag(body)
	if n < 0 || field != dataField || typ != protowire.BytesType {
		return nil, damaged
	}
	size, m := protowire.ConsumeVarint(body[n:])
	at := int64(headerSize + n + m)
	if m < 0 || size > uint64(f.Size()-at) {
		return nil, damaged
	}
	s := &Snapshot{Format: id.Format, size: size, file: f, at: at, end: at + int64(size),
		sum: crc32.Checksum(body[:n+m], castagnoli)}
	left := f.Size() - s.end
	if left < 4 || left > mostTail {
		return nil, damaged
	}
	s.tail = make([]byte, left)
	if n, err := f.ReadAt(s.tail, s.end); n < len(s.tail) {
		return nil, err
	}
	meta := &pb.Snapshot{}
	if proto.Unmarshal(s.tail[:left-4], meta) != nil || meta.GetMetadata() == nil {
		return nil, damaged
	}
	s.Meta = meta.GetMetadata()
	return s, s.check()
}

// Size returns how many bytes the state has.
func (s *Snapshot) Size() uint64 { return s.size }

// Read implements io.Reader. Errors: ErrCorrupt with the last bytes, those of the system.
func (s *Snapshot) Read(p []byte) (n int, err error) {
	if s.at == s.end {
		return 0, io.EOF
	}
	n, err = s.file.ReadAt(p[:min(int64(len(p)), s.end-s.at)], s.at)
	s.sum = crc32.Update(s.sum, castagnoli, p[:n])
	s.at += int64(n)
	if n > 0 {
		err = s.check()
	}
	return n, err
}

// check compares the checksum at the end of the state.
func (s *Snapshot) check() error {
	meta := s.tail[:len(s.tail)-4]
	if s.at == s.end &&
		crc32.Update(s.sum, castagnoli, meta) != binary.LittleEndian.Uint32(s.tail[len(meta):]) {
		return fmt.Errorf("%w: its snapshot", ErrCorrupt)
	}
	return nil
}

// Close closes the file, if it is open.
func (s *Snapshot) Close() error {
	if s == nil || s.open == nil {
		return nil
	}
	f := s.open
	s.open = nil
	return f.Close()
}

// verify reads all of a snapshot file.
func verify(f File, want Identity) (*Snapshot, error) {
	s, err := ReadSnapshot(f, want)
	if err == nil {
		_, err = io.Copy(io.Discard, s)
	}
	return s, err
}

// openSnapshot opens a file of the folder, which is that of. The error may be fs.ErrNotExist.
func (d *Dir) openSnapshot(name string, of **users) (*Snapshot, error) {
	f, err := d.openFile(name, of)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s, err := ReadSnapshot(io.NewSectionReader(f, 0, st.Size()), d.id)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s.open = f
	return s, nil
}

// Snapshot opens the snapshot at this index, which the folder must have: Installed, or this
// replica's own that is prepared. It may be read while another takes its place, in any goroutine.
func (d *Dir) Snapshot(index uint64) (*Snapshot, error) {
	if d.prepared[Own].Load() == index { // it may become the other one right now
		if s, err := d.openSnapshot(snapName+preparedNames[Own], &d.waits[Own]); err == nil {
			if s.Meta.GetIndex() == index {
				return s, nil
			}
			_ = s.Close()
		}
	}
	s, err := d.openSnapshot(snapName, &d.snap)
	if err == nil && s.Meta.GetIndex() != index {
		return nil, errors.Join(fmt.Errorf("wal: the snapshot is of %d, not %d", s.Meta.GetIndex(),
			index), s.Close())
	}
	return s, err
}

// Origin is where a snapshot comes from. One of each can be written beside the present one.
type Origin uint8

// The origins.
const (
	Own    Origin = iota // this replica's state
	Leader               // the leader's
)

// preparedNames are added to a snapshot that waits for Install.
var preparedNames = [...]string{Own: ".prepared", Leader: ".received"}

// Writer writes a snapshot beside the present one, in passing. It may be used in another goroutine
// than the Dir.
type Writer struct {
	file   file
	name   string
	size   uint64 // of the state that is to come
	at     int64
	synced int64
	sum    uint32
	ready  *atomic.Uint64
}

// Prepare begins to write a snapshot with a state of size bytes. One of an origin is written at a
// time; Install takes it.
func (d *Dir) Prepare(o Origin, size uint64) (*Writer, error) {
	d.prepared[o].Store(0)
	w := &Writer{name: d.name(snapName + preparedNames[o]), size: size, ready: &d.prepared[o]}
	var err error
	if w.file, err = d.disk.open(w.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC); err != nil {
		return nil, err
	}
	head := snapHead(d.ID(), size)
	if err = w.write(head); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	w.sum = crc32.Checksum(head[headerSize:], castagnoli)
	return w, nil
}

// write appends, and syncs now and then: see writtenAtOnce.
func (w *Writer) write(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), writtenAtOnce-int(w.at-w.synced))
		if _, err := w.file.WriteAt(p[:n], w.at); err != nil {
			return err
		}
		p, w.at = p[n:], w.at+int64(n)
		if w.at-w.synced == writtenAtOnce {
			if err := w.sync(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Writer) sync() error {
	w.synced = w.at
	return w.file.Sync()
}

// Write implements io.Writer. After an error there is only Abort.
func (w *Writer) Write(p []byte) (int, error) {
	if uint64(len(p)) > w.size {
		return 0, errSize
	}
	if err := w.write(p); err != nil {
		return 0, err
	}
	w.size -= uint64(len(p))
	w.sum = crc32.Update(w.sum, castagnoli, p)
	return len(p), nil
}

var errSize = errors.New("wal: the state of a snapshot has another size than was said")

// Commit ends the file, whose state is whole, and makes it durable. After an error it is aborted.
func (w *Writer) Commit(meta *pb.SnapshotMetadata) error {
	tail, err := snapTail(meta, w.sum)
	if w.size > 0 {
		err = errSize
	}
	if err == nil {
		err = w.write(tail)
	}
	if err == nil && w.synced < w.at {
		err = w.sync()
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	if err = w.file.Close(); err == nil {
		w.ready.Store(meta.GetIndex())
	}
	return err
}

// Abort removes what is written.
func (w *Writer) Abort() error { return errors.Join(cut(w.file, w.at), os.Remove(w.name)) }

// Source is the state of a snapshot and its size in bytes.
type Source interface {
	io.Reader
	Size() uint64
}

// Copy is Prepare and Commit of a whole state.
func (d *Dir) Copy(o Origin, meta *pb.SnapshotMetadata, from Source) error {
	w, err := d.Prepare(o, from.Size())
	if err != nil {
		return err
	}
	if _, err := io.CopyBuffer(w, from, make([]byte, 1<<20)); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Commit(meta)
}

// Install puts the snapshot of an origin, which is prepared, and a log that begins behind it in the
// place of the present ones. The new log begins with hard and entries.
func (d *Dir) Install(o Origin, meta *pb.SnapshotMetadata, hard *pb.HardState,
	entries []*pb.Entry) error {
	if at := d.prepared[o].Load(); at != meta.GetIndex() {
		return fmt.Errorf("wal: the snapshot at %d is not prepared, one at %d is", meta.GetIndex(), at)
	}
	if err := d.succeed(o); err != nil {
		return err
	}
	d.prepared[o].Store(0)
	log := NewLog(d.ID())
	log = AppendRecord(log, d.id, int64(len(log)), &Record{Hard: hard, Reset: meta, Entries: entries})
	return d.take(log)
}

// Clean removes what an earlier process has left of snapshots that were not installed.
func (d *Dir) Clean() error {
	var list []error
	for _, name := range preparedNames {
		if err := os.Remove(d.name(snapName + name)); !os.IsNotExist(err) {
			list = append(list, err)
		}
	}
	return errors.Join(list...)
}
