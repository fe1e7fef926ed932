package replica

import (
	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// offers holds proposals that raft was not given yet. One message gives it all of a pass: raft
// sends followers one message for it, with all of their entries, and gets one answer. Raft
// copies what it is given, so the memory is used again and again.
type offers struct {
	tags    []uint64
	sizes   []int
	data    []byte // of all, one after the other
	entries []pb.Entry
	list    []*pb.Entry
	msg     pb.Message
	typ     pb.MessageType
}

func (o *offers) add(data []byte, tag uint64) {
	o.tags, o.sizes = append(o.tags, tag), append(o.sizes, len(data))
	o.data = append(o.data, data...)
}

func (o *offers) reset() { o.tags, o.sizes, o.data = o.tags[:0], o.sizes[:0], o.data[:0] }

// message makes the message of all that is there.
func (o *offers) message(from *uint64) *pb.Message {
	o.typ = pb.MsgProp
	o.msg.Type, o.msg.From, o.msg.Entries = &o.typ, from, o.entriesOf(nil)
	return &o.msg
}

// entriesOf makes the entries of all that is there, of a term, or of none yet.
func (o *offers) entriesOf(term *uint64) []*pb.Entry {
	for len(o.entries) < len(o.tags) {
		o.entries = append(o.entries, make([]pb.Entry, 64)...)
	}
	o.list = o.list[:0]
	rest := o.data
	for i, n := range o.sizes {
		e := &o.entries[i]
		e.Data, rest = rest[:n:n], rest[n:]
		e.Term = term
		o.list = append(o.list, e)
	}
	return o.list
}

// Propose proposes the bytes of a write, which it copies. If ok, the answer comes through
// Host.Answer; else it is the one returned.
func (r *Replica) Propose(data []byte, tag uint64) (now kv.Answer, ok bool) {
	if a, no := r.refuse(); no {
		return a, false
	}
	r.changed = true
	r.offers.add(data, tag)
	return now, true
}

// few is how many writes may be on their way to a quorum while others follow them at once.
const few = 4

// gathers reports whether proposals wait for those before them, or for others: see gather. While
// many writes are on their way those that come meanwhile gather, so that they share a message to
// each follower and its answer. With a disk they share its writes anyhow.
func (r *Replica) gathers() bool {
	return !r.durable &&
		(r.waiting.len() > few || r.writers.wait(len(r.offers.tags), r.now))
}

// offering reports whether proposals wait and do not gather.
func (r *Replica) offering() bool { return len(r.offers.tags) > 0 && !r.gathers() }

// offer gives raft all proposals that wait, unless they gather.
func (r *Replica) offer() {
	o := r.offers
	if r.err != nil || !r.offering() {
		return
	}
	r.writers.left(len(o.tags))
	err := r.rn.Step(o.message(&r.cfg.ID))
	for _, tag := range o.tags {
		if err != nil { // there is too much that is not committed, or leadership goes
			r.host.Answer(tag, kv.Answer{Status: kv.Busy})
			continue
		}
		r.proposed.push(proposal{tag: tag})
	}
	o.reset()
}

// withdraw answers proposals that raft was never given. Those that were sent early may be committed
// all the same.
func (r *Replica) withdraw() {
	for _, tag := range r.offers.tags {
		r.host.Answer(tag, r.elsewhere())
	}
	r.offers.reset()
	r.writers.left(0)
	for _, tag := range r.early.given.tags {
		r.host.Answer(tag, kv.Answer{Status: kv.Retry})
	}
	r.early.given.reset()
}
