package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	pb "go.etcd.io/raft/v3/raftpb"
)

// The errors of reading a log or snapshot.
var (
	ErrCorrupt = errors.New("wal: the log is damaged before its end")
	ErrForeign = errors.New("wal: the log belongs to another cluster or replica")
	ErrVersion = errors.New("wal: not a log of this version")
)

// ErrInUse is the error of a folder that another process uses, or another Dir of this one.
var ErrInUse = errors.New("wal: the folder is in use")

// Format is the newest format of a folder that this package reads and writes; it reads all from 0
// on. Format 0 is that of commit 4085675. It is that of the entries in the folder, at least: the
// files of all formats have the same form. A file's header has the number plus one as its version.
const Format = 2

// FormatError is an ErrVersion of a file that a newer program has written.
type FormatError struct {
	Format uint32 // of the file
}

// Error names both formats, and the way out.
func (e *FormatError) Error() string {
	return fmt.Sprintf("wal: the folder is of format %d, and this program knows 0 to %d: start the "+
		"program that wrote it, or a newer one", e.Format, Format)
}

// Unwrap returns ErrVersion.
func (e *FormatError) Unwrap() error { return ErrVersion }

const (
	logMagic   = 0x31474f4c43505245 // "ERPCLOG1"
	snapMagic  = 0x3150414e53435045 // "EPCSNAP1"
	peersMagic = 0x3152454550435045 // "EPCPEER1"
	recMagic   = 0x4345522e         // ".REC"
	headerSize = 48
	frameSize  = 16
	fixedSize  = 48 // of a payload
	entrySize  = 24 // of an entry without its data
	maxPayload = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Identity says whose log it is.
type Identity struct {
	Cluster uint64
	Replica uint64
	Log     uint64 // random, made with the log; see node
	Format  uint32 // of the file, not of whose log it is
}

// Record has the changes that become durable in one step. The zero value of a field changes
// nothing.
type Record struct {
	Hard    *pb.HardState
	Reset   *pb.SnapshotMetadata // the log begins anew behind this snapshot
	Entries []*pb.Entry
}

func appendHeader(b []byte, magic uint64, id Identity) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint64(b, magic)
	b = binary.LittleEndian.AppendUint32(b, id.Format+1)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, id.Cluster)
	b = binary.LittleEndian.AppendUint64(b, id.Replica)
	b = binary.LittleEndian.AppendUint64(b, id.Log)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
	return binary.LittleEndian.AppendUint32(b, 0)
}

// parseHeader checks a header. A want.Log of 0 takes any, and each format is taken.
func parseHeader(b []byte, magic uint64, want Identity) (id Identity, err error) {
	if len(b) < headerSize || binary.LittleEndian.Uint64(b) != magic {
		return id, ErrVersion
	}
	if crc32.Checksum(b[:40], castagnoli) != binary.LittleEndian.Uint32(b[40:]) {
		return id, fmt.Errorf("%w: its header", ErrCorrupt)
	}
	version := binary.LittleEndian.Uint32(b[8:])
	switch {
	case version == 0:
		return id, ErrVersion
	case version-1 > Format:
		return id, &FormatError{version - 1}
	}
	id = Identity{binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:]),
		binary.LittleEndian.Uint64(b[32:]), version - 1}
	if id.Cluster != want.Cluster || id.Replica != want.Replica ||
		want.Log != 0 && id.Log != want.Log {
		return id, fmt.Errorf("%w: it is of replica %d of cluster %d, not replica %d of cluster %d",
			ErrForeign, id.Replica, id.Cluster, want.Replica, want.Cluster)
	}
	return id, nil
}

// NewLog returns the bytes of a log without records.
func NewLog(id Identity) []byte { return appendHeader(nil, logMagic, id) }

// checksum is that of a record at offset of the log id.
func checksum(id Identity, offset int64, payload []byte) uint32 {
	var salt [16]byte
	binary.LittleEndian.PutUint64(salt[:], id.Log)
	binary.LittleEndian.PutUint64(salt[8:], uint64(offset))
	return crc32.Update(crc32.Checksum(salt[:], castagnoli), castagnoli, payload)
}

