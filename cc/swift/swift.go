package swift

import (
	"math"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// Control holds the window of one session. One goroutine at a time uses it.
type Control struct {
	cfg  *Config
	link float64 // highest rate, bytes/s
	full float64 // rate that the window gives at round trips of at most the base target, bytes/s
	rate float64 // rate to keep to, bytes/s

	cutAt    monotime.Time // when the last decrease was
	cut      bool          // there was one, at cutAt
	timeouts uint16        // in a row, at most ResetAfter
	stays    stays
}

// New returns a controller at linkRate, bytes per second. It keeps c, which Fill has
// returned and nobody changes: all sessions share one. A linkRate below c.MinRate
// takes its place as least rate; one that is not a positive number is taken for
// c.MinRate.
func New(c *Config, linkRate float64) *Control {
	if !(linkRate > 0) {
		linkRate = c.MinRate
	}
	linkRate = min(linkRate, math.MaxFloat64)
	return &Control{cfg: c, link: linkRate, full: linkRate, rate: linkRate}
}

// Rate returns the rate to keep to, bytes per second.
func (s *Control) Rate() float64 { return s.rate }

// Bypass returns the round trip up to which a session at link rate need not tell its
// samples: the base target of a path whose least round trip is base. A base of 0 is
// unknown and raises nothing.
func (c *Config) Bypass(base time.Duration) time.Duration {
	switch {
	case base <= c.BaseRTT:
		return c.Target
	case base <= math.MaxInt64-c.Target:
		return c.Target + base
	}
	return math.MaxInt64
}

// flows returns what flow scaling adds to the target of a window of so many packets, ns.
func (c *Config) flows(window float64) float64 {
	switch {
	case window <= c.FlowMin:
		return float64(c.FlowRange)
	case window >= c.FlowMax:
		return 0
	}
	least := 1 / math.Sqrt(c.FlowMax)
	part := (1/math.Sqrt(window) - least) / (1/math.Sqrt(c.FlowMin) - least)
	return float64(c.FlowRange) * part
}

// OnAck takes one round trip: at time now so many bytes on the wire were answered, and
// the newest answer came rtt after its packet was sent, without the server's hold time; 0 or
// less is not measured and changes nothing. base is the least round trip of the
// session, 0 if unknown. A congestion mark plays no part.
//
// It returns the rate in bytes per second and the bypass limit, see [Config.Bypass].
func (s *Control) OnAck(now monotime.Time, rtt, base time.Duration, bytes int, ce bool) (
	rate float64, bypass time.Duration) {
	s.timeouts = 0
	bypass = s.cfg.Bypass(base)
	if rtt <= 0 {
		return s.rate, bypass
	}
	s.stays.see(s, now, rtt, bypass)
	if s.stays.delay > s.cfg.BaseRTT {
		bypass = max(bypass, s.cfg.Bypass(s.stays.delay))
	}
	target := float64(bypass)
	s.update(now, rtt, target, bytes)
	s.rate = s.within(s.full * min(1, target/float64(rtt)))
	return s.rate, bypass
}

// On a long path, where the base target has a least round trip in it, flow scaling would be less
// than what one packet takes on a slow link. There a session keeps longKeeps packets of its own in
// the queue (as TCP Vegas does), and grows by one part of longAdds in a round trip at least.
const (
	longKeeps = 2
	longAdds  = 64
)

// update moves the window: up while round trips are below the target, down, once in a
// round trip, while they are above. base is the base target, ns.
//
// Products are converted before they are added, so that no processor fuses the two and
// all compute the same bits.
func (s *Control) update(now monotime.Time, rtt time.Duration, base float64, bytes int) {
	c, size := s.cfg, float64(s.cfg.Packet)
	window := s.full * (base * 1e-9) / size // packets
	delay, target := float64(rtt), base+float64(c.flows(window))
	long := base > float64(c.BaseRTT)+float64(c.Target)
	if long {
		target = base + float64(longKeeps*(size/s.full)*1e9)
	}
	if delay < target {
		part := min(1, max(0, float64(bytes))/size/max(1, window)) // of the window that was answered
		add := float64(c.AddPackets * part * (size / (base * 1e-9)))
		if long {
			add = max(add, float64(s.full/longAdds*part))
		}
		s.full = s.within(s.full + add)
		return
	}
	if s.due(now, rtt) {
		s.cut, s.cutAt = true, now
		s.full = s.within(s.full * (1 - min(c.MaxDecrease, float64(c.Beta*((delay-target)/delay)))))
	}
}

// due says whether the packet whose round trip ends now was sent after the last decrease.
// If time has jumped back, the wait begins anew.
func (s *Control) due(now monotime.Time, rtt time.Duration) bool {
	if !s.cut {
		return true
	}
	s.cutAt = min(s.cutAt, now)
	return uint64(now)-uint64(s.cutAt) >= uint64(rtt)
}

// within returns the rate between the least one and the link's, which wins if it is less,
// that is nearest to rate.
func (s *Control) within(rate float64) float64 {
	return min(s.link, max(rate, s.cfg.MinRate))
}

// OnTimeout is called when a retransmission timeout passes without an answer. It takes
// MaxDecrease of the window, or after ResetAfter timeouts in a row nearly all of it,
// and returns the rate in bytes per second.
func (s *Control) OnTimeout(now monotime.Time) (rate float64) {
	s.cut, s.cutAt = true, now
	if s.timeouts < uint16(s.cfg.ResetAfter) {
		s.timeouts++
	}
	keep := 1 - s.cfg.MaxDecrease
	if s.timeouts == uint16(s.cfg.ResetAfter) {
		keep = 0
	}
	s.full, s.rate = s.within(s.full*keep), s.within(s.rate*keep)
	return s.rate
}
