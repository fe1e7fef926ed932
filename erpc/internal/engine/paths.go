package erpc

import (
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/cc/dcqcn"
	"github.com/userspace-rpc/erpc/cc/timely"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// paths turns what the transport says of the way to a peer into what sessions are made with.
type paths struct {
	cfg    *Config
	mtu    int // the largest packet on any path, bytes
	rxRing int // packets that can wait at the transport
	link   int64
	plans  []*pathPlan
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
		timing:    session.Timing(p.cfg.Timing),
		pacing:    p.cfg.pacing(p.link, path.HostDelay),
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
func minRTO(t *Timing, delay time.Duration) time.Duration {
	return max(t.RTOMin, min(rtoHosts*delay, t.RTOMax))
}

// limit returns the size of the largest packet to offer on a path, in bytes. A path that seems to
// carry less than every session needs is given a try.
func (p *paths) limit(path *transport.Path) int {
	if path.MTU < MinMTU {
		return p.mtu
	}
	return min(p.mtu, path.MTU)
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
	limit := min(maxCredits, p.rxRing/sessionsInRing)
	return max(session.DefaultCredits, min(windowBytes/max(mtu, 1), limit))
}

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

// CCAlgorithm names a congestion control.
type CCAlgorithm uint8

const (
	// CCTimely follows round-trip times (package cc/timely). It is the default.
	CCTimely CCAlgorithm = iota
	// CCDCQCN follows ECN marks (package cc/dcqcn). The switches must set them and the
	// transport must show them.
	CCDCQCN
	// CCNone lets sessions send as fast as their credits allow.
	CCNone
	// CCCustom uses Congestion.Custom.
	CCCustom
)

// Congestion configures the congestion control of client sessions. The zero value is
// Timely with its defaults. Server sessions need none: they only answer (eRPC,
// section 5.2.1).
type Congestion struct {
	Algorithm CCAlgorithm
	// Timely holds the parameters of CCTimely; zero fields mean their defaults.
	Timely timely.Config
	// DCQCN holds the parameters of CCDCQCN; zero fields mean their defaults.
	DCQCN dcqcn.Config
	// Custom is the algorithm of CCCustom.
	Custom cc.Algorithm
	// LinkRate is the rate of the network link in bits per second: the rate at which
	// sessions start, and the most they send at. 0 means what the transport says, and
	// 100 Gbit/s if it does not know.
	LinkRate int64
}

// Rates that a link can have, bits per second.
const (
	defaultLinkRate = 100e9
	minLinkRate     = 1e3
	maxLinkRate     = 100e12
)

// check returns a *ConfigError if a field is wrong.
func (c *Congestion) check() error {
	if c.LinkRate != 0 && (c.LinkRate < minLinkRate || c.LinkRate > maxLinkRate) {
		return &ConfigError{"Congestion.LinkRate", fmt.Sprintf("is %d, must be %d to %d bit/s",
			c.LinkRate, int64(minLinkRate), int64(maxLinkRate))}
	}
	switch c.Algorithm {
	case CCTimely:
		_, err := c.Timely.Fill()
		var bad *timely.ConfigError
		if errors.As(err, &bad) {
			return &ConfigError{"Congestion.Timely." + bad.Field, bad.Reason}
		}
	case CCDCQCN:
		_, err := c.DCQCN.Fill()
		var bad *dcqcn.ConfigError
		if errors.As(err, &bad) {
			return &ConfigError{"Congestion.DCQCN." + bad.Field, bad.Reason}
		}
	case CCNone:
	case CCCustom:
		if c.Custom.New == nil {
			return &ConfigError{"Congestion.Custom.New", "is nil: CCCustom needs it"}
		}
	default:
		return &ConfigError{"Congestion.Algorithm",
			fmt.Sprintf("is %d, must be at most CCCustom", c.Algorithm)}
	}
	return nil
}

// linkRate returns the rate of the link in bits per second, where the transport says caps.
func (c *Congestion) linkRate(caps *transport.Caps) int64 {
	for _, rate := range []int64{c.LinkRate, caps.LinkRate} {
		if rate != 0 {
			return rate
		}
	}
	return defaultLinkRate
}

// pacing makes what client sessions share whose hosts add the same delay to round trips; nil for
// CCNone. Link is the link's rate in bits per second.
func (cfg *Config) pacing(link int64, hosts time.Duration) *session.Pacing {
	c := &cfg.Congestion
	p := &session.Pacing{
		LinkRate: float64(link) / 8, Slack: wheelConfig.Granularity + hosts/4,
		NoRateBypass: cfg.Experiment.NoRateBypass, NoPacingBypass: cfg.Experiment.NoPacingBypass,
	}
	switch c.Algorithm {
	case CCNone:
		return nil
	case CCTimely:
		t := c.timely(hosts)
		p.Algorithm = cc.Algorithm{Name: "timely", Bypass: t.TLow}
		p.Algorithm.New = func(link float64) cc.Controller { return timely.New(t, link) }
	case CCDCQCN:
		d, _ := c.DCQCN.Fill() // checked when the Nexus was made
		p.Algorithm = cc.Algorithm{Name: "dcqcn", Bypass: dcqcn.Bypass}
		p.Algorithm.New = func(link float64) cc.Controller { return dcqcn.New(&d, link) }
	case CCCustom:
		p.Algorithm = c.Custom
	}
	return p
}

// timely returns the parameters for a path. Thresholds that the application did
// not set are raised by the time that the hosts add to round trips.
func (c *Congestion) timely(hosts time.Duration) *timely.Config {
	t, _ := c.Timely.Fill() // checked when the Nexus was made
	if c.Timely.TLow == 0 && c.Timely.THigh == 0 && c.Timely.RTTRef == 0 {
		t.TLow += hosts
		t.THigh += hosts
		t.RTTRef += hosts
		t.BaseRTT += hosts
	}
	return &t
}
