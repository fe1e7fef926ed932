package simtest

import (
	"bytes"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/raft-example/wal"
	"github.com/userspace-rpc/erpc/transport/sim"
	pb "go.etcd.io/raft/v3/raftpb"
)

// disk is a simulated one: bytes that are written are durable after a while, in order, and a crash
// leaves any part of what was under way.
type disk struct {
	s    *server
	id   wal.Identity
	log  []byte // durable
	snap []byte
	// beside has what is prepared, by origin; lost by a crash
	beside [2]*pb.Snapshot
	gen    int                  // crashes so far
	free   sim.Time             // when what is under way is durable
	jobs   []func(part float64) // under way; part 1 completes
	torn   int
	peers  map[uint64]uint64 // durable
	hung   sim.Time          // until then nothing that begins is done
}

// hang has what begins now wait for so long.
func (d *disk) hang(long time.Duration) { d.hung = d.s.c.net.Now().Add(long) }

func newDisk(s *server) *disk {
	d := &disk{s: s, id: wal.Identity{Cluster: testCluster, Replica: s.id, Log: s.log}}
	d.log = wal.NewLog(d.id)
	if s.boot.Snapshot != nil {
		d.replace(s.boot.Snapshot, nil, nil, 1)
	}
	return d
}

// open reads what is durable, as a process that starts does.
func (d *disk) open() replica.Start {
	var snap wal.File
	if d.snap != nil {
		snap = bytes.NewReader(d.snap)
	}
	st, err := wal.Load(d.log, snap, d.id)
	if err != nil {
		d.s.c.t.Fatalf("replica %d: %v", d.s.id, err)
	}
	if st.Cut > 0 {
		d.torn++
		d.log = d.log[:st.Good]
	}
	if st.Stale {
		d.log = st.Rebuild()
	}
	start := replica.Start{Hard: st.Hard, Snapshot: st.Snapshot, Entries: st.Entries}
	if st.State != nil {
		start.State = st.State
	}
	return start
}

// crash ends what is under way, somewhere.
func (d *disk) crash() {
	d.gen++
	if len(d.jobs) > 0 {
		d.jobs[0](d.s.c.r.Float64())
	}
	d.jobs, d.free = nil, 0
	clear(d.beside[:])
}

func (d *disk) do(job func(part float64), done func(error)) {
	c, gen := d.s.c, d.gen
	if d.s.down {
		return // the dead do not write
	}
	d.jobs = append(d.jobs, job)
	d.free = max(d.free, d.hung, c.net.Now()).Add(d.takes())
	c.net.After(d.free.Sub(c.net.Now()), func() {
		if d.gen != gen {
			return
		}
		d.jobs = d.jobs[1:]
		job(1)
		done(nil)
		d.s.ep.Wake()
	})
}

// takes is how long the next write takes.
func (d *disk) takes() time.Duration {
	c := d.s.c
	if c.steady {
		return c.disk
	}
	return c.below(c.disk)
}

// hangs is how long it still hangs.
func (d *disk) hangs() time.Duration { return max(0, d.hung.Sub(d.s.c.net.Now())) }

// SyncTime implements node.Disk.
func (d *disk) SyncTime() time.Duration { return d.s.c.disk }

// SyncP99 implements node.Disk.
func (d *disk) SyncP99() time.Duration { return d.s.c.disk }

// SavePeers implements node.Disk.
func (d *disk) SavePeers(peers map[uint64]uint64, done func(error)) {
	c, gen := d.s.c, d.gen
	if d.s.down {
		return
	}
	c.net.After(d.takes()+d.hangs(), func() {
		if d.gen == gen {
			d.peers = peers
			done(nil)
			d.s.ep.Wake()
		}
	})
}

// Raise implements node.Disk.
func (d *disk) Raise(format uint8) {
	d.do(func(part float64) {
		if part > 0.5 {
			d.id.Format = uint32(format)
			copy(d.log, wal.NewLog(d.id))
		}
	}, func(error) {})
}

// Save implements node.Disk.
func (d *disk) Save(hard *pb.HardState, entries []*pb.Entry, snapshot *pb.Snapshot,
	done func(error)) {
	if snapshot.GetMetadata().GetIndex() > 0 {
		d.do(func(part float64) {
			d.replace(d.installed(wal.Leader, snapshot), hard, entries, part)
		}, done)
		return
	}
	d.do(func(part float64) {
		for _, e := range entries {
			if f := kv.EntryFormat(e.Data); uint32(f) > d.id.Format && e.GetType() == pb.EntryNormal {
				d.s.c.t.Errorf("replica %d writes entries of format %d in a folder of %d", d.s.id, f,
					d.id.Format)
			}
		}
		rec := wal.AppendRecord(nil, d.id, int64(len(d.log)), &wal.Record{Hard: hard, Entries: entries})
		d.log = append(d.log, rec[:int(float64(len(rec))*part)]...)
		if n := len(d.log); part > 0.2 && part < 1 && d.s.c.r.IntN(2) == 0 {
			d.log[n-1] ^= 0x5A // garbage in what was not synced
		}
	}, done)
}

// Compact implements node.Disk.
func (d *disk) Compact(s *pb.Snapshot, hard *pb.HardState, entries []*pb.Entry, done func(error)) {
	d.do(func(part float64) { d.replace(d.installed(wal.Own, s), hard, entries, part) }, done)
}

// replace puts both files in place, or only the snapshot, or none.
func (d *disk) replace(s *pb.Snapshot, hard *pb.HardState, entries []*pb.Entry, part float64) {
	if part > 0.3 {
		d.snap, _ = wal.AppendSnapshot(nil, d.id, s)
	}
	if part > 0.6 {
		d.log = wal.NewLog(d.id)
		d.log = wal.AppendRecord(d.log, d.id, int64(len(d.log)),
			&wal.Record{Hard: hard, Reset: s.GetMetadata(), Entries: entries})
	}
}
