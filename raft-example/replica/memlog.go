package replica

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// memlog is the log in memory, from which raft reads. It does what raft.MemoryStorage does, without
// its mutex: raft asks for the first or last index, or a term, some thirty times for each entry.
type memlog struct {
	hard *pb.HardState // nil: none yet
	conf *pb.ConfState // of the last snapshot
	snap uint64        // its index
	// The log begins behind base, with entry base+1. Entries are never changed, and a list that was
	// handed out is not either.
	base, baseTerm uint64
	entries        []*pb.Entry
	bytes          uint64 // of them
}

// entryOverhead is the number of bytes that an entry counts besides its data.
const entryOverhead = 24

// sizeOf is about how many bytes of memory entries take.
func sizeOf(entries []*pb.Entry) (n uint64) {
	for _, e := range entries {
		n += entryMemory + uint64(len(e.Data))
	}
	return n
}

// entryMemory is what an entry takes besides its data, with its fields.
const entryMemory = 160

// InitialState implements raft.Storage.
func (l *memlog) InitialState() (*pb.HardState, *pb.ConfState, error) {
	return l.hard, pb.EnsureConfState(l.conf), nil
}

// FirstIndex implements raft.Storage.
func (l *memlog) FirstIndex() (uint64, error) { return l.base + 1, nil }

// LastIndex implements raft.Storage.
func (l *memlog) LastIndex() (uint64, error) { return l.last(), nil }

func (l *memlog) last() uint64 { return l.base + uint64(len(l.entries)) }

// Term implements raft.Storage.
func (l *memlog) Term(i uint64) (uint64, error) {
	switch {
	case i < l.base:
		return 0, raft.ErrCompacted
	case i == l.base:
		return l.baseTerm, nil
	case i > l.last():
		return 0, raft.ErrUnavailable
	}
	return l.entries[i-l.base-1].GetTerm(), nil
}

// Entries implements raft.Storage.
func (l *memlog) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	switch {
	case lo <= l.base:
		return nil, raft.ErrCompacted
	case hi > l.last()+1 || lo >= hi:
		return nil, raft.ErrUnavailable
	}
	list := l.entries[lo-l.base-1 : hi-l.base-1 : hi-l.base-1]
	size := uint64(0)
	for i, e := range list {
		if size += entryOverhead + uint64(len(e.Data)); i > 0 && size > maxSize {
			return list[:i:i], nil
		}
	}
	return list, nil
}

// SetHardState takes it over.
func (l *memlog) SetHardState(h *pb.HardState) { l.hard = h }

// Append appends entries, which may take the place of earlier ones. Those that are compacted are
// left out. It fails if there is a gap.
func (l *memlog) Append(entries []*pb.Entry) error {
	for len(entries) > 0 && entries[0].GetIndex() <= l.base {
		entries = entries[1:]
	}
	if len(entries) == 0 {
		return nil
	}
	at := entries[0].GetIndex() - l.base - 1
	switch have := uint64(len(l.entries)); {
	case at > have:
		return fmt.Errorf("%w: entry %d behind %d", ErrRaft, entries[0].GetIndex(), l.last())
	case at < have:
		l.bytes -= sizeOf(l.entries[at:])
		l.entries = append(l.entries[:at:at], entries...) // a copy, since somebody may have the old list
	default:
		l.entries = append(l.entries, entries...)
	}
	l.bytes += sizeOf(entries)
	return nil
}

// Compact drops the entries up to i, which it must have.
func (l *memlog) Compact(i uint64) error {
	switch {
	case i <= l.base:
		return raft.ErrCompacted
	case i > l.last():
		return raft.ErrUnavailable
	}
	l.baseTerm, _ = l.Term(i)
	l.bytes -= sizeOf(l.entries[:i-l.base])
	l.entries = append(make([]*pb.Entry, 0, len(l.entries)), l.entries[i-l.base:]...)
	l.base = i
	return nil
}

// ApplySnapshot has the log begin behind a snapshot, without entries.
func (l *memlog) ApplySnapshot(s *pb.Snapshot) error {
	m := s.GetMetadata()
	if l.snap != 0 && l.snap >= m.GetIndex() {
		return raft.ErrSnapOutOfDate
	}
	l.conf, l.snap = m.GetConfState(), m.GetIndex()
	l.base, l.baseTerm, l.entries, l.bytes = m.GetIndex(), m.GetTerm(), nil, 0
	return nil
}
