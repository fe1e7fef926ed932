package engine

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/ratelimit/carousel"
	"github.com/userspace-rpc/erpc/session"
)

// timers says when the engine has something to do though nothing comes: once per epoch for what
// may be overdue, once per sweep for silent peers, and for sessions whose rate holds a packet back
// when it is due.
type timers struct {
	epoch    time.Duration
	nextScan monotime.Time // the next epoch
	scanned  monotime.Time // the last one
	nextLook monotime.Time // when evidence of losses is looked at again
	ran      time.Duration // see Engine.Ran

	sweepEvery time.Duration
	nextSweep  monotime.Time
	swept      monotime.Time // the last one
	resetsLeft int           // answers to strangers until the next sweep in its usual time
	resetsAt   monotime.Time // when they are as many as may be again

	trim   bool                   // memory is scarce: pools are to give back what they do not use
	active []*Conn                // client sessions that have requests
	asks   bool                   // some of them are to ask whether their peers know them
	late   []*Conn                // server sessions with answers that wait for their ACKs
	wheel  *carousel.Wheel[*Conn] // sessions whose next packet is not due; nil until needed
}

// sweepsPerHeartbeat is how often silent peers are looked for.
const sweepsPerHeartbeat = 4

func newTimers(t *session.Timing) timers {
	return timers{
		epoch: t.RTOMin / 4, sweepEvery: t.Heartbeat / sweepsPerHeartbeat, resetsLeft: resetsPerSweep,
	}
}

// hurry makes the next sweep come soon. It looks at all peers, so a peer that restarts again and
// again does not bring it more often than each minSweep-th part of its usual interval.
func (t *timers) hurry() {
	t.nextSweep = min(t.nextSweep, t.swept.Add(t.sweepEvery/minSweep))
}

const minSweep = 8

// Activate notes that a client session has a request.
func (e *Engine) Activate(s *Conn) { e.timers.activate(s) }

// Deactivate undoes Activate if the session has no requests any more.
func (e *Engine) Deactivate(s *Conn) { e.timers.deactivate(s) }

// Late returns how many server sessions repeat answers by themselves.
func (e *Engine) Late() int { return len(e.timers.late) }

// Paced returns how many sessions have a next packet that is not due: then Release is to be called.
func (e *Engine) Paced() int {
	if w := e.timers.wheel; w != nil {
		return w.Len()
	}
	return 0
}

// Scarce reports whether the sweep found memory scarce, once: pools are to give back what they do
// not use.
func (e *Engine) Scarce() bool {
	scarce := e.timers.trim
	e.timers.trim = false
	return scarce
}

// activate notes that a client session has requests. Only those are looked at for overdue
// answers, however many sessions there are.
func (t *timers) activate(s *Conn) {
	if s.activeAt == 0 {
		t.active = append(t.active, s)
		s.activeAt = int32(len(t.active))
	}
}

// deactivate undoes activate if the session has no requests any more.
func (t *timers) deactivate(s *Conn) {
	if s.activeAt == 0 || !s.Client.Idle() {
		return
	}
	last := t.active[len(t.active)-1]
	t.active[s.activeAt-1] = last
	last.activeAt = s.activeAt
	t.active[len(t.active)-1] = nil
	t.active = t.active[:len(t.active)-1]
	s.activeAt = 0
	if invariants.Enabled {
		t.check()
	}
}

// check panics if a session is not where it says.
func (t *timers) check() {
	for i, s := range t.active {
		if int(s.activeAt) != i+1 {
			panic("erpc: an active session is not in its place")
		}
	}
}

// NextScan returns when Tick is due: once per epoch.
func (e *Engine) NextScan() monotime.Time { return e.timers.nextScan }

// Ran returns for how long the endpoint has looked for packets since it began, as far as that
// matters for the silence of others: a pause of this process counts as two epochs at most.
func (e *Engine) Ran() time.Duration { return e.timers.ran }

// ScanNow makes Tick due in the next pass.
func (e *Engine) ScanNow() { e.timers.nextScan = e.in.Now }

