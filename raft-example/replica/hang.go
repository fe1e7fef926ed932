package replica

import (
	"time"

	"go.etcd.io/raft/v3"
)

// A disk may hang. Raft gives a leader what is committed only when its own disk has it, so such a
// leader answers no write, though its heartbeats and the others' disks go on.

// WriteFor is how long the write to the disk has taken that is under way, as of the last call with
// a time; 0 without one. A time for which nobody called, longer than half an election timeout, does
// not count: the process stood still, and its disk may have been done long ago.
func (r *Replica) WriteFor() time.Duration {
	if !r.saving {
		return 0
	}
	return r.now.Sub(r.saveFrom)
}

// stall notes the time that has passed since the last call with one.
func (r *Replica) stall(past time.Duration) {
	if past > r.cfg.ElectionTimeout()/2 {
		r.saveFrom = r.saveFrom.Add(past)
	}
}

// yield has a leader hand over whose write takes longer than an election timeout, if the others
// have committed what it has not written. Where all disks are as slow they have not, and nobody
// would lead better. It is called once a tick: a transfer that fails is tried again.
func (r *Replica) yield() {
	r.saveFrom = min(r.saveFrom, r.now) // the clock may have gone back
	if r.state == raft.StateLeader && r.WriteFor() > r.cfg.ElectionTimeout() &&
		r.committed > r.lastIndex() {
		r.handOver()
	}
}
