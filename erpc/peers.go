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
	// The incarnation of each address that opened sessions here last, and how many it has.
	epochs map[transport.Addr]*peerEpoch
}

func newPeerTable() peerTable {
	return peerTable{
		byKey: make(map[peerKey]*peer), byAddr: make(map[transport.Addr]*peer),
		epochs: make(map[transport.Addr]*peerEpoch),
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
	link     session.Link // for small packets
	seal     sealer       // nil: nothing is sealed
	sessions []*Session
	clients  int           // of sessions: those that this side opened
	turn     int           // which session asks next
	suspect  int           // how many sessions are still to ask whether the peer knows them
	at       int           // place in peerTable.watched
	twin     *peer         // another incarnation of its address
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

// join notes a session with a peer; its epoch is known.
func (t *peerTable) join(s *Session, seam *seam, params *session.Params, now monotime.Time) {
	key := peerKey{s.end.Peer, s.epoch}
	p := t.byKey[key]
	if p == nil {
		p = &peer{key: key, at: len(t.watched), twin: t.byAddr[key.addr]}
		p.link = session.NewLink(1 << 16)
		t.byKey[key], t.byAddr[key.addr] = p, p
		t.watched = append(t.watched, p)
		seam.join(p)
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
		seam.leave(p)
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
	for i := 0; i < len(e.peers.watched); {
		p := e.peers.watched[i]
		e.checkPeer(p)
		if i < len(e.peers.watched) && e.peers.watched[i] == p {
			i++ // else it is gone, and another is in its place
		}
	}
}

// checkPeer asks a peer what is to be asked. The side that opened sessions asks first; the
// other one only when that should have asked and did not.
func (e *engine) checkPeer(p *peer) {
	t := &e.cfg.Timing
	heartbeat := t.Heartbeat
	if p.clients == 0 {
		heartbeat *= 2
	}
	ping, alive := p.watch.Ask(e.in.Now, heartbeat, t.FailureTimeout)
	if !alive {
		e.lose(p, ErrPeerLost)
		return
	}
	if ping {
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

// peerEpoch is the incarnation of an address that has opened sessions here.
type peerEpoch struct {
	epoch    uint64
	sessions int
}

// noteEpoch asks after the sessions of an address whose endpoint is not the one that
// opened them: if it restarted it answers with Reset, and they end. They do not end
// at once, since the Connect may be an old one that was under way for long. It reports whether
// the next sweep is to come at once.
func (t *peerTable) noteEpoch(from transport.Addr, epoch uint64) (hurry bool) {
	ps := t.epochs[from]
	if ps == nil || ps.epoch == epoch {
		return false
	}
	p := t.byKey[peerKey{from, ps.epoch}]
	if p == nil {
		return false
	}
	p.suspectAll()
	return true
}

func (t *peerTable) addEpoch(from transport.Addr, epoch uint64) {
	ps := t.epochs[from]
	if ps == nil {
		ps = &peerEpoch{}
		t.epochs[from] = ps
	}
	ps.epoch = epoch
	ps.sessions++
}

// dropEpoch notes that a session that from had opened has ended.
func (t *peerTable) dropEpoch(from transport.Addr) {
	if ps := t.epochs[from]; ps != nil {
		if ps.sessions--; ps.sessions == 0 {
			delete(t.epochs, from)
		}
	}
}