// Tick does what time asks for.
func (e *Engine) Tick() {
	t := &e.timers
	t.nextScan = e.in.Now.Add(t.epoch)
	t.ran += min(e.in.Now.Sub(t.scanned), 2*t.epoch)
	t.scanned = e.in.Now
	t.looked(e.in.Now)
	e.onHints()
	if len(e.assocs.probes) > 0 {
		e.checkDeathProbes()
	}
	e.scanLoss()
	e.repeatLate()
	e.repeatNotices()
	if m := e.quotas.memory; e.in.Now >= m.Next() {
		m.Expire(e.in.Now, e.quotas.book.scarce(), e.Out)
	}
	if e.in.Now >= t.nextSweep {
		t.nextSweep, t.swept = e.in.Now.Add(t.sweepEvery), e.in.Now
		if e.in.Now >= t.resetsAt { // not for a hurried sweep
			t.resetsLeft, t.resetsAt = resetsPerSweep, e.in.Now.Add(t.sweepEvery)
		}
		e.sweep()
		if e.security != nil {
			e.expirePending()
		}
		t.trim = e.quotas.book.scarce()
	}
	e.repeat() // behind the sweep, which may end sessions that repeat something
}

// scanLoss looks for overdue answers in the sessions that have requests.
func (e *Engine) scanLoss() {
	if e.timers.asks {
		e.timers.asks = false
		for _, s := range e.timers.active {
			if s.asks {
				s.asks = false
				s.live.Probe(s.End, e.rng.Uint64(), e.in.Now, e.Out) // does it know this session?
			}
		}
	}
	for _, s := range e.timers.active {
		if s.state != connected {
			continue
		}
		if s.Client.Scan(e.in.Now, e.Out) >= 2 {
			e.overdue(s)
		}
		if s.watched && e.in.Now.Sub(s.assoc.watch.LastHeard()) >= e.cfg.Timing.SilenceTimeout/4 {
			e.listen(s)
		}
		if _, stuck := s.Client.Suspects(); stuck || s.assoc.path.by == s {
			e.probePath(s)
		} else if s.Client.Narrowed() {
			e.grow(s)
		}
		if s.Client.PathPingDue(e.in.Now) {
			s.live.Probe(s.End, e.rng.Uint64(), e.in.Now, e.Out) // are its hold times true?
		}
	}
}

// overdue acts on a session with a request that has timed out twice.
//
//go:noinline
func (e *Engine) overdue(s *Conn) {
	if e.in.Now.Sub(s.live.Probed()) > s.plan.timing.RTOMin {
		// At the next tick: behind what is sent again now the ping would leave in its train, and be
		// lost with it where the path does not carry its packets any more.
		s.asks, e.timers.asks = true, true
	}
}

// Watch has EventSilent told of a client session in each epoch in which its server owes answers and
// has been silent for a quarter of Patience.
func (e *Engine) Watch(s *Conn) { s.watched = true }

// Patience returns how long the server of a client session may owe an answer in silence until it
// counts as silent: Timing.SilenceTimeout, or longer if the path is. It is time for more than one
// look and question.
func (e *Engine) Patience(s *Conn) time.Duration {
	return max(e.cfg.Timing.SilenceTimeout, s.Client.Patience(), 4*e.timers.epoch)
}

// listen looks whether a watched session's server owes answers and is silent. Long before it counts
// as silent it is asked for a sign of life, several times: so neither a slow handler nor the loss
// of a few packets is taken for silence.
//
//go:noinline
func (e *Engine) listen(s *Conn) {
	now, a := e.in.Now, s.assoc
	since, _, owed := s.Client.Owed()
	patience := e.Patience(s)
	if !owed || now.Sub(max(since, a.watch.LastHeard())) < patience/4 {
		return
	}
	if now.Sub(a.asked) >= patience/8 {
		a.asked = now
		s.live.Probe(s.End, e.rng.Uint64(), now, e.Out)
	}
	e.Out.Tell(session.EventSilent, s.End.Local)
}

// Evidence of losses is looked at again after such a share of an epoch, and no more often than
// takes about a hundredth of the time, however many sessions there are.
const (
	lookShare = 16
	lookEach  = 10 * time.Microsecond
)

// looked notes that evidence of losses has been looked at.
func (t *timers) looked(now monotime.Time) {
	t.nextLook = now.Add(max(t.epoch/lookShare, time.Duration(len(t.active))*lookEach))
}

