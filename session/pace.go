package session

import (
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

// Pacing is the congestion control of an endpoint, shared by its client sessions.
type Pacing struct {
	// Algorithm makes the controller of a session when it first meets congestion.
	Algorithm cc.Algorithm
	// LinkRate is the rate at which sessions start and the most they send at, bytes
	// per second on the wire.
	LinkRate float64
	// Slack is how far ahead of its time a packet may leave: at least one slot of the rate
	// limiter, and more where packets are cheap in batches only. It bounds bursts.
	Slack time.Duration
	// Hosts is by how much hosts lengthen round trips, where each departure has a price of its own:
	// packets leave in rows there. 0 is for one by one.
	Hosts time.Duration
	// NoRateBypass tells the controller every answer, NoPacingBypass lets packets of
	// uncongested sessions wait for Release too: to measure what the bypasses save
	// (eRPC, section 5.2.2).
	NoRateBypass, NoPacingBypass bool
	// Losses has windows follow losses, as CUBIC does (RFC 9438), and nothing else. There is no
	// Algorithm then, and all is sent at LinkRate.
	Losses bool
}

// WireOverhead is the size of Ethernet, IP and UDP around a packet, in bytes:
// preamble 8, header 14, check sequence 4, gap 12, IPv4 20, UDP 8.
const WireOverhead = 66

// rateBits is the number of fraction bits in pacer.perByte and pacer.rest.
const rateBits = 20

// pacer is a client session's view of congestion. An uncongested session is at
// link rate: its packets leave at once, and answers with a low RTT are not looked at.
type pacer struct {
	cfg      *Pacing
	ctl      *control      // nil until first needed
	bypass   time.Duration // at link rate, answers up to this RTT change nothing
	limit    time.Duration // the same, whatever the switches say
	spikeAt  monotime.Time // when round trips became very long; 0 if they are not
	perByte  int64         // time that a byte takes at the present rate, 2^-rateBits ns
	next     monotime.Time // when the next packet may leave
	rest     int64         // fraction of next, 2^-rateBits ns
	toldAt   monotime.Time // when the controller last got an answer
	answered int           // bytes of answers since then
	slow     bool          // below link rate
	gated    bool          // packets wait for their time
	together uint8         // while gated: packets of the largest size that Slack covers; at least 1
	waiting  bool          // the owner was asked to call Release
	late     bool          // inside Release: time lost by coming late is made up for
	losses   bool          // the window follows losses, and there is no controller
	least    uint8         // packets that the window holds on a slow path at least, but one
}

func newPacer(cfg *Pacing) pacer {
	p := pacer{cfg: cfg, bypass: 1<<63 - 1, limit: 1<<63 - 1}
	if cfg != nil {
		if p.losses = cfg.Losses; !p.losses {
			p.limit = cfg.Algorithm.Bypass
			p.bypass = p.limit
			if cfg.NoRateBypass {
				p.bypass = -1
			}
		}
		p.gated, p.together = cfg.NoPacingBypass, 1
		p.perByte = perByte(cfg.LinkRate)
	}
	return p
}

func perByte(rate float64) int64 { return int64(1e9 * (1 << rateBits) / rate) }

// may reports whether a packet may leave now; only gated sessions ask. A message of one packet,
// alone, does not wait for a row. If the packet may not, may asks the owner to call Release in
// time.
func (c *Client) may(alone bool, now monotime.Time, out *Out) bool {
	p := &c.pace
	if p.next < now && !p.late {
		p.next = now
	}
	if p.next.Sub(now) <= max(p.cfg.Slack, p.ahead()) &&
		(p.late || !p.cfg.NoPacingBypass && (alone || !p.waiting || p.ahead() == 0)) {
		return true
	}
	if !p.waiting {
		p.waiting = true
		out.add(EventPace).Session = c.Local
		c.stats.PaceStalls++
	}
	return false
}

// charge accounts for a packet of n bytes, header included.
func (p *pacer) charge(n int) {
	p.rest += int64(n+WireOverhead) * p.perByte
	p.next += monotime.Time(p.rest >> rateBits)
	p.rest &= 1<<rateBits - 1
}

// PaceAt returns when Release is due.
func (c *Client) PaceAt() monotime.Time { return c.pace.next }

// Release sends what is due, after EventPace asked for it: once for each time, and
// late rather than early.
func (c *Client) Release(now monotime.Time, out *Out) {
	c.pace.waiting = false
	if c.pace.losses {
		c.pace.gated = c.pace.cfg.NoPacingBypass
	}
	if c.busy == 0 {
		return
	}
	c.pace.late = true
	c.pump(now, out)
	c.pace.late = false
}

// Rate returns the rate that congestion control allows in bytes per second, 0 if
// there is none.
func (c *Client) Rate() float64 {
	if c.pace.cfg == nil {
		return 0
	}
	return 1e9 * (1 << rateBits) / float64(c.pace.perByte)
}

// Congested reports whether the session is held below link rate.
func (c *Client) Congested() bool { return c.pace.slow }

// learn takes what an answer tells: the RTT (0 if unknown) and the mark. In the
// common case that is nothing (Timely bypass, eRPC section 5.2.2). The answer may have
// waited here unseen for some of the RTT, which says nothing about the path; it came no sooner than
// any did.
func (c *Client) learn(in *Arrival, rtt time.Duration, bytes int, h *wire.Header) {
	if in.Unseen > 0 && rtt > 0 {
		rtt = max(rtt-in.Unseen, min(rtt, c.rtt.base))
	}
	p, now := &c.pace, in.Now
	ce := in.CE || h.Flags&wire.FlagCE != 0 // for RFRs the way back counts
	if rtt>>spike >= p.limit && p.limit > 0 {
		if rtt = p.spiked(now, c.sampled, rtt); rtt == 0 && !ce {
			return
		}
	} else if rtt > 0 {
		p.spikeAt = 0
	}
	if rtt > p.bypass || p.slow || ce || p.ctl != nil && c.rtt.base < p.ctl.basis {
		p.answered += bytes + WireOverhead
		if (c.ofRow(now, rtt) || now == p.toldAt) && !ce && rtt > 0 {
			return // answers that were found at the same time say the same: the first one counts
		}
		c.control(now, rtt, p.answered, ce)
		p.answered, p.toldAt = 0, now
		if p.ctl != nil {
			p.ctl.row.told = c.sampled
		}
	}
}

// A round trip of 2^spike times the bypass limit or more needs a witness.
const spike = 2

// spiked returns a very long round trip if there is reason to believe that the path is
// congested, or 0. A host that does not get to run for milliseconds makes a burst of
// such round trips, all of packets that were under way at the same time. Congestion
// meets those as well that were sent after the first of the burst had been seen.
func (p *pacer) spiked(now, sentAt monotime.Time, rtt time.Duration) time.Duration {
	if p.spikeAt == 0 {
		p.spikeAt = now
	}
	if sentAt <= p.spikeAt {
		return 0
	}
	return rtt
}

// control tells the controller, and makes it if there is none yet.
func (c *Client) control(now monotime.Time, rtt time.Duration, bytes int, ce bool) {
	p := &c.pace
	if p.cfg == nil || p.losses {
		return
	}
	c.stats.RateUpdates++
	if p.ctl == nil {
		p.ctl = newControl(p.cfg)
	}
	base := c.rtt.baseAt(now)
	rate, bypass := p.ctl.OnAck(now, rtt, base, bytes, ce)
	if p.limit = bypass; !p.cfg.NoRateBypass {
		p.bypass = bypass
	}
	if p.ctl.basis = 0; bypass > p.cfg.Algorithm.Bypass {
		p.ctl.basis = base
	}
	c.setRate(rate)
}

// slowDown tells the controller that an RTO has passed without an answer.
func (c *Client) slowDown(now monotime.Time) {
	p := &c.pace
	if p.cfg == nil || p.losses {
		return
	}
	if p.ctl == nil {
		p.ctl = newControl(p.cfg)
	}
	c.setRate(p.ctl.OnTimeout(now))
}

func (c *Client) setRate(rate float64) {
	p := &c.pace
	p.slow = rate < p.cfg.LinkRate
	p.gated = p.slow || p.cfg.NoPacingBypass
	p.perByte = perByte(rate)
	p.together, p.ctl.row.ahead = 1, 0
	if !p.cfg.NoPacingBypass {
		packet := float64(int(c.full)+wire.HeaderSize+WireOverhead) * 1e9 / rate // ns
		p.together = uint8(max(1, min(float64(p.cfg.Slack)/packet, float64(c.stride))))
		c.sizeRow(packet)
	}
}

// together returns how many packets in a row may leave without a look at the rate, or at others.
func (c *Client) together() uint8 {
	if c.pace.gated {
		return min(c.pace.together, c.stride) // a window that has shrunk has a smaller stride
	}
	return c.stride
}

const (
	// The floor is sure after sureAnswers answers, or after surePings pings: a path that many
	// endpoints begin to use at the same time looks longer than it is, and a peer may be silent.
	sureAnswers = 3
	surePings   = 8
	// floorEvery is the time between the first two pings. It doubles with each, up to maxFloorEvery.
	floorEvery    = 20 * time.Millisecond
	maxFloorEvery = time.Second
)

// pathFloor bounds what hold times take off round trips: a server that lies about them would make
// each round trip look like none, and congestion control would not see a queue. Nothing is faster
// than half of what the path took at best, holds included. That is too much where all handlers are
// slow. So when a hold time leaves less, the session's owner asks the peer by a ping, which is
// never held; until the answers have come hold times are believed.
type pathFloor struct {
	min      time.Duration // that an answer took, with nothing taken off; 0 before the first
	at       monotime.Time // when the next ping is due
	unsure   bool          // a hold time left too little
	pings    uint8
	answered uint8
	unknown  uint8 // hold times in a row that were too long to say
}

// mostUnknown is how many hold times in a row may be too long to say.
const mostUnknown = 8

// hold returns the hold time in a field, which no handler is the reason of. A host that says again
// and again that it was too long to say is as slow as a path, or lies: then it is the longest that
// could be said. Else its client would meet no queue.
func (f *pathFloor) hold(field uint16) (held time.Duration, known bool) {
	held, known = wire.CoarseHold(field)
	if known {
		f.unknown = 0
	} else if f.unknown < mostUnknown {
		f.unknown++
	} else {
		known = true
	}
	return held, known
}

// took notes how long an answer took.
func (f *pathFloor) took(d time.Duration) {
	if d < f.min || f.min == 0 {
		f.min = max(d, 1)
	}
}

// check takes a round trip of which hold times have left rtt, and returns it, or half of the floor
// if that is more and the floor is sure. It is rare that there is anything to do.
//
//go:noinline
func (f *pathFloor) check(took, rtt time.Duration) time.Duration {
	f.took(took)
	if rtt >= f.min/2 {
		return rtt
	}
	f.unsure = true
	if f.answered >= sureAnswers || f.pings >= surePings {
		return max(f.min/2, 1)
	}
	return rtt
}

// PathPingDue reports whether the owner is to measure the path with a ping now, and notes that it
// does.
func (c *Client) PathPingDue(now monotime.Time) bool {
	f := &c.floor
	if !f.unsure || now < f.at {
		return false
	}
	f.at = now.Add(min(floorEvery<<f.pings, maxFloorEvery))
	f.pings = min(f.pings+1, surePings)
	return true
}

// PathTook takes the round trip of such a ping, whose answer may have waited here unseen for some
// of it. If that may be most of it, the path is not known from this ping.
func (c *Client) PathTook(d, unseen time.Duration) {
	f := &c.floor
	if unseen > d/2 {
		return
	}
	f.took(d - unseen)
	f.unsure = false
	f.answered = min(f.answered+1, sureAnswers)
}
