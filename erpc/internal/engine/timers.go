package erpc

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/ratelimit/carousel"
)

// timers says when the engine has something to do though nothing comes: once per epoch for what
// may be overdue, once per sweep for silent peers, and for sessions whose rate holds a packet back
// when it is due.
type timers struct {
	epoch    time.Duration
	nextScan monotime.Time // the next epoch

	sweepEvery time.Duration
	nextSweep  monotime.Time
	swept      monotime.Time // the last one
	resetsLeft int           // answers to strangers until the next sweep in its usual time
	resetsAt   monotime.Time // when they are as many as may be again

	trim   bool                      // memory is scarce: pools are to give back what they do not use
	active []*Session                // client sessions that have requests
	late   []*Session                // server sessions with answers that wait for their ACKs
	wheel  *carousel.Wheel[*Session] // sessions whose next packet is not due; nil until needed
	idle   idleWatch
	alarm  alarm
}

// idleWatch waits until no handler has run for a while.
type idleWatch struct {
	span  time.Duration
	since monotime.Time // since when no handler runs; 0 if one does
	fn    func()        // nil if nobody waits
}

// alarm is a call that is due at some time.
type alarm struct {
	at monotime.Time
	fn func() // nil if there is none
}

// sweepsPerHeartbeat is how often silent peers are looked for.
const sweepsPerHeartbeat = 4

func newTimers(t *Timing) timers {
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

// activate notes that a client session has requests. Only those are looked at for overdue
// answers, however many sessions there are.
func (t *timers) activate(s *Session) {
	if s.activeAt == 0 {
		t.active = append(t.active, s)
		s.activeAt = int32(len(t.active))
	}
}

// deactivate undoes activate if the session has no requests any more.
func (t *timers) deactivate(s *Session) {
	if s.activeAt == 0 || !s.cl.Idle() {
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

// tick does what time asks for, once per epoch.
func (e *engine) tick() {
	t := &e.timers
	t.nextScan = e.in.Now.Add(t.epoch)
	e.onHints()
	if len(e.assocs.probes) > 0 {
		e.checkDeathProbes()
	}
	e.scanLoss()
	e.repeatLate()
	e.expire()
	e.repeatNotices()
	if m := e.quotas.memory; e.in.Now >= m.Next() {
		m.Expire(e.in.Now, e.quotas.book.scarce(), e.out)
	}
	if t.idle.fn != nil {
		e.checkIdle()
	}
	if fn := t.alarm.fn; fn != nil && e.in.Now >= t.alarm.at {
		t.alarm.fn = nil
		fn()
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
func (e *engine) scanLoss() {
	for _, s := range e.timers.active {
		if s.state != sessConnected {
			continue
		}
		retries := s.cl.Scan(e.in.Now, e.out)
		if retries >= 2 {
			e.overdue(s)
		}
		if _, stuck := s.cl.Suspects(); stuck || s.probe != nil {
			e.probePath(s)
		}
		if s.cl.PathPingDue(e.in.Now) {
			s.live.Probe(s.end, e.rng.Uint64(), e.in.Now, e.out) // are its hold times true?
		}
	}
}

// overdue acts on a session with a request that has timed out twice.
//
//go:noinline
func (e *engine) overdue(s *Session) {
	if e.in.Now.Sub(s.live.Probed()) > s.plan.timing.RTOMin {
		s.live.Probe(s.end, e.rng.Uint64(), e.in.Now, e.out) // does it know this session?
	}
	if l := s.ofClient; l != nil && l.client.member != nil {
		l.client.member.overdue()
	}
}

// repeatLate repeats the late answers that are due.
func (e *engine) repeatLate() {
	late := e.timers.late
	for i := 0; i < len(late); {
		if s := late[i]; s.state == sessConnected && s.sv.Repeat(e.in.Now, e.out) > 0 {
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

// whenIdle calls fn once, in a tick, when no handler has run for a span of time.
func (e *engine) whenIdle(span time.Duration, fn func()) {
	e.timers.idle = idleWatch{span: span, fn: fn}
	e.timers.nextScan = e.in.Now
}

func (e *engine) checkIdle() {
	w := &e.timers.idle
	switch {
	case e.running() > 0 || len(e.timers.late) > 0:
		w.since = 0
	case w.since == 0:
		w.since = e.in.Now
	case e.in.Now.Sub(w.since) >= w.span || e.table.live == 0:
		fn := w.fn
		w.fn = nil
		fn()
	}
}

// setAlarm makes the first tick at or after a time call fn, once, in place of what it was to
// call before. nil takes that back.
func (e *engine) setAlarm(at monotime.Time, fn func()) { e.timers.alarm = alarm{at, fn} }

// wheelConfig is the shape of an endpoint's rate limiter. Its horizon is longer than
// what the largest packet takes at the least rate of Timely (about 7 ms).
var wheelConfig = carousel.Config{Granularity: 512 * time.Nanosecond, Horizon: 8 * time.Millisecond}

// pace puts a session into the rate limiter, which makes it send when its next packet is due.
// The wheel is made when it is first needed: most endpoints never do.
func (t *timers) pace(s *Session, now monotime.Time) {
	if t.wheel == nil {
		t.wheel, _ = carousel.New[*Session](wheelConfig, now) // the shape is right
	}
	t.wheel.Advance(now)
	t.wheel.Insert(s.cl.PaceAt(), s)
}

// release lets the sessions send whose packets are due. A session stays in the wheel
// when it ends: there is no deletion (eRPC, appendix C), so it is looked at here.
func (e *engine) release() {
	w := e.timers.wheel
	for n := w.Len(); n > 0; n-- {
		s, ok := w.Pop(e.in.Now)
		if !ok {
			return
		}
		if s.state == sessConnected {
			s.cl.Release(e.in.Now, e.out)
		}
	}
}

// wakeAt returns when the loop wants to run next.
func (e *engine) wakeAt() monotime.Time {
	if len(e.out.Tx) > 0 {
		return e.in.Now.Add(fullFor)
	}
	if len(e.jobs.batch) > 0 {
		return e.in.Now
	}
	wake := min(e.nextTick(), e.nextCall())
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
		if s.state != sessConnected || !s.cl.Resting() {
			return false
		}
	}
	return true
}

// nextTick returns when tick wants to be called next.
func (e *engine) nextTick() monotime.Time {
	t := &e.timers
	next := monotime.Never
	switch {
	case len(t.active) > 0 && !t.resting(), len(t.late) > 0, len(e.notices) > 0,
		len(e.handshakes.repeating) > 0, len(e.assocs.probes) > 0, e.calls.deadlines > 0,
		t.idle.fn != nil:
		return t.nextScan
	case e.table.live > 0, len(e.assocs.idle) > 0,
		e.security != nil && len(e.security.pending) > 0:
		next = max(min(t.nextSweep, e.quotas.memory.Next()), t.nextScan)
	}
	if t.alarm.fn != nil {
		next = min(next, max(t.alarm.at, t.nextScan))
	}
	return next
}
