package erpc

import (
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/cc/dcqcn"
	"github.com/userspace-rpc/erpc/cc/swift"
	"github.com/userspace-rpc/erpc/cc/timely"
	"github.com/userspace-rpc/erpc/erpc/internal/engine"
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
	// CCSwift keeps round-trip times to a target (package cc/swift).
	CCSwift
	// CCCubic follows losses alone, as TCP does (RFC 9438, package cc/cubic), to share links with TCP.
	// It fills queues and has no parameters. Config.Credits bounds its window.
	CCCubic
)

var ccNames = [...]string{CCTimely: "timely", CCDCQCN: "dcqcn", CCNone: "none", CCCustom: "custom",
	CCSwift: "swift", CCCubic: "cubic"}

// String returns the name that commands know it by, such as "timely".
func (a CCAlgorithm) String() string {
	if int(a) < len(ccNames) {
		return ccNames[a]
	}
	return fmt.Sprintf("CCAlgorithm(%d)", uint8(a))
}

// Congestion configures the congestion control of client sessions. The zero value is
// Timely with its defaults. Between processes of one machine (transport.Path.Local) CCTimely and
// CCSwift do nothing: a long round trip there is time without a processor. Server sessions need
// none: they only answer (eRPC, section 5.2.1).
type Congestion struct {
	Algorithm CCAlgorithm
	// Timely holds the parameters of CCTimely; zero fields mean their defaults.
	Timely timely.Config
	// DCQCN holds the parameters of CCDCQCN; zero fields mean their defaults.
	DCQCN dcqcn.Config
	// Swift holds the parameters of CCSwift; zero fields mean their defaults.
	Swift swift.Config
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
	case CCSwift:
		_, err := c.Swift.Fill()
		var bad *swift.ConfigError
		if errors.As(err, &bad) {
			return &ConfigError{"Congestion.Swift." + bad.Field, bad.Reason}
		}
	case CCNone, CCCubic:
	case CCCustom:
		if c.Custom.New == nil {
			return &ConfigError{"Congestion.Custom.New", "is nil: CCCustom needs it"}
		}
	default:
		return &ConfigError{"Congestion.Algorithm",
			fmt.Sprintf("is %d, must be at most CCCubic", c.Algorithm)}
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

// pacing makes what client sessions share on paths of one kind; nil for none. Link is the link's
// rate in bits per second, mtu the size of the largest packets in bytes.
func (cfg *Config) pacing(link int64, mtu int, path *transport.Path) *session.Pacing {
	c, hosts := &cfg.Congestion, path.HostDelay
	if path.Local && !cfg.pacesLocal() {
		return nil
	}
	p := &session.Pacing{
		LinkRate: float64(link) / 8, Slack: engine.WheelConfig.Granularity + hosts/4,
		Hosts:        hosts,
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
	case CCSwift:
		s := c.swift(mtu, hosts)
		p.Algorithm = cc.Algorithm{Name: "swift", Bypass: s.Target}
		p.Algorithm.New = func(link float64) cc.Controller { return swift.New(s, link) }
	case CCCubic:
		p.Losses = true
	case CCCustom:
		p.Algorithm = c.Custom
	}
	return p
}

// pacesLocal reports whether sessions between processes of this machine are paced too. Controls
// that follow round trips would take the time in which the other process waits for a processor for
// a queue, and there is no network that could have one.
func (cfg *Config) pacesLocal() bool {
	if cfg.Experiment.NoRateBypass || cfg.Experiment.NoPacingBypass {
		return true
	}
	return cfg.Congestion.Algorithm != CCTimely && cfg.Congestion.Algorithm != CCSwift
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

// swift returns the parameters for a path with packets of mtu bytes. A target that the
// application did not set is raised by the time that the hosts add to round trips.
func (c *Congestion) swift(mtu int, hosts time.Duration) *swift.Config {
	s, _ := c.Swift.Fill() // checked when the Nexus was made
	if c.Swift.Packet == 0 {
		s.Packet = mtu + session.WireOverhead
	}
	if c.Swift.Target == 0 {
		s.Target += hosts
		s.BaseRTT += hosts
	}
	return &s
}
