package erpc

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// The network may say that nobody listens at a peer's port. Anybody can forge that, so it only
// makes this side ask the peer: a few pings with random numbers. If the network then sends back
// the pings themselves, it or a reader of the network speaks, and if the peer is silent meanwhile
// it has gone. A peer that is only slow or stopped has a socket, and draws no such messages.
//
// Hosts send few such messages, Linux six at once and then one a second to each address, and
// requests under way use them up. So packets of those count as pings do: to forge one takes the
// session's token, and with that any answer can be forged.
const (
	// quotesNeeded is how many pings of a series must come back.
	quotesNeeded = 3
	seriesPings  = 6
	// seriesEvery is how long a series waits for its pings, and so how often a peer may have one,
	// whatever is forged: 24 pings a second to a peer that is silent, 4 to one that answers at once.
	seriesEvery = 250 * time.Millisecond
	// maxDeathProbes bounds the peers that have series at a time.
	maxDeathProbes = 1024
	// maxICMPOnce bounds the ICMP errors that one tick takes.
	maxICMPOnce = 64
	// lastWords is how long a peer that was heard must be silent. Packets that came before the
	// network's word may be read after it.
	lastWords = 10 * time.Millisecond
	// maxQuoted bounds the ICMP errors of a series that are looked at as packets of requests.
	maxQuoted = 16
)

// pingAfter says when the pings of a series are due. Three follow each other at once, before other
// packets to the peer use the messages up. The others are for messages that got lost.
var pingAfter = [seriesPings]time.Duration{
	0, 2500 * time.Microsecond, 5 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond,
}

// pingSize is the size of a ping in bytes.
const pingSize = wire.HeaderSize + wire.AliveSize

// sentRing holds the first bytes of the sealed datagrams that left last. Nobody guesses them, so
// who quotes some reads the network, or is the network.
type sentRing struct {
	heads [64][wire.QuoteSize]byte
	next  uint8
}

// note notes a datagram.
func (r *sentRing) note(pkt []byte) {
	copy(r.heads[r.next%64][:], pkt)
	r.next++
}

// take reports whether a datagram that left lately is quoted, once.
func (r *sentRing) take(quoted []byte) bool {
	if len(quoted) < wire.QuoteSize || !wire.IsSealed(quoted) {
		return false
	}
	want := [wire.QuoteSize]byte(quoted)
	for i := range r.heads {
		if r.heads[i] == want {
			r.heads[i] = [wire.QuoteSize]byte{}
			return true
		}
	}
	return false
}

// deathProbe is a series of pings to a peer of which the network says that it has gone, or which
// another incarnation seems to have replaced.
type deathProbe struct {
	peer     *association
	reborn   bool // another incarnation of the peer has proved its identity
	moved    int  // pings that the server answered with "I know you under another address"
	began    monotime.Time
	quotes   quotes // of this series, and of those before if the peer was silent ever since
	sent     int
	seen     [seriesPings]bool
	pings    [seriesPings][pingSize]byte
	heard    bool // the peer, since the series began
	examined int  // ICMP errors that were looked at as packets of requests
	data     [quotesNeeded]quotedData
	datas    int
}

// quotedData holds the first bytes of a packet of a request, as they came back.
type quotedData struct {
	mem [transport.QuotedMax]byte
	n   int
}

// dataHead is how many bytes name a packet of a request, alone or the first in a bundle: session,
// request, packet and try. One alone may have fewer.
const dataHead = wire.HeaderSize + 4

// quotes counts the packets that came back from the network, while the peer was silent since a
// time.
type quotes struct {
	count int
	since monotime.Time
}

// onHints takes what the transport has heard: ICMP errors that packets sent earlier have drawn, and
// the ends of peers.
func (e *engine) onHints() {
	for _, h := range e.port.hints() {
		if h.Kind == transport.HintGone {
			e.gone(h.To)
			continue
		}
		for _, p := range e.assocs.byAddr[h.To] {
			switch h.Kind {
			case transport.HintUnreachable:
				if d := e.beginDeathProbe(p); d != nil {
					e.quoted(d, h.Quoted)
				}
			case transport.HintTooBig:
				e.narrow(p, &h)
			}
		}
	}
}

// gone ends the sessions with a peer that the transport knows to have ended.
func (e *engine) gone(at transport.Addr) {
	for _, p := range slices.Clone(e.assocs.byAddr[at]) { // ends may drop associations
		e.lose(p, fmt.Errorf("%w: its process or endpoint has ended", ErrPeerLost))
	}
}

// beginDeathProbe begins a series of pings to a peer, or returns the one that goes on; nil if there
// is no room, or nothing to lose.
func (e *engine) beginDeathProbe(p *association) *deathProbe {
	if p.deathProbe != nil {
		return p.deathProbe
	}
	if len(e.assocs.probes) == maxDeathProbes || len(p.sessions) == 0 {
		return nil
	}
	d := &deathProbe{peer: p, began: e.in.Now, quotes: p.quotes}
	if d.quotes.count == 0 || p.watch.HeardSince(d.quotes.since) {
		d.quotes = quotes{since: e.in.Now}
	}
	p.deathProbe = d
	e.assocs.probes = append(e.assocs.probes, d)
	return d
}