// NextLook returns when Look is due.
func (e *Engine) NextLook() monotime.Time { return e.timers.nextLook }

// Look has sessions send again what evidence shows to be lost. After a pause of this process it
// waits: answers may be here that nobody has seen.
func (e *Engine) Look() {
	t := &e.timers
	t.looked(e.in.Now)
	if e.in.Unseen >= t.epoch/lookShare {
		return
	}
	for _, s := range t.active {
		if s.state == connected {
			s.Client.Look(e.in.Now, e.Out)
		}
	}
}

// repeatLate repeats the late answers that are due.
func (e *Engine) repeatLate() {
	late := e.timers.late
	for i := 0; i < len(late); {
		if s := late[i]; s.state == connected && s.Server.Repeat(e.in.Now, e.Out) > 0 {
			i++
			continue
		}
		last := len(late) - 1
		late[i] = late[last]
		late[last] = nil
		late = late[:last]
	}
	e.timers.late = late
}

// WheelConfig is the shape of an endpoint's rate limiter. Its horizon is longer than
// what the largest packet takes at the least rate of Timely (about 7 ms).
var WheelConfig = carousel.Config{Granularity: 512 * time.Nanosecond, Horizon: 8 * time.Millisecond}

// pace puts a session into the rate limiter, which makes it send when its next packet is due.
// The wheel is made when it is first needed: most endpoints never do.
func (t *timers) pace(s *Conn, now monotime.Time) {
	if t.wheel == nil {
		t.wheel, _ = carousel.New[*Conn](WheelConfig, now) // the shape is right
	}
	t.wheel.Advance(now)
	t.wheel.Insert(s.Client.PaceAt(), s)
}

// Release lets the sessions send whose packets are due. A session stays in the wheel
// when it ends: there is no deletion (eRPC, appendix C), so it is looked at here.
func (e *Engine) Release() {
	w := e.timers.wheel
	for n := w.Len(); n > 0; n-- {
		s, ok := w.Pop(e.in.Now)
		if !ok {
			return
		}
		if s.state == connected {
			s.Client.Release(e.in.Now, e.Out)
		}
	}
}

// WakeAt returns when the engine wants Tick or Release to be called next.
func (e *Engine) WakeAt() monotime.Time {
	wake := e.nextTick()
	if w := e.timers.wheel; w != nil {
		if at, ok := w.Next(); ok {
			wake = min(wake, at)
		}
	}
	return wake
}

// maxResting bounds what resting looks at.
const maxResting = 64

// resting reports whether all requests under way wait at their servers, so that nothing is
// overdue before the next sweep.
func (t *timers) resting() bool {
	if len(t.active) > maxResting {
		return false
	}
	for _, s := range t.active {
		if s.state != connected || !s.Client.Resting() {
			return false
		}
	}
	return true
}

// quietUntil returns a time before which no session with requests needs a Tick if no packet comes;
// 0 if any might. Where packets pass through kernels each wake-up costs a switch of threads, so
// there it is worth looking.
func (t *timers) quietUntil() monotime.Time {
	if len(t.active) > maxResting {
		return 0
	}
	until := monotime.Never
	for _, s := range t.active {
		if s.state != connected || s.watched || s.asks || s.plan.hostDelay == 0 || s.Client.Narrowed() ||
			s.assoc.path.by == s {
			return 0
		}
		if _, stuck := s.Client.Suspects(); stuck {
			return 0
		}
		until = min(until, s.Client.QuietUntil())
	}
	return until
}

// nextTick returns when Tick wants to be called next.
func (e *Engine) nextTick() monotime.Time {
	t := &e.timers
	next := monotime.Never
	switch {
	case len(t.late) > 0, len(e.notices) > 0, len(e.handshakes.repeating) > 0,
		len(e.assocs.probes) > 0:
		return t.nextScan
	case len(t.active) > 0 && !t.resting():
		next = max(min(t.quietUntil(), t.nextSweep, e.quotas.memory.Next()), t.nextScan)
	case e.table.live > 0, len(e.assocs.idle) > 0,
		e.security != nil && e.security.halfOpen.expiry.first != nil:
		next = max(min(t.nextSweep, e.quotas.memory.Next()), t.nextScan)
	}
	return next
}
