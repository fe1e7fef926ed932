package node

import (
	"crypto/rand"
	"encoding/binary"
	"errors"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/raft-example/wal"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// NewLogID returns a random log identity.
func NewLogID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it does not fail
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// Files is a Disk in a folder. A goroutine of its own writes and syncs, so that the loop
// goes on; there is one Save at a time, so that each sync covers all that came meanwhile.
type Files struct {
	dir   *wal.Dir
	jobs  chan job
	ended chan struct{}
	rpc   *erpc.Rpc
}

type job struct {
	record   wal.Record
	snapshot *pb.Snapshot
	done     func(error)
}

// OpenFiles opens the durable log in a folder, or makes it: then the replica begins with
// boot. It completes cfg: Log, Start and Disk. Errors: those of package wal.
func OpenFiles(path string, cfg *Config, boot replica.Start) (*Files, error) {
	dir, s, err := wal.Open(path, wal.Identity{Cluster: cfg.Cluster, Replica: cfg.ID, Log: NewLogID()})
	if err != nil {
		return nil, err
	}
	if s.Snapshot == nil && s.Hard == nil && len(s.Entries) == 0 && !raft.IsEmptySnap(boot.Snapshot) {
		if err := dir.Compact(boot.Snapshot, nil, nil); err != nil {
			return nil, errors.Join(err, dir.Close())
		}
		s.Snapshot = boot.Snapshot
	}
	f := &Files{dir: dir, jobs: make(chan job, 4), ended: make(chan struct{})}
	cfg.Log, cfg.Disk = dir.ID().Log, f
	cfg.Start = replica.Start{Hard: s.Hard, Snapshot: s.Snapshot, Entries: s.Entries}
	return f, nil
}

// Attach gives the disk the Rpc in whose thread it tells what is done, and starts it.
func (f *Files) Attach(r *erpc.Rpc) {
	f.rpc = r
	go f.run()
}

func (f *Files) run() {
	defer close(f.ended)
	for j := range f.jobs {
		err := f.do(&j)
		done := j.done
		_ = f.rpc.Post(func(*erpc.Rpc) { done(err) }) // a closed Rpc has nobody to tell
	}
}

func (f *Files) do(j *job) error {
	if j.snapshot != nil { // own, or from the leader: then nothing before it counts
		return f.dir.Compact(j.snapshot, j.record.Hard, j.record.Entries)
	}
	return f.dir.Save(&j.record)
}

// Save implements Disk.
func (f *Files) Save(hard *pb.HardState, entries []*pb.Entry, snapshot *pb.Snapshot, done func(error)) {
	j := job{record: wal.Record{Hard: hard, Entries: entries}, done: done}
	if !raft.IsEmptySnap(snapshot) {
		j.snapshot = snapshot
	}
	f.jobs <- j
}

// Compact implements Disk.
func (f *Files) Compact(s *pb.Snapshot, hard *pb.HardState, entries []*pb.Entry, done func(error)) {
	f.jobs <- job{record: wal.Record{Hard: hard, Entries: entries}, snapshot: s, done: done}
}

// Close waits for what is under way. The loop must not run any more.
func (f *Files) Close() error {
	close(f.jobs)
	if f.rpc != nil {
		<-f.ended
	}
	return f.dir.Close()
}
