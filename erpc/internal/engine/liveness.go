package engine

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

const (
	// A session that was quiet for verifyAfter heartbeats asks whether the peer still knows it, even
	// if the peer lives.
	verifyAfter = 100
	// suspectsPerSweep bounds the questions after the peer did not know a session.
	suspectsPerSweep = resetsPerSweep / 2
)

// sweep asks silent peers whether they live, and gives up on dead ones.
func (e *Engine) sweep() {
	e.assocs.beat(e.in.Now, &e.cfg.Timing)
	last := e.assocs.swept
	stood := last != 0 && e.in.Now.Sub(last) > e.cfg.Timing.FailureTimeout/2
	e.assocs.swept = e.in.Now
	for i := 0; i < len(e.assocs.watched); {
		p := e.assocs.watched[i]
		if stood { // this process stood still: peers may have given up its sessions
			p.suspectAll()
		}
		e.checkPeer(p)
		if p.keys != nil {
			e.updateKey(p)
		}
		if i < len(e.assocs.watched) && e.assocs.watched[i] == p {
			i++ // else it is gone, and another is in its place
		}
	}
	e.expireAssocs()
}

// beat sets the silence after which peers are asked in this sweep. Once a heartbeat a sweep also
// asks the peers that would be due before the next such sweep. So the answers of idle peers come
// together, and one wake-up of the loop serves many.
func (t *assocTable) beat(now monotime.Time, timing *session.Timing) {
	t.latest = session.PingAfter(timing.Heartbeat, timing.FailureTimeout)
	t.quiet = t.latest
	if now >= t.nextBeat {
		t.nextBeat = now.Add(timing.Heartbeat)
		// Less than a whole heartbeat: who answered two beats ago is to wait for the next one, though
		// sweeps are somewhat late.
		t.quiet = max(timing.Heartbeat, t.latest-timing.Heartbeat*3/4)
	}
}

// MayNap reports, once after each sweep that has pinged, whether answers to pings are all that the
// loop expects. A peer whose client has a session here may send a request at any time.
func (e *Engine) MayNap() bool {
	pinged := e.assocs.pinged
	e.assocs.pinged = false
	return pinged && e.Quiet()
}

// Quiet reports whether no packet is awaited, but for answers to pings.
func (e *Engine) Quiet() bool { return len(e.timers.active) == 0 && !e.Opening() }

// Opening reports whether a session is being opened, or a path probed.
func (e *Engine) Opening() bool { return len(e.table.byKey) > 0 || len(e.assocs.probes) > 0 }

// checkPeer pings a peer if that is due. The side that opened sessions pings first; the other one
// only when the first one should have pinged and did not.
func (e *Engine) checkPeer(p *association) {
	t := &e.cfg.Timing
	heartbeat, quiet := t.Heartbeat, e.assocs.quiet
	if p.clients == 0 {
		heartbeat *= 2
		quiet = e.assocs.latest + t.Heartbeat
	}
	ping, alive := p.watch.PingDue(e.in.Now, quiet, t.Heartbeat, t.FailureTimeout)
	if !alive {
		e.lose(p, ErrPeerLost)
		return
	}
	if ping {
		e.assocs.pinged = true
		e.probeAny(p)
	}
	for range min(p.suspect, suspectsPerSweep) {
		p.suspect--
		e.probeNext(p, 0)
	}
	// All of them in the course of verifyAfter heartbeats.
	const sweeps = verifyAfter * sweepsPerHeartbeat
	for range (len(p.sessions) + sweeps - 1) / sweeps {
		e.probeNext(p, verifyAfter*heartbeat)
	}
}

// lose ends all sessions with a peer that has gone.
func (e *Engine) lose(p *association, err error) {
	for i := len(p.sessions) - 1; i >= 0; i-- {
		e.end(p.sessions[i], err, Lost)
	}
}

// probeAny lets some session ask. It reports false if none is open.
func (e *Engine) probeAny(p *association) bool {
	for range p.sessions {
		if e.probeNext(p, 0) {
			return true
		}
	}
	return false
}

// probeNext lets the next session ask whether the peer knows it, if it is open and has been
// quiet for d. It reports whether it did.
func (e *Engine) probeNext(p *association, d time.Duration) bool {
	if p.turn++; p.turn >= len(p.sessions) {
		p.turn = 0
	}
	s := p.sessions[p.turn]
	if s.state != connected || !s.live.Quiet(e.in.Now, d) {
		return false
	}
	s.live.Probe(s.End, e.rng.Uint64(), e.in.Now, e.Out)
	return true
}

// Probe asks the peer of an open session whether it knows it.
func (e *Engine) Probe(s *Conn, now monotime.Time) {
	s.live.Probe(s.End, e.rng.Uint64(), now, e.Out)
}

// suspectAll notes that the peer did not know one of the sessions: perhaps it knows none.
func (p *association) suspectAll() {
	if p.suspect == 0 {
		p.suspect = len(p.sessions)
	}
}

