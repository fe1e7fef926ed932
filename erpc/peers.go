package erpc

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// peerTable holds the endpoints that have sessions here. Whether one lives is watched for all of
// its sessions together.
type peerTable struct {
	byKey   map[peerKey]*peer
	byAddr  map[transport.Addr]*peer // the first one of an address; peer.twin leads to the next
	watched []*peer
	doubts  []*doubt

	latest   time.Duration // of a peer's silence until it is asked
	quiet    time.Duration // the same in this sweep
	asked    bool          // a sweep has pinged, and the loop has not slept since
	nextBeat monotime.Time // when those are asked together that are nearly due
	swept    monotime.Time // the last sweep
	// The incarnation of each loop that opened sessions here last, and how many it has.
	epochs map[loopAddr]*peerEpoch
}

func newPeerTable() peerTable {
	return peerTable{
		byKey: make(map[peerKey]*peer), byAddr: make(map[transport.Addr]*peer),
		epochs: make(map[loopAddr]*peerEpoch),
	}
}

// peerKey names an endpoint during the life of its process.
type peerKey struct {
	addr  transport.Addr
	epoch uint64
}

// peer is an endpoint that has sessions here, of either kind.
type peer struct {
	key      peerKey
	watch    session.Watch
	link     session.Link   // for small packets
	seal     *association   // seals what leaves; nil: nothing is sealed
	others   []*association // that open what comes, too
	move     *move          // while it may have another address; nil else
	sessions []*Session
	clients  int           // of sessions: those that this side opened
	turn     int           // which session asks next
	suspect  int           // how many sessions are still to ask whether the peer knows them
	at       int           // place in peerTable.watched
	twin     *peer         // another incarnation of its address
	ending   bool          // another incarnation has taken its place
	loop     uint8         // of its endpoint, if packets are sealed
	doubt    *doubt        // nil without one
	quotes   quotes        // of its series so far
	narrowAt monotime.Time // when it may next be said that its path carries less
}

const (
	// A quiet session asks after verifyAfter heartbeats whether the peer still knows it,
	// though the peer lives.
	verifyAfter = 100
	// suspectsPerSweep bounds the questions after the peer did not know a session.
	suspectsPerSweep = resetsPerSweep / 2
)

// join notes a session with a peer, of which the epoch and the loop are known.
func (t *peerTable) join(
	s *Session, loop uint8, seam *seam, params *session.Params, now monotime.Time,
) {
	key := peerKey{s.end.Peer, s.epoch}
	p := t.byKey[key]
	if p == nil {
		p = &peer{key: key, at: len(t.watched), twin: t.byAddr[key.addr]}
		p.link = session.NewLink(1 << 16)
		t.byKey[key], t.byAddr[key.addr] = p, p
		t.watched = append(t.watched, p)
	}
	if s.via != nil {
		seam.join(p, s.via, loop)
	}
	p.watch.Heard(now)
	if params.Bundles {
		p.link.Limit(params.PerPacket + wire.HeaderSize)
		s.end.SetLink(&p.link)
	}
	s.peer, s.listed = p, int32(len(p.sessions))
	p.sessions = append(p.sessions, s)
	if s.cl != nil {
		p.clients++
	}
	if invariants.Enabled {
		t.check()
	}
}

// leave undoes join, if there was one.
func (t *peerTable) leave(s *Session, seam *seam) {
	p := s.peer
	if p == nil {
		return
	}
	last := p.sessions[len(p.sessions)-1]
	p.sessions[s.listed] = last
	last.listed = s.listed
	p.sessions[len(p.sessions)-1] = nil
	p.sessions = p.sessions[:len(p.sessions)-1]
	s.peer = nil
	if s.cl != nil {
		p.clients--
	}
	if len(p.sessions) == 0 {
		delete(t.byKey, p.key)
		t.separate(p)
		seam.leave(p, t.byAddr[p.key.addr])
		end := t.watched[len(t.watched)-1]
		t.watched[p.at] = end
		end.at = p.at
		t.watched[len(t.watched)-1] = nil
		t.watched = t.watched[:len(t.watched)-1]
	}
	if invariants.Enabled {
		t.check()
	}
}

// separate takes a peer from those of its address.
func (t *peerTable) separate(p *peer) {
	first := t.byAddr[p.key.addr]
	switch {
	case first != p:
		for first.twin != p {
			first = first.twin
		}
		first.twin = p.twin
	case p.twin != nil:
		t.byAddr[p.key.addr] = p.twin
	default:
		delete(t.byAddr, p.key.addr)
	}
}

