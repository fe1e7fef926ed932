package node

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Request types.
const (
	TypeRaft    = 1
	TypeSnap    = 2
	TypeKV      = 3
	TypeStatus  = 4
	TypeAdmin   = 5
	TypeEcho    = 6
	TypeMembers = 7
	TypeHello   = 8
	TypeBackup  = 9
)

// The errors that end a node; those of package replica do, too.
var (
	ErrForeignLog = errors.New("node: this replica's log is not the one that its peers know: " +
		"remove the replica and add it under a new id")
	ErrCluster    = errors.New("node: wrong cluster id")
	ErrReplica    = errors.New("node: message for another replica")
	ErrBadMessage = errors.New("node: malformed message")
	ErrStranger   = errors.New("node: the sender is no member")
)

// Config configures a Node.
type Config struct {
	replica.Config
	// Log is the random identity of the replica's log.
	Log uint64
	// Peers are the identities of other replicas' logs that the disk knows, by replica.
	Peers map[uint64]uint64
	// Trust says whose sessions are members'. Default: by their addresses.
	Trust Trust
	// Resolve looks up, by the operator's word, addresses such as "10.0.0.1:31850" at which members
	// may be, and calls found with them in the Rpc's thread, at once, later or never. It is called
	// when somebody speaks for a member that no known address is one of, once a second at most. What
	// answers there is asked for the members, see "Who speaks for a member". Default: none.
	Resolve func(found func(addrs []string))
	// Admins alone change members, the leader and the version, and get the whole state. Without such
	// a role any client may.
	Admins Role
	// Formats are those of messages and entries that this member says it knows. Default: those of
	// package kv; tests pass for later versions.
	Formats Formats
	// Silent makes the node say no hello and heed none, as a program of commit 4085675 does, for
	// tests.
	Silent bool
	// Start is the state that the replica begins with.
	Start replica.Start
	// Disk makes the log durable; nil: in memory only.
	Disk Disk
	// Volatile makes OpenFiles take wal.OpenVolatile, for tests: then the end of the process is to
	// the log what a power failure is.
	Volatile bool
	// Clock returns the time, which never goes backwards. Default: the system's.
	Clock func() monotime.Time
	// Gather is how many events a pass of the loop has before the next one gathers: it handles
	// all of its events at its end, with one Ready, one write and one message to each peer. In
	// others the first event is handled at once, for latency. Default 4; negative: always gather.
	Gather int
	// Charge is called before each step of a write, with how many entries or answers it has. A
	// simulation takes virtual time for it. Default: none.
	Charge func(s Step, n int)
	// Logger gets rare events. Default: none.
	Logger *slog.Logger
}

// Step is a part of a replica's work for writes.
type Step uint8

// The steps. The client waits for all but StepRest, which follows when the packets have left.
const (
	StepPropose Step = iota // the leader appends a write and makes the messages to its followers
	StepAppend              // a follower appends entries and makes its answer
	StepAck                 // the leader counts a follower's answer
	StepAnswer              // what is committed is applied, and the client answered; reads, too
	StepRest                // raft's books, and what a follower applies, after some events
)

// Disk makes records durable, in order. Done is called in the Rpc's thread, later.
type Disk interface {
	// Raise tells the format of what follows. Nothing of it is written before a program that does not
	// know the format would refuse the disk.
	Raise(format uint8)
	// Save saves; a snapshot, without its data, is the one that Receive took.
	Save(hard *pb.HardState, entries []*pb.Entry, snapshot *pb.Snapshot, done func(error))
	// Prepare takes a snapshot of this replica, whose data has size bytes, while Saves go on; Compact
	// puts it in its place. Receive takes one of the leader. One of each is written at a time.
	Prepare(size uint64) Sink
	Receive(size uint64) Sink
	// Open gives out the data of the snapshot that is there, or prepared.
	Open(s *pb.Snapshot, done func(Stream, error))
	Compact(s *pb.Snapshot, hard *pb.HardState, entries []*pb.Entry, done func(error))
	// SavePeers makes the identities of other replicas' logs durable; in no order with the rest.
	SavePeers(peers map[uint64]uint64, done func(error))
	// SyncTime is how long a write takes until it is durable, as measured; 0 if unknown.
	SyncTime() time.Duration
	// SyncP99 is what one write in a hundred takes longer than; 0 if unknown.
	SyncP99() time.Duration
}

// Node is a replica on an Rpc.
type Node struct {
	cfg    Config
	rpc    *erpc.Rpc
	rep    *replica.Replica
	peers  map[uint64]*peer
	known  identities
	guests guests
	saved  uint8 // the format that the disk was told
	wants  uint8 // the format that peers must know, as of the last flush
	agreed bool  // the log had a timing then

	polling bool // see upgrade

	refusals [len(verdicts)]monotime.Time // until when each reason is not told again
	touched  []*peer                      // with something to send or to answer
	parser   replica.Parser
	waiting  slots // requests that wait for Host.Answer, by tag
	admin    admin
	backup   backup
	err      error

	get        *receipt // a snapshot that comes in, or nil
	own        *own     // one of this replica on its way to the disk, or nil
	compacting bool     // another one is put in its place
	transfers  uint64   // to peers, so far
	ended      []ended  // of them, those that the replica does not know of

	busy   bool // something was processed in this pass, or nothing shall be before its end
	events int  // in this pass
	moved  bool // packets may have been left to send since the last Poll

	nextCheck monotime.Time // of the disk
	polled    monotime.Time // when it was last polled
	hang      hang
	leaving   leaving
	requests  int           // of clients, so far
	nextHello monotime.Time // to members that the disk does not know
	nextTurn  monotime.Time // when requests that are still open are answered
	nextLost  monotime.Time // when the log takes a lost answer again

	commits  erpc.Histogram // from propose to commit at the leader
	measured bool
}

