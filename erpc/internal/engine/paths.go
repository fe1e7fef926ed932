package engine

import (
	"time"

	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// paths turns what the transport says of the way to a peer into what sessions are made with.
type paths struct {
	cfg   *Config
	plans []*pathPlan
}

// pathPlan holds the pacing of client sessions whose hosts add the same delay to round trips.
type pathPlan struct {
	hostDelay time.Duration
	timing    session.Timing
	pacing    *session.Pacing // nil for no congestion control
}

// plan returns the plan for sessions on a path. A transport has few kinds of them.
func (p *paths) plan(path *transport.Path) *pathPlan {
	for _, plan := range p.plans {
		if plan.hostDelay == path.HostDelay {
			return plan
		}
	}
	plan := &pathPlan{
		hostDelay: path.HostDelay,
		timing:    p.cfg.Timing,
		pacing:    p.cfg.Pacing(path.HostDelay),
	}
	// A host that holds packets up by itself is no sign of loss.
	plan.timing.RTOMin = minRTO(&p.cfg.Timing, path.HostDelay)
	p.plans = append(p.plans, plan)
	return plan
}

// rtoHosts is the least retransmission timeout in units of what the hosts add to a round trip:
// a loop that shares its core waits several times as long now and then.
const rtoHosts = 20

// minRTO returns the least retransmission timeout where the hosts add delay to a round trip.
func minRTO(t *session.Timing, delay time.Duration) time.Duration {
	return max(t.RTOMin, min(rtoHosts*delay, t.RTOMax))
}

// limit returns the size of the largest packet to offer on a path, in bytes. A path that seems to
// carry less than every session needs is given a try.
func (p *paths) limit(path *transport.Path) int {
	if path.MTU < session.MinMTU {
		return p.cfg.MTU
	}
	return min(p.cfg.MTU, path.MTU)
}

// offer returns what this endpoint proposes for a session on a path whose packets are up to mtu
// bytes. Bundles are checked as a whole first, so their sender must not be able to change them
// then.
func (p *paths) offer(mtu int, path *transport.Path) wire.Offer {
	o := wire.Offer{
		Credits: uint16(p.credits(mtu)), Slots: uint16(p.cfg.Slots), MTU: uint32(mtu),
		MaxMessage: uint32(p.cfg.MaxMessage), Waiting: uint16(max(0, p.cfg.Waiting)),
	}
	if p.cfg.Checksum || !path.Checksummed {
		o.Features = wire.FeatureChecksum
	}
	if !p.cfg.NoBundles && !path.Alone && !path.Shared {
		o.Features |= wire.FeatureBundle
	}
	return o
}

// Bounds of the credits that nobody has set. Small packets need more of them: 32 of 1500 bytes
// are less than what one segmented send takes.
const (
	windowBytes    = 256 << 10
	maxCredits     = 128
	sessionsInRing = 4 // with all their credits in use
)

// credits returns how many credits to propose with packets of up to mtu bytes.
func (p *paths) credits(mtu int) int {
	if p.cfg.Credits != 0 {
		return p.cfg.Credits
	}
	limit := min(maxCredits, p.cfg.RxRing/sessionsInRing)
	return max(session.DefaultCredits, min(windowBytes/max(mtu, 1), limit))
}

// minProbe is how often a suspicious session asks at most.
const minProbe = 20 * time.Millisecond

// probePath looks after a client session whose requests have no answers, though they were
// repeated and the peer answers small packets: the path may not carry its packets any more. If that
// is so, the packets of all sessions with the peer become smaller.
func (e *Engine) probePath(s *Conn) {
	since, stuck := s.Client.Suspects()
	if !stuck {
		s.probe = nil
		return
	}
	if !s.live.HeardSince(since) {
		return // the peer is silent, as far as is known: scanLoss asks it
	}
	if s.probe == nil {
		s.probe = session.NewPathProbe(s.Client.PacketSize(), max(minProbe, 2*s.Client.SRTT()))
	}
	switch s.probe.Tick(s.End, e.rng.Uint64, e.in.Now, e.Out) {
	case session.ProbePassed:
		s.probe = nil
		s.Client.Trust()
	case session.ProbeTooLong:
		s.probe = nil
		e.lowerCuts(s)
	}
}

// lowerCuts makes the packets of all sessions with a peer smaller, since those of s do not get
// through.
func (e *Engine) lowerCuts(s *Conn) {
	size := s.Client.NextSize()
	if size == 0 {
		s.Client.Trust()
		return
	}
	for _, other := range s.assoc.sessions {
		if other.Client != nil && other.state == connected {
			other.Client.LowerCut(size)
		}
	}
	e.cfg.Logger.Info("path carries smaller packets only", "peer", s.End.Peer.String(), "bytes", size)
}
