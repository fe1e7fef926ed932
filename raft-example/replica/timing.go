package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// The tick and the lease of a running cluster change by an entry of the log: see "The tick and the
// lease" in the documentation of package raftexample. Config's count until there is one.

// ErrTiming is a tick or a lease that cannot be, or not yet.
var ErrTiming = errors.New("replica: bad tick or lease")

// Timing is the tick and the lease.
type Timing struct {
	Tick  time.Duration `json:"tick"`  // in ns, from kv.MinTick to kv.MaxTick
	Lease time.Duration `json:"lease"` // in ns; negative: as many ticks as before
	// Agreed: the log of this replica has an entry that says so, or had.
	Agreed bool `json:"agreed,omitempty"`
}

// agreed is a timing and where in the log it is; 0: it is Config's.
type agreed struct {
	at          uint64
	tick, lease time.Duration
}

// timing is what a replica knows of the tick and the lease.
type timing struct {
	now    agreed   // that is applied
	coming []agreed // in the log and not applied, in order

	// Of the last round of heartbeats that may begin a lease, if now is of the log:
	round  uint64
	before uint64   // the context of the last heartbeat that had left by then
	rest   []uint64 // voters that had the entry by then, and have not answered since
	have   int      // such voters that have

	sent uint64 // the context of the last heartbeat that has left in this term: raft counts reads
}

// Timing returns the tick and the lease that are applied.
func (r *Replica) Timing() Timing {
	t := &r.timing
	return Timing{t.now.tick, t.now.lease, t.now.at > 0 || len(t.coming) > 0}
}

// Retime proposes a tick and a lease; like Propose. The answer says Found if they are so already.
// Errors: ErrTiming, ErrLeader.
func (r *Replica) Retime(to Timing, tag uint64) error {
	if !r.Leads() {
		return ErrLeader
	}
	last := r.timing.now
	if n := len(r.timing.coming); n > 0 {
		last = r.timing.coming[n-1]
	}
	longest := to.Tick * time.Duration(r.cfg.ElectionTicks-1)
	if to.Lease < 0 {
		to.Lease = min(longest, time.Duration(float64(last.lease)/float64(last.tick)*float64(to.Tick)))
	}
	switch {
	case r.store.Version() < 2:
		return fmt.Errorf("%w: the version is %d, 2 is needed: raft-kv upgrade first",
			ErrTiming, r.store.Version())
	case to.Tick < kv.MinTick || to.Tick > kv.MaxTick:
		return fmt.Errorf("%w: a tick of %v, want %v to %v", ErrTiming, to.Tick, kv.MinTick, kv.MaxTick)
	case to.Lease > longest:
		return fmt.Errorf("%w: a lease of %v, want at most %v", ErrTiming, to.Lease, longest)
	}
	c := kv.Command{Op: kv.Timing, Format: 2, Cluster: r.cfg.Cluster, Seq: uint64(to.Tick),
		Session: uint64(to.Lease)}
	same := last.at > 0 && last.tick == to.Tick && last.lease == to.Lease
	return r.proposeChange(pb.EntryNormal, c.Append(nil), proposal{tag: tag, settled: same})
}

// timingOf returns what an entry says of the tick and the lease.
func timingOf(e *pb.Entry) (a agreed, ok bool) {
	if kv.EntryFormat(e.Data) < 2 || e.GetType() != pb.EntryNormal {
		return a, false
	}
	c, err := kv.ParseCommand(e.Data)
	return agreed{e.GetIndex(), time.Duration(c.Seq), time.Duration(c.Session)},
		err == nil && c.Op == kv.Timing
}

// foresee looks for timings among entries that come to the log, in the place of those that it had
// from the first one's index on. A snapshot takes the place of the whole log.
func (r *Replica) foresee(entries []*pb.Entry, snapshot bool) {
	t := &r.timing
	was := len(t.coming)
	if snapshot {
		t.coming = nil
	} else if was > 0 && len(entries) > 0 {
		first := entries[0].GetIndex()
		t.coming = slices.DeleteFunc(t.coming, func(a agreed) bool { return a.at >= first })
	}
	for _, e := range entries {
		if a, ok := timingOf(e); ok {
			t.coming = append(t.coming, a)
			was = -1
		}
	}
	if len(t.coming) != was {
		r.retime()
	}
}

