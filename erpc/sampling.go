package erpc

import (
	"math/rand/v2"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// Which handlers inside the loop are timed.
//
// Each type has gaps: as many requests as one that is timed stands for, itself among them. They are
// drawn at random around a mean, so that no period of the load is theirs. The mean follows the rate
// of the type, over times in which many are timed: were it to follow each handler, it would prefer
// those that come after slow ones. So counts are those of all requests, and in the long run so are
// sums. A type whose requests come seldom, or take long, is timed each time.

// HandlerEvery is how often a loop times a handler that runs inside it, about. Looking at the clock
// takes as long as the handler of a small request.
const HandlerEvery = 50 * time.Microsecond

const (
	// maxGap is the largest mean gap.
	maxGap = 1 << 12
	// rateOver is how long the rate of a type is looked at before its mean gap changes.
	rateOver = 2 * time.Millisecond
	// A type of which no handler was timed for staleAfter is timed at its next request: the mean gap
	// is that of a load which is gone.
	staleAfter = 100 * time.Millisecond
	// After a pass of odd or longer whose time no handler is known to have taken, all requests are
	// timed for rateOver; once in oddEvery at most.
	odd      = time.Millisecond
	oddEvery = 100 * time.Millisecond
)

// gap says which request of a type is timed next.
type gap struct {
	left  uint32        // requests until then
	size  uint32        // what left was; 0 before the first request
	mean  uint32        // of sizes
	count uint32        // requests since from, until one was timed last
	from  monotime.Time // since when the rate is looked at
	at    monotime.Time // when a handler was timed last
	last  time.Duration // what it took
}

// sampler chooses the requests that are timed. Its numbers are of a source of its own: they change
// nothing else.
type sampler struct {
	gaps   [MaxReqType + 1]gap
	rand   *rand.Rand
	served []uint8       // the types that have had requests
	oddAt  monotime.Time // when a pass took long last, and it was not known why
	pass   monotime.Time // the last one in which handlers were timed
	known  time.Duration // how long they took
}

// init makes s one of a loop. Seed is the simulation's, 0 if there is none.
func (s *sampler) init(seed uint64, loop int) {
	if seed == 0 {
		seed = rand.Uint64()
	}
	s.rand = rand.New(rand.NewPCG(seed, uint64(loop)))
	for t := range s.gaps {
		s.gaps[t].left = 1 // nothing is known of them
	}
}

// due reports whether a request of a type that has come is to be timed.
func (s *sampler) due(typ uint8) bool {
	g := &s.gaps[typ]
	g.left--
	return g.left == 0
}

// next draws the next gap of a type whose handler is being timed now. It returns for how many
// requests this one counts.
func (s *sampler) next(typ uint8, now monotime.Time) (weight uint64) {
	g := &s.gaps[typ]
	if g.size == 0 {
		g.size, g.mean, g.from = 1, 1, now
		s.served = append(s.served, typ)
	}
	size := g.size
	g.at = now
	g.count += size
	if d := now.Sub(g.from); d >= rateOver {
		every := HandlerEvery * time.Duration(len(s.served))
		g.mean = uint32(max(1, min((time.Duration(g.count)*every+d/2)/d, maxGap)))
		g.count, g.from = 0, now
	}
	g.size = 1 + s.rand.Uint32N(2*g.mean-1)
	g.left = g.size
	return uint64(size)
}

// hurry has the next request of a type timed, and more until its rate is known again. Those since
// the last one that was timed count like that one.
func (m *meter) hurry(typ uint8, now monotime.Time) {
	g := &m.sampler.gaps[typ]
	if past := g.size - g.left; past > 0 {
		m.server(typ).Handler.addSame(int64(g.last), uint64(past))
	}
	g.size, g.left, g.mean = 1, 1, 1
	g.count, g.from = 0, now
}

// refresh has types hurry of which no handler was timed for long.
func (m *meter) refresh(now monotime.Time) {
	for _, t := range m.sampler.served {
		if g := &m.sampler.gaps[t]; g.mean > 1 && now.Sub(g.at) >= staleAfter {
			m.hurry(t, now)
		}
	}
}

// timed notes that handlers which were timed took so long, in a pass.
func (s *sampler) timed(pass monotime.Time, d time.Duration) {
	if s.pass != pass {
		s.pass, s.known = pass, 0
	}
	s.known += d
}

// explain has all types hurry if the last pass took long, until now, and it is not known why.
func (m *meter) explain(pass, now monotime.Time) {
	s, d := &m.sampler, now.Sub(pass)
	if s.pass == pass {
		d -= s.known
	}
	if d < odd || now.Sub(s.oddAt) < oddEvery {
		return
	}
	s.oddAt = now
	for _, t := range s.served {
		m.hurry(t, now)
	}
}
