package erpc

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

const (
	// A handler is quick if it takes less than quickFor: little more than it costs to wake a
	// goroutine for it.
	quickFor = 5 * time.Microsecond
	// A measurement above quickFor adds slowStep to the sum of a type, each other one takes 1 away. A
	// type whose sum reaches slowSum is slow. So a type with one slow handler in four is slow, and one
	// that the system interrupts now and then is not.
	slowStep = 3
	slowSum  = 8
	// A slow type stays slow for minSlow, for twice as long each time that it is found slow again, and
	// for half as long after each trustAfter quick measurements.
	minSlow    = 100 * time.Millisecond
	maxSlow    = 10 * time.Second
	trustAfter = 256
	// When a handler of a type has blocked, requests of that type and address go to the pool for
	// minBlocked, and for twice as long each time; for half as long after each believeAfter that
	// did not block.
	minBlocked   = 20 * time.Millisecond
	believeAfter = 16
	// Handlers that block after all may hold up the loop for maxStalled, and a twentieth of the
	// time. Beyond that all go to the pool for stallPause.
	maxStalled = 50 * time.Millisecond
	stallLeak  = 20
	stallPause = time.Second
)

// pace holds measurements of how long the handlers of a request type take. Without any they
// count as quick.
type pace struct {
	sum   int
	trust int           // measurements that were quick since hold was halved
	until monotime.Time // the type is slow
	hold  time.Duration // for how long, the last time
}

// paces are those of all request types, and what shifts that blocked have cost.
type paces struct {
	types   [256]pace
	blocked [256]struct {
		blocked            // if more than one address called handlers that blocked
		by      *addrQuota // the last one, to compare
	}
	stalled time.Duration // by shifts that blocked, less what is forgiven
	at      monotime.Time // when it was
	until   monotime.Time // no type is quick
}

// quick reports whether the handler of a request of an address and a type is supposed to return at
// once.
func (p *paces) quick(q *addrQuota, typ uint8, now monotime.Time) bool {
	if now < p.until || !p.types[typ].quick(now) {
		return false
	}
	b := &p.blocked[typ]
	return b.by == nil || b.ends(now) && (q.blocked[typ] == nil || q.blocked[typ].ends(now))
}

// stall notes that the handler of such a request has held up the loop.
func (p *paces) stall(q *addrQuota, typ uint8, now monotime.Time, d time.Duration) {
	if q.blocked == nil {
		q.blocked = make(map[uint8]*blocked)
	}
	if q.blocked[typ] == nil {
		q.blocked[typ] = new(blocked)
	}
	q.blocked[typ].begin(now)
	b := &p.blocked[typ]
	if b.by != nil && b.by != q {
		b.begin(now)
	}
	b.by = q
	p.stalled = max(0, p.stalled-now.Sub(p.at)/stallLeak) + d
	p.at = now
	if p.stalled > maxStalled {
		p.until = now.Add(stallPause)
	}
}

// blocked is a time in which handlers are supposed to block, since one did.
type blocked struct {
	until monotime.Time
	hold  time.Duration // how long it was
	quick int           // requests since hold was set
}

// begin begins such a time.
func (b *blocked) begin(now monotime.Time) {
	b.hold = max(minBlocked, min(2*b.hold, maxSlow))
	b.until, b.quick = now.Add(b.hold), 0
}

// ends reports whether it is over. If so, one request is tried.
func (b *blocked) ends(now monotime.Time) bool {
	if now < b.until {
		return false
	}
	if b.quick++; b.quick == believeAfter {
		b.quick, b.hold = 0, b.hold/2
	}
	return true
}

// quick reports whether handlers are supposed to return at once.
func (p *pace) quick(now monotime.Time) bool { return now >= p.until }

// note says how long n handlers took together.
func (p *pace) note(now monotime.Time, took time.Duration, n int) {
	if took >= time.Duration(n)*quickFor {
		p.slow(now)
		return
	}
	p.sum = max(p.sum-1, 0)
	if p.trust++; p.trust == trustAfter {
		p.trust, p.hold = 0, p.hold/2
	}
}

// slow says that handlers were not quick once.
func (p *pace) slow(now monotime.Time) {
	p.trust = 0
	if p.sum += slowStep; p.sum < slowSum {
		return
	}
	p.sum = slowSum - slowStep // one more, and it is slow again
	p.hold = max(minSlow, min(2*p.hold, maxSlow))
	p.until = now.Add(p.hold)
}
