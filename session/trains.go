package session

// trains brings the packets of a batch into an order in which many leave at once: a transport sends
// a run of packets of one size to one peer as a train. The full packets for a peer come first, and
// what answers packets of large messages behind them, with other small packets. Otherwise every
// return (CR, RFR) would end a train.
//
// Packets of one request keep their order, since only the last packet of a message is not full.
type trains struct {
	links []*Link // with full packets in this batch
	next  []int32 // by place in Tx: the next full packet of its link, or one of the values below
	spare []Tx
}

const (
	notFull  = 0
	lastFull = -1
)

// fullPackets are the full packets of a batch on a link.
type fullPackets struct {
	batch       uint64
	first, last int32 // places in Tx
}

// add notes that the packet which is queued next, at a place of Tx, is full.
func (t *trains) add(l *Link, at int, batch uint64) {
	for len(t.next) <= at {
		t.next = append(t.next, notFull)
	}
	if l.full.batch != batch {
		l.full = fullPackets{batch: batch, first: int32(at)}
		t.links = append(t.links, l)
	} else {
		t.next[l.full.last] = int32(at)
	}
	t.next[at] = lastFull
	l.full.last = int32(at)
}

// order returns the packets in their new order. Those of batches before, which could not be sent,
// stay in front.
func (t *trains) order(tx []Tx, kept int) []Tx {
	out := append(t.spare[:0], tx[:kept]...)
	for _, l := range t.links {
		for at := l.full.first; at != lastFull; at = t.next[at] {
			out = append(out, tx[at])
		}
	}
	for at := kept; at < len(tx); at++ {
		if at >= len(t.next) || t.next[at] == notFull {
			out = append(out, tx[at])
		}
	}
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
