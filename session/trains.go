package session

import "github.com/userspace-rpc/erpc/wire"

// trains brings the packets of a batch into an order in which many leave at once: a transport sends
// a run of packets of one size to one peer as a train. Messages of one packet come first: a train
// takes tens of microseconds to leave, and callers wait for small messages. Then the full packets
// for each peer, and behind them what is no message and has none beside it: returns (CR, RFR), each
// of which would end a train, and ends of large messages.
//
// Packets of one request keep their order, since only the last packet of a message is not full.
type trains struct {
	links []*Link // with full packets in this batch
	next  []int32 // by place in Tx: the next full packet of its link, or one of the values below
	spare []Tx
}

const (
	first    = 0 // what leaves before the full packets
	lastFull = -1
	follows  = -2 // what leaves behind them
)

// fullPackets are the full packets of a batch on a link.
type fullPackets struct {
	batch       uint64
	first, last int32 // places in Tx
}

// add notes that the packet which is queued next, at a place of Tx, is full.
func (t *trains) add(l *Link, at int, batch uint64) {
	if l.full.batch != batch {
		l.full = fullPackets{batch: batch, first: int32(at)}
		t.links = append(t.links, l)
	} else {
		t.next[l.full.last] = int32(at)
	}
	t.note(at, lastFull)
	l.full.last = int32(at)
}

// follows reports whether a packet of n bytes, header included, leaves behind full ones: if it is
// neither full nor a message, all of it.
func (e *End) follows(h *wire.Header, n int) bool {
	if n >= e.PerPacket+wire.HeaderSize {
		return false
	}
	message := h.Type == wire.TypeReq || h.Type == wire.TypeResp || h.Type == wire.TypeErr
	return !message || n != wire.HeaderSize+int(h.MsgSize)
}

// behindFull returns the link of what leaves behind the full packets of a batch.
func (l *Link) behindFull() *Link {
	if l.behind == nil {
		l.behind = &Link{limit: l.limit, inside: l.inside, follows: true}
	}
	return l.behind
}

// giveWay has what is queued leave behind the full packet that comes now, the first one of its
// batch, unless a message is in it.
func (l *Link) giveWay(o *Out) {
	if l.batch != o.batch || l.message {
		return
	}
	b := l.behindFull()
	b.bundle, l.bundle = l.bundle, bundle{}
	o.trains.follow(int(b.item))
	if b.buf != nil {
		o.links = append(o.links, b)
	}
}

// follow notes that the packet at a place of Tx, maybe the one that is queued next, leaves behind
// full ones.
func (t *trains) follow(at int) { t.note(at, follows) }

func (t *trains) note(at int, what int32) {
	for len(t.next) <= at {
		t.next = append(t.next, first)
	}
	t.next[at] = what
}

// order returns the packets in their new order. Those of batches before, which could not be sent,
// stay in front.
func (t *trains) order(tx []Tx, kept int) []Tx {
	out := append(t.spare[:0], tx[:kept]...)
	for at := kept; at < len(tx); at++ {
		if at >= len(t.next) || t.next[at] == first {
			out = append(out, tx[at])
		}
	}
	for _, l := range t.links {
		for at := l.full.first; at != lastFull; at = t.next[at] {
			out = append(out, tx[at])
		}
	}
	for at := kept; at < len(t.next); at++ {
		if t.next[at] == follows {
			out = append(out, tx[at])
		}
	}
	clear(tx) // it must not keep the memory of messages
	t.spare = tx[:0]
	t.forget()
	return out
}

// forget forgets the packets of the batch.
func (t *trains) forget() {
	if len(t.links) == 0 {
		return
	}
	clear(t.links)
	t.links = t.links[:0]
	t.next = t.next[:0]
}