// check panics if a peer or a session is not where it says, or a peer has no session.
func (t *peerTable) check() {
	if len(t.watched) != len(t.byKey) {
		panic("erpc: a peer is not watched")
	}
	twins := 0
	for _, p := range t.byAddr {
		for ; p != nil; p = p.twin {
			twins++
		}
	}
	if twins != len(t.byKey) {
		panic("erpc: peers at addresses were miscounted")
	}
	for i, p := range t.watched {
		if p.at != i || t.byKey[p.key] != p || len(p.sessions) == 0 {
			panic("erpc: a peer is not in its place")
		}
		if first := t.byAddr[p.key.addr]; first == nil || first.key.addr != p.key.addr {
			panic("erpc: a peer is not at its address")
		}
		clients := 0
		for j, s := range p.sessions {
			if s.peer != p || int(s.listed) != j {
				panic("erpc: a session is not in its place at its peer")
			}
			if s.cl != nil {
				clients++
			}
		}
		if clients != p.clients {
			panic("erpc: the client sessions of a peer were miscounted")
		}
	}
}

// sweep asks silent peers whether they live, and gives up on dead ones.
func (e *engine) sweep() {
	e.peers.beat(e.in.Now, &e.cfg.Timing)
	last := e.peers.swept
	stood := last != 0 && e.in.Now.Sub(last) > e.cfg.Timing.FailureTimeout/2
	e.peers.swept = e.in.Now
	for i := 0; i < len(e.peers.watched); {
		p := e.peers.watched[i]
		if stood { // this process stood still: peers may have given up its sessions
			p.suspectAll()
		}
		e.checkPeer(p)
		if p.seal != nil {
			e.updateKeys(p)
		}
		if i < len(e.peers.watched) && e.peers.watched[i] == p {
			i++ // else it is gone, and another is in its place
		}
	}
}

// beat sets the silence after which peers are asked in this sweep. Once a heartbeat those are
// asked, too, that would be due before the next such sweep. So the answers of idle peers come
// together, and one wake-up of the loop serves many.
func (t *peerTable) beat(now monotime.Time, timing *Timing) {
	t.latest = session.IdleAsk(timing.Heartbeat, timing.FailureTimeout)
	t.quiet = t.latest
	if now >= t.nextBeat {
		t.nextBeat = now.Add(timing.Heartbeat)
		// Less than a whole heartbeat: who answered two beats ago is to wait for the next one, though
		// sweeps are somewhat late.
		t.quiet = max(timing.Heartbeat, t.latest-timing.Heartbeat*3/4)
	}
}

// mayNap reports, once after each sweep that has pinged, whether answers to pings are all that the
// loop expects. A peer whose client has a session here may send a request at any time.
func (e *engine) mayNap() bool {
	asked := e.peers.asked
	e.peers.asked = false
	return asked && len(e.timers.active) == 0 && len(e.table.byKey) == 0 && len(e.peers.doubts) == 0
}

// checkPeer asks a peer what is to be asked. The side that opened sessions asks first; the
// other one only when that should have asked and did not.
func (e *engine) checkPeer(p *peer) {
	t := &e.cfg.Timing
	heartbeat, quiet := t.Heartbeat, e.peers.quiet
	if p.clients == 0 {
		heartbeat *= 2
		quiet = e.peers.latest + t.Heartbeat
	}
	ping, alive := p.watch.Ask(e.in.Now, quiet, t.Heartbeat, t.FailureTimeout)
	if !alive {
		e.lose(p, ErrPeerLost)
		return
	}
	if ping {
		e.peers.asked = true
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
func (e *engine) lose(p *peer, err error) {
	for i := len(p.sessions) - 1; i >= 0; i-- {
		e.end(p.sessions[i], err, SessionLost)
	}
}

// probeAny lets some session ask. It reports false if none is open.
func (e *engine) probeAny(p *peer) bool {
	for range p.sessions {
		if e.probeNext(p, 0) {
			return true
		}
	}
	return false
}

// probeNext lets the next session ask whether the peer knows it, if it is open and has been
// quiet for d. It reports whether it did.
func (e *engine) probeNext(p *peer, d time.Duration) bool {
	if p.turn++; p.turn >= len(p.sessions) {
		p.turn = 0
	}
	s := p.sessions[p.turn]
	if s.state != sessConnected || !s.live.Quiet(e.in.Now, d) {
		return false
	}
	s.live.Probe(s.end, e.rng.Uint64(), e.in.Now, e.out)
	return true
}

// suspectAll notes that the peer did not know one of the sessions: perhaps it knows none.
func (p *peer) suspectAll() {
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
func (t *peerTable) noteEpoch(from loopAddr, epoch uint64) (hurry bool) {
	ps := t.epochs[from]
	if ps == nil || ps.epoch == epoch {
		return false
	}
	p := t.byKey[peerKey{from.addr, ps.epoch}]
	if p == nil {
		return false
	}
	p.suspectAll()
	return true
}

func (t *peerTable) addEpoch(from loopAddr, epoch uint64) {
	ps := t.epochs[from]
	if ps == nil {
		ps = &peerEpoch{}
		t.epochs[from] = ps
	}
	ps.epoch = epoch
	ps.sessions++
}

// dropEpoch notes that a session that from had opened has ended.
func (t *peerTable) dropEpoch(from loopAddr) {
	if ps := t.epochs[from]; ps != nil {
		if ps.sessions--; ps.sessions == 0 {
			delete(t.epochs, from)
		}
	}
}
