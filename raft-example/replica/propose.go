package replica

import (
	"time"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// offers holds proposals that raft was not given yet. One message gives it all of a pass: raft
// sends followers one message for it, with all of their entries, and gets one answer. Raft
// copies what it is given, so the memory is used again and again.
type offers struct {
	tags    []uint64
	runs    []run
	data    []byte // of all, one after the other
	entries []pb.Entry
	list    []*pb.Entry
	msg     pb.Message
	typ     pb.MessageType
}

// run is the writes of one entry. Raft, the messages and the log have a price for each entry, which
// writes that come together share.
type run struct {
	size, writes int
	open         bool // another write may follow
}

// maxRun bounds the bytes of the writes of an entry.
const maxRun = 2 << 10

func (o *offers) add(data []byte, tag uint64) {
	o.tags, o.data = append(o.tags, tag), append(o.data, data...)
	whole := kv.Whole(data)
	if n := len(o.runs); whole && n > 0 && o.runs[n-1].open && o.runs[n-1].size+len(data) <= maxRun {
		o.runs[n-1].size += len(data)
		o.runs[n-1].writes++
		return
	}
	o.runs = append(o.runs, run{len(data), 1, whole})
}

func (o *offers) reset() { o.tags, o.runs, o.data = o.tags[:0], o.runs[:0], o.data[:0] }

// message makes the message of all that is there.
func (o *offers) message(from *uint64) *pb.Message {
	o.typ = pb.MsgProp
	o.msg.Type, o.msg.From, o.msg.Entries = &o.typ, from, o.entriesOf(nil)
	return &o.msg
}

// entriesOf makes the entries of all that is there, of a term, or of none yet.
func (o *offers) entriesOf(term *uint64) []*pb.Entry {
	for len(o.entries) < len(o.runs) {
		o.entries = append(o.entries, make([]pb.Entry, 64)...)
	}
	o.list = o.list[:0]
	rest := o.data
	for i, n := range o.runs {
		e := &o.entries[i]
		e.Data, rest = rest[:n.size:n.size], rest[n.size:]
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
	r.changed, r.rest.level = true, false
	r.offers.add(data, tag)
	return now, true
}

// few is how many writes may be on their way to a quorum while others follow them at once.
const few = 4

// gathers reports whether proposals wait for those before them, or for others: see gather. While
// many writes are on their way those that come meanwhile gather, for maxFollow, so that they share
// a message to each follower and its answer. With a disk they share its writes anyhow.
func (r *Replica) gathers() bool {
	switch {
	case r.durable:
		return false
	case r.waiting.len() > few:
		return r.pipeline.hold(r.now)
	}
	r.pipeline.waiting = false
	return r.writers.wait(len(r.offers.tags), r.now)
}

// maxFollow is how long proposals wait for those before them: longer than a round within a machine
// room takes. On a longer path the next ones need not wait for a round trip.
const maxFollow = 2 * time.Millisecond

// gone notes that n proposals wait no more.
func (r *Replica) gone(n int) {
	r.writers.left(n)
	r.pipeline.waiting = false
}

// offering reports whether proposals wait and do not gather.
func (r *Replica) offering() bool { return len(r.offers.tags) > 0 && !r.gathers() }

// offer gives raft all proposals that wait, unless they gather.
func (r *Replica) offer() {
	o := r.offers
	if r.err != nil || !r.offering() {
		return
	}
	r.gone(len(o.tags))
	if r.rn.Step(o.message(&r.cfg.ID)) == nil {
		r.gave(o)
	} else { // there is too much that is not committed, or leadership goes
		for _, tag := range o.tags {
			r.host.Answer(tag, &kv.Answer{Status: kv.Busy})
		}
	}
	o.reset()
}

// gave notes what raft was given.
func (r *Replica) gave(o *offers) {
	tags := o.tags
	for _, n := range o.runs {
		for i, tag := range tags[:n.writes] {
			r.proposed.push(proposal{tag: tag, more: i+1 < n.writes})
		}
		tags = tags[n.writes:]
	}
}

// withdraw answers proposals that raft was never given. Those that were sent early may be committed
// all the same.
func (r *Replica) withdraw() {
	away := r.elsewhere()
	for _, tag := range r.offers.tags {
		r.host.Answer(tag, &away)
	}
	r.offers.reset()
	r.gone(0)
	for _, tag := range r.early.given.tags {
		r.host.Answer(tag, &kv.Answer{Status: kv.Retry})
	}
	r.early.given.reset()
}