// loopAddr names an endpoint whatever its incarnation: one address may have several, each with
// an epoch of its own.
type loopAddr struct {
	addr transport.Addr
	loop uint8
}

// peerEpoch is the incarnation of an endpoint that has opened sessions here.
type peerEpoch struct {
	epoch    uint64
	sessions int
}

// noteEpoch asks after the sessions of a sender whose endpoint is not the one that
// opened them: if it restarted it answers with Reset, and they end. They do not end
// at once, since the Connect may be an old one that was under way for long. It reports whether
// the next sweep is to come at once.
func (t *assocTable) noteEpoch(from loopAddr, epoch uint64) (hurry bool) {
	ps := t.epochs[from]
	if ps == nil || ps.epoch == epoch {
		return false
	}
	p := t.plain[peerKey{from.addr, ps.epoch}]
	if p == nil {
		return false
	}
	p.suspectAll()
	return true
}

func (t *assocTable) addEpoch(from loopAddr, epoch uint64) {
	ps := t.epochs[from]
	if ps == nil {
		ps = &peerEpoch{}
		t.epochs[from] = ps
	}
	ps.epoch = epoch
	ps.sessions++
}

// dropEpoch notes that a session that from had opened has ended.
func (t *assocTable) dropEpoch(from loopAddr) {
	if ps := t.epochs[from]; ps != nil {
		if ps.sessions--; ps.sessions == 0 {
			delete(t.epochs, from)
		}
	}
}

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
	// MaxICMPOnce bounds the ICMP errors that one tick takes.
	MaxICMPOnce = 64
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