// arrive takes a timing that is applied.
func (r *Replica) arrive(a agreed) {
	t := &r.timing
	t.now = a
	t.coming = slices.DeleteFunc(t.coming, func(c agreed) bool { return c.at <= a.at })
	r.retime()
}

// retime makes the timings that are known the ones that count: the longest tick, and no lease while
// an entry is not applied.
func (r *Replica) retime() {
	t := &r.timing
	r.cfg.Tick, r.cfg.Lease = t.now.tick, t.now.lease
	for _, c := range t.coming {
		r.cfg.Tick, r.cfg.Lease = max(r.cfg.Tick, c.tick), 0
	}
	r.cfg.Lease = min(r.cfg.Lease, r.cfg.Tick*time.Duration(r.cfg.ElectionTicks-1))
	r.void()
	r.changed = true
}

// leases reports whether there is a lease, or will be.
func (t *timing) leases() bool {
	return t.now.lease > 0 || slices.ContainsFunc(t.coming, func(a agreed) bool { return a.lease > 0 })
}

// canvass notes whose answers to the round that begins count for a lease. A voter that has the
// entry of the timing keeps its tick, or that of a later entry, from its answer on.
func (r *Replica) canvass() {
	t := &r.timing
	if t.now.at == 0 || r.cfg.Lease == 0 {
		return
	}
	t.round, t.before, t.rest, t.have = r.lastRead, t.sent, t.rest[:0], 0
	for _, id := range r.log.conf.GetVoters() {
		if id == r.cfg.ID {
			t.have++
		} else if r.early.acks[id] >= t.now.at {
			t.rest = append(t.rest, id)
		}
	}
}

// leaves notes a heartbeat that leaves.
func (t *timing) leaves(m *pb.Message) {
	if len(m.Context) == 8 {
		t.sent = max(t.sent, binary.LittleEndian.Uint64(m.Context))
	}
}

// returns notes the answer to a heartbeat.
func (r *Replica) returns(m *pb.Message) {
	t := &r.timing
	if len(m.Context) != 8 || binary.LittleEndian.Uint64(m.Context) <= t.before ||
		m.GetTerm() != r.term {
		return
	}
	if i := slices.Index(t.rest, m.GetFrom()); i >= 0 {
		t.rest = slices.Delete(t.rest, i, i+1)
		t.have++
	}
}

// counts reports whether a round that a quorum has answered begins a lease.
func (r *Replica) counts(ctx uint64) bool {
	t := &r.timing
	if t.now.at == 0 {
		return true
	}
	conf := r.log.conf
	return t.round == ctx && t.have > len(conf.GetVoters())/2 && len(conf.GetVotersOutgoing()) == 0
}

// The timing of a snapshot stands among its members, as replica 0's address, which there is not. As
// bytes:
//
//	0 index u64 · 8 tick u64 ns · 16 lease u64 ns
const timingSize = 24

// appendHead appends what leads a snapshot: the members, and the timing if it is of the log.
func appendHead(b []byte, members map[uint64]string, a agreed) []byte {
	if a.at == 0 {
		return appendMembers(b, members)
	}
	text := binary.LittleEndian.AppendUint64(nil, a.at)
	text = binary.LittleEndian.AppendUint64(text, uint64(a.tick))
	text = binary.LittleEndian.AppendUint64(text, uint64(a.lease))
	all := map[uint64]string{0: string(text)}
	for id, addr := range members {
		all[id] = addr
	}
	return appendMembers(b, all)
}

// parseHead reads it.
func parseHead(b []byte) (members map[uint64]string, a agreed, rest []byte, ok bool) {
	members, rest, ok = parseMembers(b)
	text, is := members[0]
	if !ok || !is {
		return members, a, rest, ok
	}
	delete(members, 0)
	if len(text) != timingSize {
		return nil, a, nil, false
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64([]byte(text[8*i:])) }
	a = agreed{field(0), time.Duration(field(1)), time.Duration(field(2))}
	ok = a.at > 0 && a.tick >= kv.MinTick && a.tick <= kv.MaxTick && a.lease >= 0
	return members, a, rest, ok
}