// AppendRecord appends a record to b; offset is where it will begin in the log's file.
func AppendRecord(b []byte, id Identity, offset int64, r *Record) []byte {
	at := len(b)
	b = append(b, make([]byte, frameSize+fixedSize)...)
	binary.LittleEndian.PutUint32(b[at:], recMagic)
	p := b[at+frameSize:]
	if h := r.Hard; h != nil {
		p[0] |= 1
		binary.LittleEndian.PutUint64(p[8:], h.GetTerm())
		binary.LittleEndian.PutUint64(p[16:], h.GetVote())
		binary.LittleEndian.PutUint64(p[24:], h.GetCommit())
	}
	if m := r.Reset; m != nil {
		p[0] |= 2
		binary.LittleEndian.PutUint64(p[32:], m.GetIndex())
		binary.LittleEndian.PutUint64(p[40:], m.GetTerm())
	}
	binary.LittleEndian.PutUint32(p[4:], uint32(len(r.Entries)))
	for _, e := range r.Entries {
		b = binary.LittleEndian.AppendUint32(b, uint32(e.GetType()))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Data)))
		b = binary.LittleEndian.AppendUint64(b, e.GetIndex())
		b = binary.LittleEndian.AppendUint64(b, e.GetTerm())
		b = append(b, e.Data...)
	}
	payload := b[at+frameSize:]
	binary.LittleEndian.PutUint32(b[at+4:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[at+8:], checksum(id, offset, payload))
	for len(b)%8 != at%8 {
		b = append(b, 0)
	}
	return b
}

// record reads the record at offset; size is 0 if there is no valid one.
func record(b []byte, id Identity, offset int64) (payload []byte, size int64) {
	if int64(len(b)) < offset+frameSize {
		return nil, 0
	}
	f := b[offset:]
	n := int64(binary.LittleEndian.Uint32(f[4:]))
	padded := (n + 7) &^ 7
	if binary.LittleEndian.Uint32(f) != recMagic || binary.LittleEndian.Uint32(f[12:]) != 0 ||
		n < fixedSize || n > maxPayload || int64(len(f)) < frameSize+padded {
		return nil, 0
	}
	payload = f[frameSize : frameSize+n]
	if checksum(id, offset, payload) != binary.LittleEndian.Uint32(f[8:]) {
		return nil, 0
	}
	return payload, frameSize + padded
}

// parseRecord reads a payload whose checksum is right. Data is copied.
func parseRecord(p []byte) (r Record, ok bool) {
	if p[0] > 3 {
		return r, false
	}
	if p[0]&1 != 0 {
		r.Hard = &pb.HardState{Term: new(binary.LittleEndian.Uint64(p[8:])),
			Vote:   new(binary.LittleEndian.Uint64(p[16:])),
			Commit: new(binary.LittleEndian.Uint64(p[24:]))}
	}
	if p[0]&2 != 0 {
		r.Reset = &pb.SnapshotMetadata{Index: new(binary.LittleEndian.Uint64(p[32:])),
			Term: new(binary.LittleEndian.Uint64(p[40:]))}
	}
	count := binary.LittleEndian.Uint32(p[4:])
	p = p[fixedSize:]
	for range count {
		if len(p) < entrySize {
			return r, false
		}
		typ, n := pb.EntryType(binary.LittleEndian.Uint32(p)), int(binary.LittleEndian.Uint32(p[4:]))
		if len(p)-entrySize < n || typ > pb.EntryConfChangeV2 || typ < 0 {
			return r, false
		}
		r.Entries = append(r.Entries, &pb.Entry{Type: typ.Enum(),
			Index: new(binary.LittleEndian.Uint64(p[8:])),
			Term:  new(binary.LittleEndian.Uint64(p[16:])),
			Data:  append([]byte(nil), p[entrySize:entrySize+n]...)})
		p = p[entrySize+n:]
	}
	return r, len(p) == 0
}
