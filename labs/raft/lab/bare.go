package lab

import (
	"io"
	"log"
	"sync"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// bare is a RawNode of raft with nothing around it: no state machine and no bytes. Its messages
// wait in a box as they are, for an RPC that stands for them.
type bare struct {
	rn  *raft.RawNode
	log *raft.MemoryStorage
	rd  raft.Ready
	due bool // rd is done and raft not told
	put int  // entries committed
	all []*bare

	mu  sync.Mutex
	box []*pb.Message // to this one
}

// newBares returns as many, the first of which leads.
func newBares(n int) (all []*bare, err error) {
	var ids []uint64
	for i := range n {
		ids = append(ids, uint64(i+1))
	}
	for _, id := range ids {
		b := &bare{log: raft.NewMemoryStorage()}
		err := b.log.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{
			ConfState: &pb.ConfState{Voters: ids}, Index: new(uint64(1)), Term: new(uint64(1))}})
		if err != nil {
			return nil, err
		}
		b.rn, err = raft.NewRawNode(&raft.Config{ID: id, ElectionTick: 10, HeartbeatTick: 1,
			Storage: b.log, Applied: 1, MaxSizePerMsg: 256 << 10, MaxInflightMsgs: 256,
			CheckQuorum: true, PreVote: true, Logger: silent})
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	for _, b := range all {
		b.all = all
	}
	err = all[0].rn.Campaign()
	for range 10 { // nobody asks for the time later, so that it goes on leading
		for _, b := range all {
			b.take()
			b.rest()
			b.put = 0
		}
	}
	return all, err
}

// ready takes a Ready and sends, which is all that others wait for.
func (b *bare) ready() {
	b.advance()
	b.rd, b.due = b.rn.Ready(), true
	if !raft.IsEmptyHardState(b.rd.HardState) {
		_ = b.log.SetHardState(b.rd.HardState)
	}
	_ = b.log.Append(b.rd.Entries)
	for _, m := range b.rd.Messages {
		to := b.all[m.GetTo()-1]
		to.mu.Lock()
		to.box = append(to.box, m)
		to.mu.Unlock()
	}
	for _, e := range b.rd.CommittedEntries {
		if len(e.Data) > 0 {
			b.put++
		}
	}
}

func (b *bare) advance() {
	if b.due {
		b.due = false
		b.rn.Advance(b.rd)
	}
}

// keepBare is how many entries the log of a bare one keeps.
const keepBare = 10_000

// rest does what nobody waits for.
func (b *bare) rest() {
	for b.advance(); b.rn.HasReady(); b.advance() {
		b.ready()
	}
	first, _ := b.log.FirstIndex()
	if last, _ := b.log.LastIndex(); last > first+keepBare*3/2 {
		b.compact(last - keepBare)
	}
}

// drop lets the collector have the entries of the log.
func (b *bare) drop() {
	last, _ := b.log.LastIndex()
	b.compact(last)
}

// compact forgets entries up to an index, as far as raft has given them out to be applied.
func (b *bare) compact(to uint64) {
	_ = b.log.Compact(min(to, b.rn.BasicStatus().Applied)) // fails if it is so already
}

// take steps what has come.
func (b *bare) take() {
	b.mu.Lock()
	list := b.box
	b.box = nil
	b.mu.Unlock()
	for _, m := range list {
		_ = b.rn.Step(m)
	}
}

// propose steps an entry, which raft copies.
func (b *bare) propose(data []byte) {
	_ = b.rn.Step(&pb.Message{Type: pb.MsgProp.Enum(), From: new(uint64(1)),
		Entries: []*pb.Entry{{Data: data}}})
}

// silent drops raft's log.
var silent = &raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)}