// lastWait is how long the last ping of a series waits for its answer.
const lastWait = 50 * time.Millisecond

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
func (e *Engine) onHints() {
	for _, h := range e.port.Hints() {
		if h.Kind == transport.HintGone {
			e.gone(h.To)
			continue
		}
		if h.Kind == transport.HintUnreachable && len(e.handshakes.repeating) > 0 {
			e.bounced(&h)
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

// gone ends the sessions with a peer that the transport knows to have ended, and those that are
// being opened there.
func (e *Engine) gone(at transport.Addr) {
	for _, s := range e.handshakes.repeating {
		if s.state == connecting && s.End.Peer == at {
			e.end(s, fmt.Errorf("%w: the server's process or endpoint has ended", ErrConnect), Refused)
		}
	}
	for _, p := range slices.Clone(e.assocs.byAddr[at]) { // ends may drop associations
		e.lose(p, fmt.Errorf("%w: its process or endpoint has ended", ErrPeerLost))
	}
}

// beginDeathProbe begins a series of pings to a peer, or returns the one that goes on; nil if there
// is no room, or nothing to lose.
func (e *Engine) beginDeathProbe(p *association) *deathProbe {
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
func (e *Engine) quoted(d *deathProbe, quoted []byte) {
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
		if s.Client != nil && s.state == connected && s.Client.Awaits(&h, quoted) {
			return true
		}
	}
	return false
}

// narrow takes the network's word that a packet was too large for the path to a peer. Whether that
// is so is found out by probes, as soon as a request is under way.
func (e *Engine) narrow(p *association, h *transport.Hint) {
	if e.in.Now < p.narrowAt {
		return
	}
	p.narrowAt = e.in.Now.Add(seriesEvery)
	for _, s := range p.sessions {
		if s.Client != nil && s.state == connected && s.Client.PacketSize() > h.MTU {
			s.Client.SuspectPath(e.in.Now)
		}
	}
}

// checkDeathProbes goes on with the series of pings.
func (e *Engine) checkDeathProbes() {
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
func (e *Engine) checkDeathProbe(d *deathProbe) bool {
	now := e.in.Now
	if d.peer.watch.HeardSince(d.quotes.since) {
		d.hear(now)
	}
	switch {
	case len(d.peer.sessions) == 0:
		return false
	case d.quotes.count >= quotesNeeded && d.probed() &&
		(!d.heard || now >= d.quotes.since.Add(lastWords)):
		e.vacate(d.peer)
		return false
	case d.quotes.count > 0 && d.unanswered(now):
		e.vacate(d.peer)
		return false
	case d.moved >= quotesNeeded && !d.heard:
		e.lose(d.peer, fmt.Errorf("%w: this side's address has changed", ErrPeerLost))
		return false
	case d.reborn && !d.heard && d.sent >= quotesNeeded && now >= d.began.Add(e.rebornAfter(d.peer)):
		e.restarted(d.peer)
		return false
	case !d.heard && d.sent < seriesPings && now >= d.began.Add(pingAfter[d.sent]):
		if e.probeAny(d.peer) {
			copy(d.pings[d.sent][:], e.Out.Tx[len(e.Out.Tx)-1].Head)
			d.sent++
		}
	}
	return now.Sub(d.began) < seriesEvery || d.reborn && !d.heard
}

// unanswered reports whether the peer has answered none of all pings of the series, though it had
// time to. Then one packet that came back is enough: hosts send few of them, Linux six at once and
// then one a second, to all processes of another host.
func (d *deathProbe) unanswered(now monotime.Time) bool {
	return d.sent == seriesPings && !d.heard && 2*d.peer.roundTrip() <= lastWait &&
		now >= d.began.Add(pingAfter[seriesPings-1]+lastWait)
}

// vacate ends the sessions with a peer at whose port nobody listens any more.
func (e *Engine) vacate(p *association) {
	e.vacated(p)
	e.lose(p, fmt.Errorf("%w: nobody listens at its port", ErrPeerLost))
}

// roundTrip returns the longest smoothed round-trip time of this side's sessions with a peer.
func (p *association) roundTrip() (rtt time.Duration) {
	for _, s := range p.sessions {
		if s.Client != nil {
			rtt = max(rtt, s.Client.SRTT())
		}
	}
	return rtt
}

// probed reports whether the peer was probed since the series began. What the network quotes of
// sealed datagrams counts only with silence to fresh pings, since anybody on the path can quote
// them; in the clear he could as well forge an end.
func (d *deathProbe) probed() bool { return d.peer.field == 0 || d.sent >= 2 }

// rebornAfter is how long a peer must be silent if another incarnation seems to have replaced it:
// three retransmission timeouts of its sessions. A server has none.
func (e *Engine) rebornAfter(p *association) time.Duration {
	after := time.Duration(0)
	for _, s := range p.sessions {
		if s.Client != nil {
			_, rto, _ := s.Client.Owed()
			after = max(after, 3*rto)
		}
	}
	if after == 0 {
		return e.cfg.Timing.FailureTimeout / 4
	}
	return min(after, e.cfg.Timing.FailureTimeout)
}

// restarted ends the sessions with a peer that another incarnation has replaced.
func (e *Engine) restarted(p *association) {
	for i := len(p.sessions) - 1; i >= 0; i-- {
		e.end(p.sessions[i], ErrPeerRestarted, Restarted)
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

// A client's address can change while it has sessions: a translator has forgotten it, or its host
// has gone to another network. Where packets are authenticated its association goes along
// (RFC 9000, section 9); a server's address does not change.
//
// A datagram that opens is its association's, wherever it came from. If it is also the newest of
// all, a ping with a random number goes where it came from. All else goes on to the address that is
// known. When a pong with the number comes from the new address the path is proved (RFC 9000,
// section 8.2), and the association moves.
//
// An attacker who copies a packet and is faster than its sender can draw a ping to any address. It
// is less than twice as large as the smallest packet, so less than the three times that RFC 9000,
// section 8.1, allows, and one leaves in migrationEvery at most for each peer. The pong comes from
// the client's own address, so nothing moves, unless both ping and pong are carried through the new
// address: an attacker that can do that is on the path already.

// migrationEvery is how often a ping asks whether a peer has moved.
const migrationEvery = 5 * time.Millisecond

// migration is an address that a peer may have moved to.
type migration struct {
	to     transport.Addr
	number uint64        // that a pong from there repeats
	nextAt monotime.Time // when it may be asked again
}

// onNewAddr takes an opened packet of an association that came from another address than the known
// one.
func (e *Engine) onNewAddr(a *association, pkt []byte, from transport.Addr) {
	if a.opener {
		return
	}
	m := a.migration
	if m != nil && m.to == from && m.answeredBy(pkt) {
		e.migrate(a, from)
		return
	}
	if !a.keys.IsNewest() || m != nil && e.in.Now < m.nextAt {
		return
	}
	if m == nil || m.to != from {
		m = &migration{to: from, number: e.rng.Uint64()}
		a.migration = m
	}
	m.nextAt = e.in.Now.Add(migrationEvery)
	session.PingAt(&m.to, a.field, m.number, e.Out)
}

// answeredBy reports whether a packet is the pong to the last ping.
func (m *migration) answeredBy(pkt []byte) bool {
	var h wire.Header
	if h.Parse(pkt) != nil || h.Type != wire.TypeMgmt || wire.Op(h.ReqType) != wire.OpPong {
		return false
	}
	var a wire.Alive
	a.Parse(pkt[wire.HeaderSize:])
	return a.Seq == m.number
}

// migrate moves an association to an address that its peer has proved.
func (e *Engine) migrate(a *association, to transport.Addr) {
	e.port.Drain() // what is queued is for the old one
	from := a.addr
	e.assocs.leaveAddr(a)
	a.addr, a.migration = to, nil
	e.assocs.byAddr[to] = append(e.assocs.byAddr[to], a)
	for _, s := range a.sessions {
		s.End.Peer = to
		s.showPeer()
		e.stats.SessionsMoved++
	}
	e.cfg.Logger.Info("peer moved", "from", from.String(), "to", to.String())
}