// New makes a node. Register its handlers, make the Rpc, then Attach it.
func New(cfg Config) (*Node, error) {
	if cfg.Clock == nil {
		cfg.Clock = monotime.Now
	}
	if cfg.Incarnation == 0 {
		cfg.Incarnation = NewLogID()
	}
	if cfg.Formats == (Formats{}) {
		cfg.Formats = Formats{0, kv.Format}
	}
	if cfg.Gather == 0 {
		cfg.Gather = 4
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	n := &Node{cfg: cfg, peers: map[uint64]*peer{}, busy: cfg.Gather < 0}
	n.known.durable = maps.Clone(cfg.Peers)
	rep, err := replica.New(cfg.Config, n, cfg.Start, cfg.Clock())
	n.rep, n.cfg.Start = rep, replica.Start{} // which may be large
	if c, ok := cfg.Start.State.(io.Closer); ok {
		err = errors.Join(err, c.Close())
	}
	return n, err
}

// ErpcConfig changes c to what suits replicas with this election timeout: peers that
// died are noticed, and dialled again, before a few elections have passed.
func ErpcConfig(c erpc.Config, election time.Duration) erpc.Config {
	c.Timing.FailureTimeout = max(5*election, 500*time.Millisecond)
	c.Timing.Heartbeat = c.Timing.FailureTimeout / 5
	c.Timing.ConnectTimeout = max(2*election, 100*time.Millisecond)
	c.Timing.RTOMax = min(max(election/2, 20*time.Millisecond), 200*time.Millisecond)
	if c.Slots == 0 {
		c.Slots = 32
	}
	if c.LeastWindow == 0 {
		c.LeastWindow = 8
	}
	return c
}

// Registrar takes handlers. An erpc.Nexus is one.
type Registrar interface {
	Register(typ uint8, mode erpc.Mode, fn erpc.Handler) error
}

// Register registers the node's handlers. Errors: those of erpc.Nexus.Register.
func (n *Node) Register(x Registrar) error {
	return RegisterLate(x, func() *Node { return n })
}

// RegisterLate registers the handlers of a node that is made later, when the addresses of
// all members are known. Requests before that are refused.
func RegisterLate(x Registrar, get func() *Node) error {
	for typ, fn := range map[uint8]func(*Node, erpc.ReqHandle){
		TypeRaft: (*Node).onRaft, TypeSnap: (*Node).onSnap, TypeKV: (*Node).onKV,
		TypeStatus: (*Node).onStatus, TypeAdmin: asAdmin((*Node).onAdmin), TypeEcho: (*Node).onEcho,
		TypeMembers: (*Node).onMembers, TypeHello: (*Node).onHello,
		TypeBackup: asAdmin((*Node).onBackup),
	} {
		err := x.Register(typ, erpc.Dispatch, func(r erpc.ReqHandle) {
			if n := get(); n != nil {
				fn(n, r)
				return
			}
			_ = r.RespondError(&erpc.Error{Code: erpc.CodeUnavailable, Text: "starting"})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Attach gives the node its Rpc, before the loop runs.
func (n *Node) Attach(r *erpc.Rpc) { n.rpc = r }

// Replica returns the replica, for the Rpc's thread only.
func (n *Node) Replica() *replica.Replica { return n.rep }

// Rpc returns the endpoint.
func (n *Node) Rpc() *erpc.Rpc { return n.rpc }

// Err returns why the node ended, or nil.
func (n *Node) Err() error {
	if n.err == nil {
		n.err = n.rep.Err()
	}
	return n.err
}

func (n *Node) fail(err error) {
	if n.err == nil {
		n.err = err
		n.cfg.Logger.Error("replica ended", "replica", n.cfg.ID, "error", err)
	}
}

// Poll does what is left after a pass of the loop, and follows the time. It reports
// whether there may be packets to send: then the loop shall not wait.
func (n *Node) Poll() bool {
	now := n.cfg.Clock()
	n.checkStall(now)
	n.rep.Tick(now)
	n.tellEnded()
	if n.events > 0 {
		n.charge(StepRest, n.events)
	}
	n.process()
	n.release(now)
	n.handed(now)
	n.checkDisk()
	n.acquaint(now)
	more := n.own.step()
	n.busy, n.events = n.events > n.cfg.Gather, 0
	moved := n.moved
	n.moved = false
	return moved || more
}

// due reports whether something that is done at most once in a time may be done now.
func due(next *monotime.Time, now monotime.Time, every time.Duration) bool {
	if now < *next && *next <= now.Add(every) { // else the clock went back
		return false
	}
	*next = now.Add(every)
	return true
}

// Rests reports whether there is nothing to do but to hear of the others, and to be heard of.
func (n *Node) Rests() bool {
	return n.rep.Rests() && n.own == nil && n.get == nil && n.backup.s == nil
}

// NextWake returns when Poll wants to be called next.
func (n *Node) NextWake() monotime.Time { return n.rep.NextWake() }

// work handles what an event changed: the first of a pass that somebody waits for at once, so that
// its packets leave in the same pass; the rest of it, and later events, in Poll.
func (n *Node) work() {
	n.events++
	if n.busy || n.Err() != nil {
		return
	}
	if n.rep.Leases() {
		n.rep.Now(n.cfg.Clock())
	}
	n.busy = n.rep.Quick()
	n.flush()
}

// charge reports a step to Config.Charge.
func (n *Node) charge(s Step, count int) {
	if n.cfg.Charge != nil {
		n.cfg.Charge(s, count)
	}
}

func (n *Node) process() {
	if n.Err() != nil {
		return
	}
	n.rep.Process()
	if len(n.touched) > 0 {
		n.flush()
	}
}

// Run runs the Rpc's loop until stop returns true or the node has ended.
func (n *Node) Run(stop func() bool) error {
	// A loop that sleeps is to look at the clock. The ticks themselves come from the clock, in Poll.
	var armed, ticks monotime.Time
	wake, err := n.rpc.AfterFunc(n.rep.TickTime(), func() { ticks = 0 })
	if err != nil {
		return err
	}
	round, err := n.rpc.AfterFunc(n.rep.TickTime(), func() {})
	if err != nil {
		return errors.Join(err, wake.Stop())
	}
	err = n.rpc.Run(func() bool {
		if n.Poll() {
			n.rpc.Wake()
		}
		if end := n.rep.RoundEnd(); end != armed {
			if armed = end; end != 0 {
				_ = round.Reset(end.Sub(n.cfg.Clock()))
			}
		}
		if at := n.rep.TickAt(); at != ticks {
			ticks = at
			_ = wake.Reset(max(1, at.Sub(n.cfg.Clock())))
		}
		return n.Err() != nil || stop()
	})
	return errors.Join(n.Err(), err, wake.Stop(), round.Stop())
}

// Turn steps several nodes once, in this order, in one goroutine: replicas as threads, where
// there are fewer cores than replicas. A node may be in the list more than once.
func Turn(nodes []*Node) error {
	for _, n := range nodes {
		if _, err := n.rpc.RunOnce(); err != nil {
			return fmt.Errorf("replica %d: %w", n.cfg.ID, err)
		}
		if n.Poll(); n.Err() != nil {
			return fmt.Errorf("replica %d: %w", n.cfg.ID, n.Err())
		}
	}
	return nil
}

// Durable implements replica.Host.
func (n *Node) Durable() bool { return n.cfg.Disk != nil }

// Save implements replica.Host.
func (n *Node) Save(hard *pb.HardState, entries []*pb.Entry, snapshot *pb.Snapshot) {
	if f := n.rep.Format(); f != n.saved {
		n.cfg.Disk.Raise(f)
		n.saved = f
	}
	n.cfg.Disk.Save(hard, entries, snapshot, func(err error) {
		n.rep.Saved(err)
		n.work()
	})
}

// Answer implements replica.Host.
func (n *Node) Answer(tag uint64, a *kv.Answer) {
	q, ok := n.waiting.take(tag)
	if !ok {
		return
	}
	if q.began != 0 && a.Status == kv.OK {
		n.commits.Add(int64(n.cfg.Clock().Sub(q.began)))
	}
	if q.save {
		n.saving(q.req, a)
		return
	}
	if q.first && a.Status == kv.OK {
		a = &kv.Answer{Status: kv.Busy, Value: cut(joining)}
	}
	n.charge(StepAnswer, 1)
	n.answer(q.req, a)
}

func (n *Node) answer(req erpc.ReqHandle, a *kv.Answer) {
	n.moved = true
	buf, err := req.Alloc(a.Size())
	if err == nil {
		a.Append(buf.Data()[:0])
		if err = req.Respond(buf); err != nil {
			buf.Free()
		}
	}
	if err != nil && !errors.Is(err, erpc.ErrResponded) { // else the client is gone
		n.answerLost(err)
	}
}

// answerLost tells, not often, of an answer that the client has not got: who asks for much decides
// how many these are.
func (n *Node) answerLost(err error) {
	if now := n.cfg.Clock(); now >= n.nextLost {
		n.nextLost = now.Add(refusalsEvery)
		n.cfg.Logger.Warn("answer lost", "error", err)
	}
}

// MeasureCommits makes the leader measure the time from a request's arrival to its commit.
func (n *Node) MeasureCommits() { n.commits, n.measured = erpc.Histogram{}, true }

// Commits returns what was measured.
func (n *Node) Commits() *erpc.Histogram { return &n.commits }
