package erpc

import (
	"bytes"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// The network may say that nobody listens at a peer's port. Anybody can forge that, so it only
// makes this side ask the peer: a few pings with random numbers. If the network then sends back
// the pings themselves, it or a reader of the network speaks, and if the peer is silent meanwhile
// it has gone. A peer that is only slow or stopped has a socket, and draws no such messages.
const (
	// quotesNeeded is how many pings of a series must come back.
	quotesNeeded = 3
	seriesPings  = 6
	// seriesEvery is how long a series waits for its pings, and so how often a peer may have one,
	// whatever is forged: 24 pings a second to a peer that is silent, 4 to one that answers at once.
	seriesEvery = 250 * time.Millisecond
	// maxDoubted bounds the peers that have series at a time.
	maxDoubted = 1024
	// hintsOnce bounds the hints that one tick takes.
	hintsOnce = 64
)

// pingAfter says when the pings of a series are due. Hosts send few such messages, Linux six at
// once and then one a second to each address: three pings follow each other at once, before other
// packets to the peer use them up. The others are for messages that got lost.
var pingAfter = [seriesPings]time.Duration{
	0, 2500 * time.Microsecond, 5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond,
}

// pingSize is the size of a ping in bytes.
const pingSize = wire.HeaderSize + wire.AliveSize

// doubt is a series of pings to a peer of which the network says that it has gone.
type doubt struct {
	peer   *peer
	began  monotime.Time
	quotes quotes // of this series, and of those before if the peer was silent ever since
	sent   int
	seen   [seriesPings]bool
	pings  [seriesPings][pingSize]byte
}

// quotes counts the pings that came back from the network, since a time.
type quotes struct {
	count int
	since monotime.Time
}

// onHints takes what the network says about packets sent earlier.
func (e *engine) onHints() {
	for _, h := range e.port.hints() {
		if h.Kind != transport.HintUnreachable {
			continue
		}
		for p := e.peers.byAddr[h.To]; p != nil; p = p.twin {
			e.doubt(p, h.Quoted)
		}
	}
}

// doubt takes a hint that a peer has gone.
func (e *engine) doubt(p *peer, quoted []byte) {
	d := p.doubt
	if d == nil {
		if len(e.peers.doubts) < maxDoubted {
			d = &doubt{peer: p, began: e.in.Now, quotes: p.quotes}
			if d.quotes.count == 0 || p.watch.HeardSince(d.quotes.since) {
				d.quotes = quotes{since: e.in.Now}
			}
			p.doubt = d
			e.peers.doubts = append(e.peers.doubts, d)
		}
		return
	}
	for i := range d.sent {
		if !d.seen[i] && bytes.HasPrefix(quoted, d.pings[i][:]) {
			d.seen[i] = true
			d.quotes.count++
			return
		}
	}
}

// checkDoubts goes on with the series of pings.
func (e *engine) checkDoubts() {
	t := &e.peers
	for i := 0; i < len(t.doubts); {
		d := t.doubts[i]
		if e.checkDoubt(d) {
			i++
			continue
		}
		d.peer.doubt, d.peer.quotes = nil, d.quotes
		last := len(t.doubts) - 1
		t.doubts[i] = t.doubts[last]
		t.doubts[last] = nil
		t.doubts = t.doubts[:last]
	}
}

// checkDoubt goes on with a series. It reports false when that is over.
func (e *engine) checkDoubt(d *doubt) bool {
	now := e.in.Now
	switch {
	case len(d.peer.sessions) == 0:
		return false
	case d.peer.watch.HeardSince(d.quotes.since): // the peer lives: no pings until the next series
	case d.quotes.count >= quotesNeeded:
		e.lose(d.peer, fmt.Errorf("%w: nobody listens at its port", ErrPeerLost))
		return false
	case d.sent < seriesPings && now >= d.began.Add(pingAfter[d.sent]):
		if e.probeAny(d.peer) {
			copy(d.pings[d.sent][:], e.out.Tx[len(e.out.Tx)-1].Head)
			d.sent++
		}
	}
	return now.Sub(d.began) < seriesEvery
}
