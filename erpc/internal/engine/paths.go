package engine

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
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
	local     bool
	hosts     time.Duration // that may be added to round trips by hosts in no hurry
	timing    session.Timing
	pacing    *session.Pacing // nil for no congestion control
}

// plan returns the plan for sessions on a path. A transport has few kinds of them.
func (p *paths) plan(path *transport.Path) *pathPlan {
	for _, plan := range p.plans {
		if plan.hostDelay == path.HostDelay && plan.local == path.Local {
			return plan
		}
	}
	plan := &pathPlan{
		hostDelay: path.HostDelay,
		local:     path.Local,
		hosts:     path.HostDelay,
		timing:    p.cfg.Timing,
		pacing:    p.cfg.Pacing(path),
	}
	if path.Local {
		plan.hosts = max(plan.hosts, localDelay)
	}
	// A host that holds packets up by itself is no sign of loss.
	plan.timing.RTOMin = minRTO(&p.cfg.Timing, path.HostDelay)
	p.plans = append(p.plans, plan)
	return plan
}

// rtoHosts is the least retransmission timeout in units of what the hosts add to a round trip:
// a loop that shares its core waits several times as long now and then.
const rtoHosts = 20

// localDelay is what a host may add to a round trip between two of its own processes at least,
// where windows ask: both wait for the same processors, which run others for ms first. Timeouts do
// not, or each lost packet of a small call would take 20 ms.
const localDelay = time.Millisecond

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