// quoted takes a packet to a peer that came back from the network.
func (e *engine) quoted(d *deathProbe, quoted []byte) {
	p := d.peer
	if p.field != 0 {
		if p.sent != nil && p.sent.take(quoted) {
			d.quotes.count++
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
	if d.datas < quotesNeeded && d.examined < maxQuoted {
		d.examined++
		if !d.has(quoted) && p.awaits(quoted) {
			d.data[d.datas].n = copy(d.data[d.datas].mem[:], quoted)
			d.datas++
			d.quotes.count++
		}
	}
}

// isPing reports whether a number is that of a ping of the series, of a peer in the clear, for
// which nothing has come yet. Each counts once.
func (d *deathProbe) isPing(seq uint64) bool {
	for i := range d.sent {
		var a wire.Alive
		if a.Parse(d.pings[i][wire.HeaderSize:]); a.Seq == seq && !d.seen[i] {
			d.seen[i] = true
			return true
		}
	}
	return false
}

// has reports whether a packet of a request came back before.
func (d *deathProbe) has(quoted []byte) bool {
	for i := range d.datas {
		if x := &d.data[i]; bytes.HasPrefix(quoted, x.mem[:min(x.n, dataHead)]) {
			return true
		}
	}
	return false
}

// awaits reports whether some session with p awaits the answer to a packet of which the network
// gave the first bytes back, perhaps with those of other packets that left with it behind them.
func (p *association) awaits(quoted []byte) bool {
	var h wire.Header
	if len(quoted) < wire.HeaderSize {
		return false
	}
	if h.ParseFirst(quoted) != nil && h.Parse(quoted[:wire.HeaderSize]) != nil {
		return false
	}
	for _, s := range p.sessions {
		if s.cl != nil && s.state == sessConnected && s.cl.Awaits(&h, quoted) {
			return true
		}
	}
	return false
}

// narrow takes the network's word that a packet was too large for the path to a peer. Whether that
// is so is found out by probes, as soon as a request is under way.
func (e *engine) narrow(p *association, h *transport.Hint) {
	if e.in.Now < p.narrowAt {
		return
	}
	p.narrowAt = e.in.Now.Add(seriesEvery)
	for _, s := range p.sessions {
		if s.cl != nil && s.state == sessConnected && s.cl.PacketSize() > h.MTU {
			s.cl.SuspectPath(e.in.Now)
		}
	}
}

// checkDeathProbes goes on with the series of pings.
func (e *engine) checkDeathProbes() {
	t := &e.assocs
	for i := 0; i < len(t.probes); {
		d := t.probes[i]
		if e.checkDeathProbe(d) {
			i++
			continue
		}
		d.peer.deathProbe, d.peer.quotes = nil, d.quotes
		last := len(t.probes) - 1
		t.probes[i] = t.probes[last]
		t.probes[last] = nil
		t.probes = t.probes[:last]
	}
}

// checkDeathProbe goes on with a series. It reports false when that is over.
func (e *engine) checkDeathProbe(d *deathProbe) bool {
	now := e.in.Now
	if d.peer.watch.HeardSince(d.quotes.since) {
		d.hear(now)
	}
	switch {
	case len(d.peer.sessions) == 0:
		return false
	case d.quotes.count >= quotesNeeded && d.probed() &&
		(!d.heard || now >= d.quotes.since.Add(lastWords)):
		e.lose(d.peer, fmt.Errorf("%w: nobody listens at its port", ErrPeerLost))
		return false
	case d.moved >= quotesNeeded && !d.heard:
		e.lose(d.peer, fmt.Errorf("%w: this side's address has changed", ErrPeerLost))
		return false
	case d.reborn && !d.heard && d.sent >= quotesNeeded && now >= d.began.Add(e.rebornAfter(d.peer)):
		e.restarted(d.peer)
		return false
	case !d.heard && d.sent < seriesPings && now >= d.began.Add(pingAfter[d.sent]):
		if e.probeAny(d.peer) {
			copy(d.pings[d.sent][:], e.out.Tx[len(e.out.Tx)-1].Head)
			d.sent++
		}
	}
	return now.Sub(d.began) < seriesEvery || d.reborn && !d.heard
}

// probed reports whether the peer was probed since the series began. What the network quotes of
// sealed datagrams counts only with silence to fresh pings, since anybody on the path can quote
// them; in the clear he could as well forge an end.
func (d *deathProbe) probed() bool { return d.peer.field == 0 || d.sent >= 2 }

// rebornAfter is how long a peer must be silent if another incarnation seems to have replaced it:
// three retransmission timeouts of its sessions. A server has none.
func (e *engine) rebornAfter(p *association) time.Duration {
	after := time.Duration(0)
	for _, s := range p.sessions {
		if s.cl != nil {
			_, rto, _ := s.cl.Owed()
			after = max(after, 3*rto)
		}
	}
	if after == 0 {
		return e.cfg.Timing.FailureTimeout / 4
	}
	return min(after, e.cfg.Timing.FailureTimeout)
}

// restarted ends the sessions with a peer that another incarnation has replaced.
func (e *engine) restarted(p *association) {
	for i := len(p.sessions) - 1; i >= 0; i-- {
		e.end(p.sessions[i], ErrPeerRestarted, SessionRestarted)
	}
}

// hear notes that the peer was heard. It gets no more pings until the next series, and those that
// came back count no more. Packets of requests do that the peer has not answered yet: what was
// heard may have waited here since before it died.
func (d *deathProbe) hear(now monotime.Time) {
	d.heard = true
	kept := 0
	for i := range d.datas {
		if x := &d.data[i]; d.peer.awaits(x.mem[:x.n]) {
			d.data[kept] = *x
			kept++
		}
	}
	d.datas, d.moved = kept, 0
	d.quotes = quotes{count: kept, since: now}
}
