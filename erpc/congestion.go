package erpc

import (
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/cc/dcqcn"
	"github.com/userspace-rpc/erpc/cc/timely"
	"github.com/userspace-rpc/erpc/ratelimit/carousel"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
)

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
	// NoRateBypass, NoPacingBypass and NoBatchedTime switch off the three
	// common-case optimisations of eRPC, section 5.2.2, to measure what they bring:
	// no rate update for an uncongested session whose RTT is low, no rate limiter
	// for it, and one reading of the clock per batch instead of per packet.
	NoRateBypass, NoPacingBypass, NoBatchedTime bool
}

// Rates that a link can have, bits per second.
const (
	defaultLinkRate = 100e9
	minLinkRate     = 1e3
	maxLinkRate     = 100e12
)

// wheelConfig is the shape of an endpoint's rate limiter. Its horizon is longer than
// what the largest packet takes at the least rate of Timely (about 7 ms).
var wheelConfig = carousel.Config{Granularity: 512 * time.Nanosecond, Horizon: 8 * time.Millisecond}

// check returns a *ConfigError if a field is wrong.
func (c *Congestion) check() error {
	if c.LinkRate != 0 && (c.LinkRate < minLinkRate || c.LinkRate > maxLinkRate) {
		return &ConfigError{"Congestion.LinkRate", fmt.Sprintf("is %d, must be %d to %d bit/s", c.LinkRate, int64(minLinkRate), int64(maxLinkRate))}
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
			return &ConfigError{"Congestion.Custom.New", "is nil"}
		}
	default:
		return &ConfigError{"Congestion.Algorithm", "is unknown"}
	}
	return nil
}

// pacing makes what the client sessions of an endpoint share; nil for CCNone. hosts is
// transport.Path.HostDelay.
func (c *Congestion) pacing(caps *transport.Caps, hosts time.Duration) *session.Pacing {
	link := c.LinkRate
	if link == 0 {
		link = caps.LinkRate
	}
	if link == 0 {
		link = defaultLinkRate
	}
	p := &session.Pacing{
		LinkRate: float64(link) / 8, Slack: int64(wheelConfig.Granularity + hosts/4),
		NoRateBypass: c.NoRateBypass, NoPacingBypass: c.NoPacingBypass,
	}
	switch c.Algorithm {
	case CCNone:
		return nil
	case CCTimely:
		t := c.timely(hosts)
		p.Algorithm = cc.Algorithm{Name: "timely", Bypass: int64(t.TLow), New: func(link float64) cc.Controller { return timely.New(t, link) }}
	case CCDCQCN:
		d, _ := c.DCQCN.Fill() // checked when the Nexus was made
		p.Algorithm = cc.Algorithm{Name: "dcqcn", Bypass: dcqcn.Bypass, New: func(link float64) cc.Controller { return dcqcn.New(&d, link) }}
	case CCCustom:
		p.Algorithm = c.Custom
	}
	return p
}

// timely returns the parameters for a transport. Thresholds that the application did
// not set are raised by what the hosts add to round trips.
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

// schedule puts a session into the rate limiter, which makes it send when its next
// packet is due. The wheel is made when it is first needed: most endpoints never do.
func (e *engine) schedule(s *Session) {
	if e.wheel == nil {
		e.wheel, _ = carousel.New[*Session](wheelConfig, e.now) // the shape is right
	}
	e.wheel.Advance(e.now)
	e.wheel.Insert(s.cl.PaceAt(), s)
}

// release lets the sessions send whose packets are due. A session stays in the wheel
// when it ends: there is no deletion (eRPC, appendix C), so it is looked at here.
func (e *engine) release() {
	for n := e.wheel.Len(); n > 0; n-- { // a session that is due again waits for the next pass
		s, ok := e.wheel.Pop(e.now)
		if !ok {
			return
		}
		if s.state == sessConnected {
			s.cl.Release(e.now, e.out)
			e.collect(s)
		}
	}
}
