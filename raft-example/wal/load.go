package wal

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
)

// State is the content of a log and its snapshot.
type State struct {
	ID       Identity          // with the newer format of the two files
	Hard     *pb.HardState     // nil if none was written
	Snapshot *pb.Snapshot      // without its state, nil if there is none
	State    *Snapshot         // to be read, and to be closed: its state
	Entries  []*pb.Entry       // consecutive, behind the snapshot if there is one
	Peers    map[uint64]uint64 // identities of other replicas' logs, by replica; from Open only
	Good     int64             // bytes of the log that are valid: append here
	Cut      int64             // bytes behind them: a torn record
	Stale    bool              // the snapshot is newer than the log: put Rebuild in its place first
}

// Rebuild returns the bytes of a log that begins behind the snapshot, after a crash
// between the two steps of a compaction.
func (s *State) Rebuild() []byte {
	log := NewLog(s.ID)
	return AppendRecord(log, s.ID, int64(len(log)),
		&Record{Hard: s.Hard, Reset: s.Snapshot.GetMetadata(), Entries: s.Entries})
}

// Load reads both files; snapshot may be nil, and is read to its end and then given out once more.
// Errors: ErrVersion, ErrForeign, ErrCorrupt. Nothing of what it returns refers to the log's bytes.
func Load(log []byte, snapshot File, want Identity) (s State, err error) {
	if s.ID, err = parseHeader(log, logMagic, want); err != nil {
		return s, err
	}
	var reset *pb.SnapshotMetadata
	off := int64(headerSize)
	for {
		payload, size := record(log, s.ID, off)
		if size == 0 {
			break
		}
		r, ok := parseRecord(payload)
		if !ok {
			return s, fmt.Errorf("%w: the record at byte %d", ErrCorrupt, off)
		}
		if r.Hard != nil {
			s.Hard = r.Hard
		}
		if r.Reset != nil {
			reset, s.Entries = r.Reset, nil
		}
		if s.Entries, err = join(s.Entries, r.Entries, reset.GetIndex()); err != nil {
			return s, err
		}
		off += size
	}
	s.Good, s.Cut = off, int64(len(log))-off
	// One past the bad record: is there a valid one?
	for at := off + 8; at+frameSize <= int64(len(log)); at += 8 {
		if _, size := record(log, s.ID, at); size != 0 {
			return s, fmt.Errorf("%w: bad at byte %d, but there is a valid record at byte %d",
				ErrCorrupt, off, at)
		}
	}
	if snapshot != nil {
		if _, err = verify(snapshot, s.ID); err != nil {
			return s, err
		}
		if s.State, err = ReadSnapshot(snapshot, s.ID); err != nil {
			return s, err
		}
		s.Snapshot = &pb.Snapshot{Metadata: s.State.Meta}
		s.ID.Format = max(s.ID.Format, s.State.Format)
	}
	return s, s.behind(reset)
}

// join appends entries, which may take the place of earlier ones. base is the index that
// the log begins behind.
func join(list, more []*pb.Entry, base uint64) ([]*pb.Entry, error) {
	for _, e := range more {
		next := base + 1
		if len(list) > 0 {
			next = list[len(list)-1].GetIndex() + 1
		} else if base == 0 {
			next = e.GetIndex() // a log that begins with the cluster
		}
		if e.GetIndex() > next || e.GetIndex() <= base {
			return nil, fmt.Errorf("%w: entry %d where %d should be", ErrCorrupt, e.GetIndex(), next)
		}
		if back := next - e.GetIndex(); back <= uint64(len(list)) {
			list = list[:len(list)-int(back)]
		} else {
			return nil, fmt.Errorf("%w: entry %d before the first", ErrCorrupt, e.GetIndex())
		}
		list = append(list, e)
	}
	return list, nil
}

// behind leaves the entries that follow the snapshot. If the log does not agree with the
// snapshot, which is then newer and came from the leader, none of its entries counts.
func (s *State) behind(reset *pb.SnapshotMetadata) error {
	if s.Snapshot == nil {
		if reset.GetIndex() > 0 {
			return fmt.Errorf("%w: the snapshot at %d is missing", ErrCorrupt, reset.GetIndex())
		}
		return nil
	}
	m := s.Snapshot.GetMetadata()
	switch {
	case reset.GetIndex() > m.GetIndex():
		return fmt.Errorf("%w: the log begins behind %d, the snapshot is of %d", ErrCorrupt,
			reset.GetIndex(), m.GetIndex())
	case reset.GetIndex() == m.GetIndex() && reset.GetIndex() > 0:
		return nil
	}
	s.Stale = true
	for i, e := range s.Entries {
		if e.GetIndex() == m.GetIndex() && e.GetTerm() == m.GetTerm() {
			s.Entries = s.Entries[i+1:]
			return nil
		}
	}
	s.Entries = nil
	return nil
}
