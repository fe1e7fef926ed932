package metrics

import (
	"strconv"

	"github.com/userspace-rpc/erpc/erpc"
)

// Point is one value of a measurement.
type Point struct {
	Metric    *Metric
	Endpoint  string
	Loop      string
	Labels    []string // values, one for each of the Metric's
	Value     float64
	Durations *erpc.Histogram // of that kind, in ns; not to be changed
}

// Options say how points are named.
type Options struct {
	// TypeName names a request type. Default: its number.
	TypeName func(reqType uint8) string
}

// Points returns the points of snapshots. A snapshot that is late has counters of its loop only.
func Points(opts Options, snaps ...*erpc.Snapshot) []Point {
	var c collection
	if c.typeName = opts.TypeName; c.typeName == nil {
		c.typeName = func(t uint8) string { return strconv.Itoa(int(t)) }
	}
	for _, s := range snaps {
		c.endpoint, c.loop = s.Addr.String(), strconv.Itoa(s.Loop)
		c.loopCounters(&s.Stats)
		c.protocol(&s.Stats)
		c.drops(&s.Stats)
		late := 0.0
		if s.Late {
			late = 1
		} else {
			c.state(s)
		}
		c.add(Late, late)
		for i := range s.Types {
			c.byType(&s.Types[i])
		}
	}
	return c.points
}

// collection gathers points.
type collection struct {
	typeName       func(uint8) string
	endpoint, loop string
	points         []Point
}

func (c *collection) add(m *Metric, value float64, labels ...string) {
	c.points = append(c.points, Point{m, c.endpoint, c.loop, labels, value, nil})
}

func (c *collection) count(m *Metric, n uint64, labels ...string) {
	c.add(m, float64(n), labels...)
}

func (c *collection) durations(m *Metric, h *erpc.Histogram, labels ...string) {
	c.points = append(c.points, Point{m, c.endpoint, c.loop, labels, 0, h})
}

// byType adds what was counted of one request type.
func (c *collection) byType(t *erpc.TypeStats) {
	name := c.typeName(t.Type)
	for side, k := range map[string]*erpc.CallStats{"client": t.Client, "server": t.Server} {
		if k == nil {
			continue
		}
		for code, n := range k.Ended {
			if n > 0 || code == int(erpc.CodeOK) {
				c.count(Calls, n, side, name, erpc.Code(code).String())
			}
		}
		c.count(CallBytes, k.Requests, side, name, "request")
		c.count(CallBytes, k.Answers, side, name, "response")
		c.durations(CallLatency, &k.Latency, side, name)
	}
	if t.Client != nil {
		c.count(CallsStarted, t.Client.Started, name)
	}
	if t.Server != nil {
		c.durations(HandlerTime, &t.Server.Handler, name)
	}
}

// loopCounters adds what the loop and its transport counted.
func (c *collection) loopCounters(s *erpc.Stats) {
	c.count(Packets, s.RxPackets, "received", "datagram")
	c.count(Packets, s.TxPackets, "sent", "datagram")
	c.count(Packets, s.RxBundled, "received", "bundled")
	c.count(Packets, s.TxBundled, "sent", "bundled")
	c.count(Bytes, s.Transport.RxBytes, "received")
	c.count(Bytes, s.Transport.TxBytes, "sent")
	c.count(TransportCalls, s.Transport.RxCalls, "received")
	c.count(TransportCalls, s.Transport.TxCalls, "sent")
	c.count(Flushes, s.Flushes)
	c.count(BlindSpells, s.BlindSpells)
	c.add(BlindTime, s.BlindTime.Seconds())
	c.durations(RTT, &s.RTT)
	c.add(Sessions, float64(s.Sessions))
	c.count(SessionEvents, s.SessionsOpened, "opened")
	c.count(SessionEvents, s.SessionsEnded, "ended")
	c.count(SessionEvents, s.SessionsRefused, "refused")
	c.count(SessionEvents, s.SessionsMoved, "moved")
}

// protocol adds what sessions counted.
func (c *collection) protocol(s *erpc.Stats) {
	p := &s.Protocol
	c.count(Retransmits, p.Retransmits-p.FastResends-p.Reanswers, "timeout")
	c.count(Retransmits, p.FastResends, "evidence")
	c.count(Retransmits, p.Reanswers, "asked again")
	c.count(Rollbacks, p.Rollbacks, "timeout")
	c.count(Rollbacks, p.FastRollbacks, "evidence")
	c.count(CreditStalls, p.CreditStalls)
	c.count(PaceStalls, p.PaceStalls)
	c.count(RateUpdates, p.RateUpdates)
	c.count(Refused, s.SessionsOverShare, "sessions of an address")
	c.count(Refused, s.RequestsDenied, "authorization")
	c.count(Refused, s.WorkOverShare, "work of an address")
	c.count(Refused, s.WorkRefused-s.WorkOverShare, "work")
	c.count(Refused, s.HandshakesEvicted, "half-open handshakes")
	c.count(Refused, s.DropConnects, "connects")
	c.count(Refused, s.DropToken, "token")
	c.count(Refused, s.DropSealed, "seal")
	c.count(Refused, p.NoMemory, "memory")
	c.count(Refused, p.StaleRequests, "stale requests")
	c.count(Refused, p.StaleResponses, "stale responses")
}

// drops adds the packets that were dropped, by reason.
func (c *collection) drops(s *erpc.Stats) {
	p, t := &s.Protocol, &s.Transport
	for _, d := range []struct {
		reason string
		n      uint64
	}{
		{"malformed", s.DropMalformed}, {"no session", s.DropNoSession}, {"token", s.DropToken},
		{"connects", s.DropConnects}, {"seal", s.DropSealed}, {"bundle", s.DropBundle},
		{"role", s.DropRole}, {"handover", s.DropHandover}, {"no loop", s.DropNoLoop},
		{"past", p.DropPast}, {"future", p.DropFuture}, {"unsent", p.DropUnsent},
		{"busy", p.DropBusy}, {"repeat", p.DropRepeat}, {"size", p.DropSize},
		{"not sent", s.TxDropped}, {"transport sent", t.TxDropped},
		{"transport received", t.RxDropped},
	} {
		c.count(Drops, d.n, d.reason)
	}
}

// state adds what goes up and down.
func (c *collection) state(s *erpc.Snapshot) {
	q, g, m := &s.Queues, &s.Congestion, &s.Memory
	c.add(SessionsActive, float64(g.Active))
	c.add(SessionsLimited, float64(g.Limited))
	c.add(Rate, g.Rate/8, "all")
	c.add(Rate, g.MinRate/8, "slowest")
	for _, v := range []struct {
		queue string
		n     int
	}{
		{"commands", q.Commands}, {"calls", q.Calls}, {"requests", q.Requests},
		{"in flight", q.InFlight}, {"handlers", q.Handlers}, {"packets", q.Packets},
		{"paced sessions", q.Paced},
	} {
		c.add(Queue, float64(v.n), v.queue)
	}
	for _, v := range []struct {
		use string
		n   int64
	}{
		{"reserved", m.Reserved}, {"huge pages", m.Huge}, {"used", m.Used}, {"shared", m.Shared},
		{"half-open handshakes", m.HalfOpen},
		{"process", m.Process}, {"limit", m.Limit},
	} {
		c.add(Memory, float64(v.n), v.use)
	}
	c.add(Buffers, float64(m.Buffers))
}
