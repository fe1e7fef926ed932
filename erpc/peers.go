package erpc

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
)

const (
	// A session that was quiet for verifyAfter heartbeats asks whether the peer still knows it, even
	// if the peer lives.
	verifyAfter = 100
	// suspectsPerSweep bounds the questions after the peer did not know a session.
	suspectsPerSweep = resetsPerSweep / 2
)

// sweep asks silent peers whether they live, and gives up on dead ones.
func (e *engine) sweep() {
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
func (t *assocTable) beat(now monotime.Time, timing *Timing) {
	t.latest = session.PingAfter(timing.Heartbeat, timing.FailureTimeout)
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
	pinged := e.assocs.pinged
	e.assocs.pinged = false
	return pinged && len(e.timers.active) == 0 && len(e.table.byKey) == 0 && len(e.assocs.probes) == 0
}

// checkPeer pings a peer if that is due. The side that opened sessions pings first; the other one
// only when the first one should have pinged and did not.
func (e *engine) checkPeer(p *association) {
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
func (e *engine) lose(p *association, err error) {
	for i := len(p.sessions) - 1; i >= 0; i-- {
		e.end(p.sessions[i], err, SessionLost)
	}
}

// probeAny lets some session ask. It reports false if none is open.
func (e *engine) probeAny(p *association) bool {
	for range p.sessions {
		if e.probeNext(p, 0) {
			return true
		}
	}
	return false
}

// probeNext lets the next session ask whether the peer knows it, if it is open and has been
// quiet for d. It reports whether it did.
func (e *engine) probeNext(p *association, d time.Duration) bool {
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
