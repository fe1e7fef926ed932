package erpc

import (
	"time"

	"github.com/userspace-rpc/erpc/session"
)

// minProbe is how often a suspicious session asks at most.
const minProbe = 20 * time.Millisecond

// probePath looks after a client session whose requests have no answers, though they were
// repeated and the peer answers small packets: the path may not carry its packets any more. If that
// is so, the packets of all sessions with the peer become smaller.
func (e *engine) probePath(s *Session) {
	since, stuck := s.cl.Suspects()
	if !stuck {
		s.probe = nil
		return
	}
	if !s.live.HeardSince(since) {
		return // the peer is silent, as far as is known: scanLoss asks it
	}
	if s.probe == nil {
		s.probe = session.NewPathProbe(s.cl.PacketSize(), max(minProbe, 2*s.cl.SRTT()))
	}
	switch s.probe.Tick(s.end, e.rng.Uint64, e.in.Now, e.out) {
	case session.ProbePassed:
		s.probe = nil
		s.cl.Trust()
	case session.ProbeTooLong:
		s.probe = nil
		e.lowerCuts(s)
	}
}

// lowerCuts makes the packets of all sessions with a peer smaller, since those of s do not get
// through.
func (e *engine) lowerCuts(s *Session) {
	size := s.cl.NextSize()
	if size == 0 {
		s.cl.Trust()
		return
	}
	for _, other := range s.assoc.sessions {
		if other.cl != nil && other.state == sessConnected {
			other.cl.LowerCut(size)
		}
	}
	e.cfg.Logger.Info("path carries smaller packets only", "peer", s.end.Peer.String(), "bytes", size)
}
