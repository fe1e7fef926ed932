package replica

import (
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// The errors that end a replica, or refuse a request.
var (
	ErrLogLost = errors.New("replica: the leader has seen log entries of this replica " +
		"that it does not have: its log was lost; remove the replica and add it under a new id")
	ErrRaft   = errors.New("replica: raft gave up")
	ErrMember = errors.New("replica: bad membership change")
	ErrLeader = errors.New("replica: not the leader")
	ErrConfig = errors.New("replica: bad config")
	ErrFormat = errors.New("replica: no version that this program knows")
)

// Config configures a Replica. Zero fields mean defaults.
type Config struct {
	Cluster uint64
	ID      uint64 // not 0
	// Tick is the unit of Raft's time, default 20 ms. An election starts after 10 to 20
	// ticks without a leader. A leader sends a heartbeat each tick; while nothing happens, each
	// fourth.
	Tick          time.Duration
	ElectionTicks int // default 10
	// CommitDelay is how long a mere notice of a commit index may wait for a message to
	// ride on. Default 500 us; negative: not at all.
	CommitDelay time.Duration
	// GatherFor is how long requests wait at most for others to share a round with, after a round
	// of many. Default 60 us; negative: not at all.
	GatherFor time.Duration
	// KeepEntries is how many applied entries stay in memory for slow followers. Default 10000. An
	// entry has one write, or as many as came together, up to 2 KiB.
	KeepEntries uint64
	// A durable replica makes a snapshot after so many entries, SnapshotEvery, default 100000, or
	// after SnapshotBytes of them, default 64 MiB, but not before they take a quarter of what the
	// store has, each with 128 bytes more than its own: a large store is not written again and again
	// for a small log.
	SnapshotEvery, SnapshotBytes uint64
	// Lease lets a leader serve reads at once for so long after it began a round of heartbeats
	// that a quorum has answered. Default 0: each read waits for a round of its own or of others.
	//
	// It assumes clocks of about the same rate: while the leader's clock advances by Lease, that of
	// no other replica advances by Tick * (ElectionTicks-1), the longest that Lease may be. So 2/3
	// of it allows for clocks of which one is half as fast again as the other. A clock must not go
	// back. Neither their settings matter nor a process that stops for a while. All replicas of
	// a cluster must have the same Tick and Lease, until Retime has given them others. One that starts
	// again votes for nobody for ElectionTicks. If the assumption is broken reads may be stale; writes
	// never are.
	Lease time.Duration
	// Incarnation is a number that no earlier start of this replica had, such as a random one.
	// Answers to reads of an earlier one are known by it.
	Incarnation uint64
	// MaxWaiting bounds the requests that wait for an answer. Default 65536.
	MaxWaiting int
	// Keys is how many keys to make room for.
	Keys int
}

func (c Config) fill() (Config, error) {
	if c.ID == 0 {
		return c, fmt.Errorf("%w: replica id 0", ErrConfig)
	}
	def := func(v *uint64, d uint64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.KeepEntries, 10000)
	def(&c.SnapshotEvery, 100000)
	def(&c.SnapshotBytes, 64<<20)
	if c.Tick == 0 {
		c.Tick = 20 * time.Millisecond
	}
	if c.ElectionTicks == 0 {
		c.ElectionTicks = 10
	}
	if c.CommitDelay == 0 {
		c.CommitDelay = 500 * time.Microsecond
	}
	if c.GatherFor == 0 {
		c.GatherFor = 60 * time.Microsecond
	}
	if c.MaxWaiting == 0 {
		c.MaxWaiting = 65536
	}
	if c.Tick < 0 || c.ElectionTicks < 2 || c.MaxWaiting < 0 {
		return c, fmt.Errorf("%w: tick %v, %d election ticks, %d waiting", ErrConfig, c.Tick,
			c.ElectionTicks, c.MaxWaiting)
	}
	if longest := c.Tick * time.Duration(c.ElectionTicks-1); c.Lease < 0 || c.Lease > longest {
		return c, fmt.Errorf("%w: lease %v, want at most %v", ErrConfig, c.Lease, longest)
	}
	return c, nil
}

// ElectionTimeout is the shortest time without a leader after which an election starts.
func (c Config) ElectionTimeout() time.Duration {
	c, _ = c.fill()
	return c.Tick * time.Duration(c.ElectionTicks)
}

// TickFor returns a tick whose election timeout is four times what the disk takes.
func (c Config) TickFor(sync time.Duration) time.Duration {
	c, _ = c.fill()
	tick := 4 * sync / time.Duration(c.ElectionTicks)
	return max(c.Tick, (tick + time.Millisecond - 1).Truncate(time.Millisecond))
}

// Host is the outside of a Replica. Its methods are called inside Process and Tick, and must not
// call back before they return.
type Host interface {
	// Send sends a message to its receiver, or loses it. The message must not be kept.
	Send(m *pb.Message)
	// SendSnapshot sends a MsgSnap, which has no data: that comes from the Saver, in the replica's
	// thread, which is to be ended when it is not read to its end; or, if that is nil, from the disk.
	// Then SnapshotSent is called, later.
	SendSnapshot(m *pb.Message, from *kv.Saver)
	// Answer answers what Propose, Read or Change got with this tag. Once. It must not keep or
	// change a.
	Answer(tag uint64, a *kv.Answer)
	// Save makes all of it durable and then calls Saved, later. Only if Durable; one at a
	// time. The snapshot has no data: it is prepared as the leader's, see Restore.
	Save(hard *pb.HardState, entries []*pb.Entry, snapshot *pb.Snapshot)
	// Prepare writes a snapshot, whose data comes from the Saver in the replica's thread, beside the
	// one that is there, while Saves go on, and then calls Prepared, later. Also called in Step.
	Prepare(s *pb.Snapshot, from *kv.Saver)
	// Compact puts the prepared snapshot in its place, with a log that begins behind it. It
	// comes in order with Save, and nothing waits for it.
	Compact(s *pb.Snapshot, hard *pb.HardState, entries []*pb.Entry)
	// Durable reports whether there is a disk.
	Durable() bool
}

// Replica is one member. See the package documentation.
type Replica struct {
	cfg     Config
	host    Host
	rn      *raft.RawNode
	log     *storage
	store   *kv.Store
	members map[uint64]string // addresses by id
	err     error             // why it ended

	leader  uint64
	state   raft.StateType
	term    uint64
	applied uint64
	got     kv.Answer  // of the read that is being answered
	told    uint64     // the last index that raft has said is committed: not above applied
	ready   raft.Ready // the last one, without a disk; what of it is not applied yet
	end     uint64     // the last index before it
	saving  bool
	// saveFrom is when the write under way began.
	saveFrom monotime.Time
	under    write         // that is being saved
	next     write         // that waits for it
	commits  []*pb.Message // committed entries that wait, see applyCommits
	// durableCommit is the commit index that the disk knows.
	durableCommit uint64
	expect        []kv.Key // see Expect
	behind        bool     // ready is done and raft not told
	changed       bool     // there may be something to process
	durable       bool
	lease         lease
	spare         spare
	committed     uint64 // as far as others may know
	early         early
	inbox         inbox
	offers        *offers
	writers       gather
	readers       gather
	pipeline      gather         // writes that wait for those under way
	proposed      fifo[proposal] // what was given to raft and has no index yet
	waiting       fifo[waiter]   // by index
	reads         []read         // to be asked for
	asked         fifo[batch]
	lastRead      uint64
	served        Reads
	held          map[uint64]*pb.Message // notices of a commit index, by receiver
	heldFrom      monotime.Time          // when the first one came

	now      monotime.Time // as of the last call with a time
	nextTick monotime.Time
	aged     monotime.Time     // up to when the log's time was told
	elected  uint64            // elections that this replica won
	ledFrom  uint64            // the first entry of the term in which it leads
	left     uint64            // the term in which it has proposed to leave a joint configuration
	change   change            // of membership, the last one
	joined   []uint64          // tags that are answered when the joint configuration is left
	parted   map[uint64]uint64 // members that have left under this leader, and with which entry
	retiring bool
	rest     rest
	timing   timing
}

// proposal is a request that waits for its entry. One that is whole is answered when the joint
// configuration that it enters has been left. One that is settled changes nothing, and its answer
// says so. If there are more the next one is in the same entry.
type proposal struct {
	tag     uint64
	more    bool
	whole   bool
	settled bool
}

type waiter struct {
	index uint64
	proposal
}

type read struct {
	key kv.Key
	tag uint64
}

type batch struct {
	ctx   uint64
	at    monotime.Time // when it was asked for
	index uint64
	known bool // index is
	reads []read
}

// New returns a replica that begins with what Boot or a log gave. now is the time.
func New(cfg Config, host Host, from Start, now monotime.Time) (*Replica, error) {
	cfg, err := cfg.fill()
	if err != nil {
		return nil, err
	}
	r := &Replica{cfg: cfg, host: host, store: kv.NewStore(), members: map[uint64]string{},
		durable: host.Durable(), now: now, nextTick: now.Add(cfg.Tick), held: map[uint64]*pb.Message{},
		parted: map[uint64]uint64{},
		rest:   rest{beat: map[uint64]monotime.Time{}},
		expect: make([]kv.Key, 0, 16), offers: &offers{}}
	r.writers.most, r.readers.most, r.pipeline.most = cfg.GatherFor, cfg.GatherFor, maxFollow
	r.log = &storage{replica: r}
	r.timing.now = agreed{0, cfg.Tick, cfg.Lease}
	r.early = early{given: &offers{}, acks: map[uint64]uint64{}, look: r.visit}
	if err := r.load(from); err != nil {
		return nil, err
	}
	if cfg.Keys > 0 {
		r.store.Grow(cfg.Keys)
	}
	r.rn, err = raft.NewRawNode(&raft.Config{
		ID: cfg.ID, ElectionTick: cfg.ElectionTicks, HeartbeatTick: 1, Storage: r.log, Applied: r.applied,
		MaxSizePerMsg: maxMessage, MaxInflightMsgs: maxInflight, MaxInflightBytes: maxInflightBytes,
		MaxUncommittedEntriesSize: maxUncommitted, CheckQuorum: true, PreVote: true,
		ReadOnlyOption: raft.ReadOnlySafe, DisableProposalForwarding: true, StepDownOnRemoval: true,
		Logger: quiet{}, AsyncStorageWrites: r.durable,
	})
	if r.timing.leases() && from.Hard != nil {
		r.lease.silent = cfg.ElectionTicks
	}
	return r, err
}

// Err returns why the replica ended, or nil. An ended replica does nothing any more.
func (r *Replica) Err() error { return r.err }

// guard turns a panic of raft, its answer to a log or message that cannot be, into the
// end of this replica.
func (r *Replica) guard() {
	if p := recover(); p != nil {
		r.fail(fmt.Errorf("%w: %v", ErrRaft, p))
	}
}

func (r *Replica) fail(err error) {
	if r.err == nil {
		r.err = err
		r.lost()
	}
}

// lastIndex is the last index that the log in memory has: with a disk, of what is durable.
func (r *Replica) lastIndex() uint64 {
	return r.log.last()
}

// tail is the last index that raft has given out.
func (r *Replica) tail() uint64 {
	for _, list := range [][]*pb.Entry{r.next.entries, r.under.entries} {
		if n := len(list); n > 0 {
			return list[n-1].GetIndex()
		}
	}
	return r.lastIndex()
}

// Expect tells that a write of this key was proposed: Process looks at the key while the
// messages are on their way, so that it is in the cache when the write is applied.
func (r *Replica) Expect(key kv.Key) {
	if len(r.expect) < cap(r.expect) {
		r.expect = append(r.expect, key)
	}
}

// Read asks for the value of a key, linearizably; like Propose. A replica that does not lead
// refuses it unless anywhere is set: then it asks the leader up to which index to apply, and
// serves the read itself.
func (r *Replica) Read(key kv.Key, anywhere bool, tag uint64) (now kv.Answer, ok bool) {
	if a, no := r.refuse(); no && !(anywhere && r.err == nil && r.follows() && !r.full()) {
		return a, false
	}
	r.changed, r.lease.fresh = true, false
	r.reads = append(r.reads, read{key, tag})
	return now, true
}

// refuse says why a request is not taken.
func (r *Replica) refuse() (a kv.Answer, no bool) {
	switch {
	case r.err != nil:
		return kv.Answer{Status: kv.NotLeader}, true
	case r.state != raft.StateLeader:
		return r.elsewhere(), true
	case r.full():
		return kv.Answer{Status: kv.Busy}, true
	}
	return a, false
}

// full reports whether no more requests are taken.
func (r *Replica) full() bool { return r.retiring || r.requests() >= r.cfg.MaxWaiting }

// follows reports whether this replica knows a leader, another one.
func (r *Replica) follows() bool {
	return r.state == raft.StateFollower && r.leader != 0 && r.leader != r.cfg.ID
}

// elsewhere names the leader.
func (r *Replica) elsewhere() kv.Answer {
	a := kv.Answer{Status: kv.NotLeader, Number: r.leader}
	if r.leader == r.cfg.ID {
		a.Number = 0 // it was
	} else if addr := r.members[r.leader]; addr != "" {
		a.Value, _ = kv.MakeValue(addr) // one that is too long is left out
	}
	return a
}

// lost answers all that waits: leadership is gone, and whether writes are applied unknown.
func (r *Replica) lost() {
	again := &kv.Answer{Status: kv.Retry}
	r.withdraw()
	for r.proposed.len() > 0 {
		r.host.Answer(r.proposed.pop().tag, again)
	}
	for r.waiting.len() > 0 {
		r.host.Answer(r.waiting.pop().tag, again)
	}
	for _, tag := range r.joined {
		r.host.Answer(tag, again)
	}
	r.joined = nil
	r.lostReads()
	clear(r.held)
	clear(r.parted)
	clear(r.log.sent)
}

// lostReads answers the reads that wait: they are to be asked again.
func (r *Replica) lostReads() {
	again := &kv.Answer{Status: kv.Retry}
	r.void()
	r.spare = spare{}
	r.readers.left(0)
	for _, q := range r.reads {
		r.host.Answer(q.tag, again)
	}
	r.reads = nil
	for r.asked.len() > 0 {
		for _, q := range r.asked.pop().reads {
			r.host.Answer(q.tag, again)
		}
	}
}

// Tick tells the time. Missed ticks are left out, so that a process that was stopped, or
// whose clock jumped, first hears what came meanwhile. The caller then calls Process.
func (r *Replica) Tick(now monotime.Time) {
	if r.err != nil {
		return
	}
	defer r.guard()
	r.Now(now)
	if len(r.held) > 0 && (now >= r.heldFrom.Add(r.cfg.CommitDelay) || now < r.heldFrom) {
		r.release()
	}
	r.hurry(now)
	if r.writers.due(now) || r.readers.due(now) || r.pipeline.due(now) {
		r.changed = true
	}
	if early := now.Add(r.cfg.Tick); r.nextTick > early {
		r.nextTick = early // the clock went back
	}
	if n := r.due(now); n > 0 {
		r.nextTick = now.Add(r.cfg.Tick)
		r.changed, r.spare.beat = true, true
		r.settle()
		for range n {
			if !r.waitsForDisk() {
				r.rn.Tick()
			}
		}
		r.look()
		r.log.abandon()
		r.age()
		r.lease.silent = max(0, r.lease.silent-n)
		r.giveUp()
		r.leave()
		r.yield()
	}
}

// giveUp ends reads of a follower whose question to the leader, or the answer, was lost.
func (r *Replica) giveUp() {
	if r.state == raft.StateLeader || r.asked.len() == 0 {
		return
	}
	if at := r.asked.front().at; r.now >= at.Add(r.cfg.ElectionTimeout()/2) || r.now < at {
		r.lostReads()
	}
}

// ageEvery is how often a leader tells the log the time, if somebody needs it.
const ageEvery = 10 * time.Second

// noTag is the tag of what nobody waits for.
const noTag = ^uint64(0)

// age lets the sessions grow older while there are many.
func (r *Replica) age() {
	if r.state != raft.StateLeader || !r.store.Crowded() || r.now < r.aged {
		r.aged = r.now
		return
	}
	past := r.now.Sub(r.aged)
	if past < ageEvery {
		return
	}
	r.aged = r.now
	c := kv.Command{Op: kv.Clock, Cluster: r.cfg.Cluster, Seq: uint64(past / time.Millisecond)}
	r.offers.add(c.Append(nil), noTag)
}

// NextWake returns when Tick wants to be called next.
func (r *Replica) NextWake() monotime.Time {
	wake := r.TickAt()
	if len(r.held) > 0 {
		wake = min(wake, r.heldFrom.Add(r.cfg.CommitDelay))
	}
	if end := r.RoundEnd(); end != 0 {
		wake = min(wake, end)
	}
	return wake
}

// Unreachable tells that a message to a peer was lost.
func (r *Replica) Unreachable(id uint64) {
	if r.err == nil {
		defer r.guard()
		r.changed = true
		r.settle()
		r.rn.ReportUnreachable(id)
	}
}
