package node

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
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
// Large snapshots are written by another one, so that no Save waits for them.
type Files struct {
	dir   folder
	form  uint32 // of jobs from now on
	jobs  chan job
	ended chan struct{}
	side  sync.WaitGroup // all that is in no order with jobs
	// origins are held by those who write a snapshot of each. sinks and streams are open: the
	// thread's.
	origins [2]sync.Mutex
	sinks   map[*fileSink]bool
	streams map[*fileStream]bool
	stop    chan struct{} // ends Scrub, nil without it
	path    string
	start   *wal.Snapshot // until a replica has read it
	id      uint64
	rpc     *erpc.Rpc
	pace    pace
}

// folder is a *wal.Dir, or one of a test.
type folder interface {
	Raise(format uint32) error
	Save(r *wal.Record) error
	Prepare(o wal.Origin, size uint64) (*wal.Writer, error)
	Snapshot(index uint64) (*wal.Snapshot, error)
	Install(o wal.Origin, meta *pb.SnapshotMetadata, hard *pb.HardState, entries []*pb.Entry) error
	SavePeers(peers map[uint64]uint64) error
	Scrub() error
	Close() error
}

// job is one of Save, which has a done, and Compact.
type job struct {
	record   wal.Record
	snapshot *pb.Snapshot
	install  bool
	format   uint32 // of its content, at most
	done     func(error)
}

// OpenFiles opens the durable log in a folder, or makes it: then the replica begins with
// boot. It completes cfg: Log, Start and Disk. Errors: those of package wal.
func OpenFiles(path string, cfg *Config, boot replica.Start) (*Files, error) {
	open := wal.Open
	if cfg.Volatile {
		open = wal.OpenVolatile
	}
	dir, s, err := open(path, wal.Identity{Cluster: cfg.Cluster, Replica: cfg.ID, Log: NewLogID()})
	if err != nil {
		return nil, advise(err, path, cfg.ID)
	}
	if err := dir.Clean(); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	if s.Snapshot == nil && s.Hard == nil && len(s.Entries) == 0 && !raft.IsEmptySnap(boot.Snapshot) {
		if err := begin(dir, &boot); err != nil {
			return nil, errors.Join(err, dir.Close())
		}
		cfg.Start = boot
	} else {
		cfg.Start = startOf(&s)
	}
	cfg.Peers, dir.Forget = s.Peers, forgetCached
	f := &Files{dir: dir, path: path, start: s.State, id: cfg.ID, jobs: make(chan job, 4),
		sinks: map[*fileSink]bool{}, streams: map[*fileStream]bool{}, ended: make(chan struct{})}
	for range probes { // before there is anything to hold up
		began := monotime.Now()
		if err := dir.Probe(); err != nil {
			return nil, errors.Join(err, dir.Close())
		}
		f.pace.add(monotime.Now().Sub(began))
	}
	cfg.Log, cfg.Disk = dir.ID().Log, f
	return f, nil
}

// advise adds to damage what can be done about it.
func advise(err error, path string, id uint64) error {
	if !errors.Is(err, wal.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w; the other replicas have what it held: remove replica %d "+
		"(raft-kv member remove %d), keep %s away from it, "+
		"and add a replica under a new id with an empty folder", err, id, id, path)
}

// Scrub checks the log and the snapshot on the disk again and again, and ends the node when
// something of them is damaged. Call it once, after Attach. Every must be positive.
func (f *Files) Scrub(n *Node, every time.Duration) {
	f.stop = make(chan struct{})
	f.side.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-f.stop:
				return
			case <-tick.C:
			}
			if err := f.dir.Scrub(); err != nil {
				_ = f.post(n.fail, advise(err, f.path, f.id))
				return
			}
		}
	})
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
		_ = f.post(j.done, err)
	}
}

// post tells the loop; a closed Rpc, which is the error, has nobody to tell.
func (f *Files) post(done func(error), err error) error {
	return f.rpc.Post(func(*erpc.Rpc) { done(err) })
}

func (f *Files) do(j *job) error {
	if err := f.dir.Raise(j.format); err != nil {
		return err
	}
	switch {
	case j.install:
		return f.dir.Install(wal.Own, j.snapshot.GetMetadata(), j.record.Hard, j.record.Entries)
	case j.snapshot != nil: // then nothing before it counts
		return f.dir.Install(wal.Leader, j.snapshot.GetMetadata(), j.record.Hard, j.record.Entries)
	}
	began := monotime.Now()
	err := f.dir.Save(&j.record)
	f.pace.add(monotime.Now().Sub(began))
	return err
}

// Save implements Disk.
func (f *Files) Save(hard *pb.HardState, entries []*pb.Entry, snapshot *pb.Snapshot,
	done func(error)) {
	j := job{record: wal.Record{Hard: hard, Entries: entries}, format: f.form, done: done}
	if !raft.IsEmptySnap(snapshot) {
		j.snapshot = snapshot
	}
	f.jobs <- j
}

// Raise implements Disk.
func (f *Files) Raise(format uint8) { f.form = uint32(format) }

// Compact implements Disk.
func (f *Files) Compact(s *pb.Snapshot, hard *pb.HardState, entries []*pb.Entry, done func(error)) {
	f.jobs <- job{record: wal.Record{Hard: hard, Entries: entries}, snapshot: s,
		install: true, format: f.form, done: done}
}

// SavePeers implements Disk.
func (f *Files) SavePeers(peers map[uint64]uint64, done func(error)) {
	f.side.Go(func() { _ = f.post(done, f.dir.SavePeers(peers)) })
}

// SyncTime implements Disk.
func (f *Files) SyncTime() time.Duration { return f.pace.typical() }

// SyncP99 implements Disk: of the last 1000 writes.
func (f *Files) SyncP99() time.Duration { return f.pace.p99() }
