package erpc

import (
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
)

// peerKey names an endpoint during the life of its process.
type peerKey struct {
	addr  transport.Addr
	epoch uint64
}

// peer is an endpoint that has sessions here, of either kind.
type peer struct {
	key      peerKey
	watch    session.Watch
	sessions []*Session
	clients  int // of sessions: those that this side opened
	turn     int // which session asks next
	doubt    int // how many sessions are still to ask whether the peer knows them
	at       int // place in engine.watched
}

const (
	// verifyAfter is after how many heartbeats a quiet session asks whether the peer still
	// knows it, though the peer lives.
	verifyAfter = 100
	// sweepsPerHeartbeat is how often silent peers are looked for.
	sweepsPerHeartbeat = 4
	// doubtsPerSweep bounds the questions after the peer did not know a session.
	doubtsPerSweep = resetsPerSweep / 2
)

// join notes a session with a peer; its epoch is known.
func (e *engine) join(s *Session) {
	key := peerKey{s.peer, s.epoch}
	p := e.peers[key]
	if p == nil {
		p = &peer{key: key, at: len(e.watched)}
		e.peers[key] = p
		e.watched = append(e.watched, p)
	}
	p.watch.Heard(e.now)
	s.other, s.listed = p, int32(len(p.sessions))
	p.sessions = append(p.sessions, s)
	if s.cl != nil {
		p.clients++
	}
}

// leave undoes join.
func (e *engine) leave(s *Session) {
	p := s.other
	if p == nil {
		return
	}
	last := p.sessions[len(p.sessions)-1]
	p.sessions[s.listed] = last
	last.listed = s.listed
	p.sessions[len(p.sessions)-1] = nil
	p.sessions = p.sessions[:len(p.sessions)-1]
	s.other = nil
	if s.cl != nil {
		p.clients--
	}
	if len(p.sessions) > 0 {
		return
	}
	delete(e.peers, p.key)
	end := e.watched[len(e.watched)-1]
	e.watched[p.at] = end
	end.at = p.at
	e.watched[len(e.watched)-1] = nil
	e.watched = e.watched[:len(e.watched)-1]
}

// sweep asks silent peers whether they live, and gives up on dead ones.
func (e *engine) sweep() {
	for i := 0; i < len(e.watched); {
		p := e.watched[i]
		e.look(p)
		if i < len(e.watched) && e.watched[i] == p {
			i++ // else it is gone, and another is in its place
		}
	}
}

// look asks a peer what is to be asked. The side that opened sessions asks first; the
// other one only when that should have asked and did not.
func (e *engine) look(p *peer) {
	t := &e.cfg.Timing
	heartbeat := int64(t.Heartbeat)
	if p.clients == 0 {
		heartbeat *= 2
	}
	ping, alive := p.watch.Ask(e.now, heartbeat, int64(t.FailureTimeout))
	if !alive {
		for len(p.sessions) > 0 {
			e.fail(p.sessions[len(p.sessions)-1], ErrPeerLost, SessionLost)
		}
		return
	}
	for range p.sessions {
		if !ping || e.ask(p, 0) {
			break
		}
	}
	for range min(p.doubt, doubtsPerSweep) {
		p.doubt--
		e.ask(p, 0)
	}
	// All of them in the course of verifyAfter heartbeats.
	const sweeps = verifyAfter * sweepsPerHeartbeat
	for range (len(p.sessions) + sweeps - 1) / sweeps {
		e.ask(p, verifyAfter*heartbeat)
	}
}

// ask lets the next session ask whether the peer knows it, if it is open and has been
// quiet for ns. It reports whether it did.
func (e *engine) ask(p *peer, ns int64) bool {
	if p.turn++; p.turn >= len(p.sessions) {
		p.turn = 0
	}
	s := p.sessions[p.turn]
	if s.state != sessConnected || !s.live.Quiet(e.now, ns) {
		return false
	}
	s.live.Probe(e.now, e.out)
	e.collect(s)
	return true
}

// doubted notes that the peer did not know one of the sessions: perhaps it knows none.
func (p *peer) doubted() {
	if p.doubt == 0 {
		p.doubt = len(p.sessions)
	}
}

// peerEpoch is what is known of an address that has opened sessions here.
type peerEpoch struct {
	epoch    uint64
	sessions int
}

// noteEpoch asks after the sessions of an address whose endpoint is not the one that
// opened them: if it restarted it answers with Reset, and they end. They do not end
// at once, since the Connect may be an old one that was under way for long.
func (e *engine) noteEpoch(from transport.Addr, epoch uint64) {
	ps := e.epochs[from]
	if ps == nil || ps.epoch == epoch {
		return
	}
	if p := e.peers[peerKey{from, ps.epoch}]; p != nil {
		p.doubted()
		e.nextSweep = e.now
	}
}

func (e *engine) addEpoch(from transport.Addr, epoch uint64) {
	ps := e.epochs[from]
	if ps == nil {
		ps = &peerEpoch{}
		e.epochs[from] = ps
	}
	ps.epoch = epoch
	ps.sessions++
}
