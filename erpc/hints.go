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
	// seriesPings are sent in a series: some messages get lost, and hosts send only a few a second.
	seriesPings = 6
	pingEvery   = 15 * time.Millisecond
	// seriesEvery is how long a series waits for its pings, and so how often a peer may have one,
	// whatever is forged: 24 pings a second to a peer that is silent, 4 to one that answers.
	seriesEvery = 250 * time.Millisecond
	// maxDoubted bounds the peers that have series at a time.
	maxDoubted = 1024
	// hintsOnce bounds the hints that one tick takes.
	hintsOnce = 64
)

// pingSize is the size of a ping in bytes.
const pingSize = wire.HeaderSize + wire.AliveSize

// doubt is a series of pings to a peer of which the network says that it has gone.
type doubt struct {
	peer   *peer
	began  monotime.Time
	pingAt monotime.Time // when the next ping is due
	sent   int
	quoted int // of those that were sent
	seen   [seriesPings]bool
	pings  [seriesPings][pingSize]byte
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
			p.doubt = &doubt{peer: p, began: e.in.Now, pingAt: e.in.Now}
			e.peers.doubts = append(e.peers.doubts, p.doubt)
		}
		return
	}
	for i := range d.sent {
		if !d.seen[i] && bytes.HasPrefix(quoted, d.pings[i][:]) {
			d.seen[i] = true
			d.quoted++
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
		d.peer.doubt = nil
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
	case d.peer.watch.HeardSince(d.began): // the peer lives: no pings until the next series
	case d.quoted >= quotesNeeded:
		e.lose(d.peer, fmt.Errorf("%w: nobody listens at its port", ErrPeerLost))
		return false
	case d.sent < seriesPings && now >= d.pingAt:
		d.pingAt = now.Add(pingEvery)
		if e.probeAny(d.peer) {
			copy(d.pings[d.sent][:], e.out.Tx[len(e.out.Tx)-1].Head)
			d.sent++
		}
	}
	return now.Sub(d.began) < seriesEvery
}