// offer returns what this endpoint proposes for a session, beside so many others, on a path whose
// packets are up to mtu bytes. Bundles are checked as a whole first, so their sender must not be
// able to change them then.
func (p *paths) offer(mtu, others int, path *transport.Path) wire.Offer {
	o := wire.Offer{
		Credits: uint16(p.credits(mtu, others)), Slots: uint16(p.cfg.Slots), MTU: uint32(mtu),
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

// Bounds of the credits that sessions use at first where nobody has set them. Small packets need
// more of them: 32 of 1500 bytes are less than what one segmented send takes.
const (
	windowBytes    = 256 << 10
	maxFirst       = 128
	sessionsInRing = 4 // with all their credits in use
)

// firstCredits returns how many credits a session uses at first whose packets have up to mtu bytes.
func (p *paths) firstCredits(mtu int) int {
	limit := min(maxFirst, p.cfg.RxRing/sessionsInRing)
	return max(session.DefaultCredits, min(windowBytes/max(mtu, 1), limit))
}

// credits returns how many credits to propose for a session with packets of up to mtu bytes: what
// can wait to be received here, shared with the sessions that there are already.
func (p *paths) credits(mtu, others int) int {
	if p.cfg.Credits != 0 {
		return p.cfg.Credits
	}
	share := p.cfg.RxRing / max(sessionsInRing, others+1)
	return max(p.firstCredits(mtu), min(share, session.MaxCredits))
}

// window sets how a client session uses the credits that it has agreed on.
func (p *paths) window(c *session.Client, params *session.Params, hosts time.Duration) {
	if first := p.firstCredits(params.PerPacket + wire.HeaderSize); p.cfg.Credits == 0 {
		c.SetWindow(first, hosts)
		c.SetLeastWindow(p.cfg.LeastWindow)
	}
}

// pathWatch probes which packets the path to a peer carries. All sessions with the peer share it.
// One session asks at a time, so that no two pings leave in one train.
type pathWatch struct {
	by    *Conn              // a session that suspects that its packets are too large; nil for none
	probe *session.PathProbe // by which it asks
	began monotime.Time      // when it began to
	rests monotime.Time      // until when nobody asks again

	// While packets are smaller than they were: pings of the larger sizes, the largest first.
	growAt    monotime.Time // of the next one
	growEvery time.Duration // between rounds of them
	asked     [wire.MaxCut]askedSize
	step      int // pings of this round
}

// askedSize is a ping of so many bytes.
type askedSize struct {
	seq  uint64
	size int
}

// Spans between rounds of pings of larger sizes. They double, up to the larger one.
const (
	minGrow = time.Second
	maxGrow = 4 * time.Second
	// minAnswer is how long such a ping waits for its answer at least.
	minAnswer = 20 * time.Millisecond
)

// probeRest is how long nobody asks again, in units of the time that a probe took which did not
// find that packets are too large. Sessions are paused while one asks: a path that loses packets
// for another reason would be in use little more than half of the time.
const probeRest = 4

// end ends a probe that did not find that.
func (w *pathWatch) end(now monotime.Time) {
	w.by, w.probe = nil, nil
	w.rests = now.Add(probeRest * now.Sub(w.began))
}

// asks reports whether a session with requests under way asks whether its packets are too large.
func (w *pathWatch) asks() bool {
	return w.by != nil && w.by.state == connected && w.by.activeAt != 0
}

// probePath looks after a client session whose requests have no answers, though they were
// repeated and the peer answers small packets: the path may not carry its packets any more. If that
// is so, the packets of all sessions with the peer become smaller.
func (e *Engine) probePath(s *Conn) {
	w := &s.assoc.path
	since, stuck := s.Client.Suspects()
	if !stuck || s.Client.Recovered() {
		s.Client.Trust(e.in.Now, e.Out)
		if w.by == s {
			w.end(e.in.Now)
		}
		return
	}
	if !s.live.HeardSince(since) {
		return // the peer is silent, as far as is known: scanLoss asks it
	}
	if !w.asks() {
		if e.in.Now < w.rests { // also if it paused for a probe of another one, which has ended
			s.Client.Unpause(e.in.Now, e.Out)
			return
		}
		w.by, w.probe, w.began = s, session.NewPathProbe(s.Client), e.in.Now
	}
	s.Client.Pause()
	if w.by != s {
		return
	}
	result := w.probe.Tick(s.End, e.rng.Uint64, e.in.Now, e.Out)
	if result == session.ProbeGoesOn {
		return
	}
	carries := w.probe.Size()
	if result == session.ProbeTooLong {
		carries = w.probe.Fits()
		e.lowerCuts(s.assoc, carries) // which forgets the probe
	} else {
		w.end(e.in.Now)
	}
	for _, other := range s.assoc.sessions {
		c := other.Client
		if c == nil || other.state != connected {
			continue
		}
		if c.PacketSize() <= carries || result == session.ProbeUnclear {
			c.Trust(e.in.Now, e.Out)
		}
	}
}

// lowerCuts makes the packets of all sessions with a peer no larger than size bytes.
func (e *Engine) lowerCuts(p *association, size int) {
	for _, s := range p.sessions {
		if s.Client != nil && s.state == connected {
			s.Client.LowerCut(size)
		}
	}
	p.path = pathWatch{growEvery: minGrow, growAt: e.in.Now.Add(minGrow)}
	e.cfg.Logger.Info("path carries smaller packets only", "peer", p.addr.String(), "bytes", size)
}

// grow asks now and then, while a session with requests has smaller packets than it agreed on,
// whether the path carries larger ones again.
func (e *Engine) grow(s *Conn) {
	w := &s.assoc.path
	if e.in.Now < w.growAt || w.asks() {
		return
	}
	size := 0
	if w.step < len(w.asked) {
		size = s.Client.LargerSize(w.step)
	}
	if size == 0 {
		w.growEvery = min(max(2*w.growEvery, minGrow), maxGrow)
		w.growAt, w.step = e.in.Now.Add(w.growEvery), 0
		return
	}
	q := &w.asked[w.step]
	q.seq, q.size = e.rng.Uint64(), size
	w.step++
	w.growAt = e.in.Now.Add(max(minAnswer, 2*s.Client.SRTT()))
	session.PadPing(s.End, q.seq, size, e.Out)
}

// onPong takes the answer to a ping of a session, perhaps a padded one.
func (e *Engine) onPong(s *Conn, seq uint64) {
	if s.assoc == nil {
		return
	}
	w := &s.assoc.path
	if w.by == s {
		w.probe.OnPong(seq, e.in.Now)
	}
	for i := range w.asked {
		if q := &w.asked[i]; q.size != 0 && q.seq == seq {
			e.raiseCuts(s.assoc, q.size)
			return
		}
	}
}

// raiseCuts makes the packets of all sessions with a peer as large as size bytes, as far as they
// agreed on that.
func (e *Engine) raiseCuts(p *association, size int) {
	raised := false
	for _, s := range p.sessions {
		if s.Client != nil && s.state == connected && s.Client.RaiseCut(size) {
			raised = true
		}
	}
	w := &p.path
	w.asked, w.step = [wire.MaxCut]askedSize{}, 0
	w.growEvery, w.growAt = minGrow, e.in.Now.Add(minGrow)
	if raised {
		e.cfg.Logger.Info("path carries larger packets again", "peer", p.addr.String(), "bytes", size)
	}
}
