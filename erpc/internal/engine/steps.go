package engine

import (
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

const (
	// maxSteps bounds the steps of handshakes that wait for a worker, of all loops together.
	maxSteps = 8192
	// maxHooks bounds the questions to the application that are open. One share has a quarter.
	maxHooks = 4096
	// quotaDivisor is which part one share has of what is bounded for all.
	quotaDivisor = 4
)

// steps runs steps of handshakes in a few goroutines, which are there while there is work. The
// shares have their turns: each turn is a step, so a share that has many waits for its own.
//
// A step that asks the application something may wait for long. Another worker goes on in its place
// meanwhile (pause, resume), so that only the share waits whose question it is.
type steps struct {
	mu      sync.Mutex
	max     int // workers that compute
	running int // of them; one that resumes may be beyond max for a step
	waiting int // steps
	hooks   int // questions that are open
	lines   map[transport.Addr]*stepLine
	turns   []*stepLine // those with steps that wait, the next one first
}

// stepLine is the steps of one share.
type stepLine struct {
	share transport.Addr
	steps []func()
	hooks int
}

// submit runs fn of some share soon. It reports false if too much waits.
func (s *steps) submit(share transport.Addr, fn func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.line(share)
	if s.waiting >= maxSteps || len(l.steps) >= maxSteps/quotaDivisor {
		s.tidy(l)
		return false
	}
	if l.steps = append(l.steps, fn); len(l.steps) == 1 {
		s.turns = append(s.turns, l)
	}
	s.waiting++
	s.bring()
	return true
}

// line returns the line of a share.
func (s *steps) line(share transport.Addr) *stepLine {
	l := s.lines[share]
	if l == nil {
		if s.lines == nil {
			s.lines = make(map[transport.Addr]*stepLine)
		}
		l = &stepLine{share: share}
		s.lines[share] = l
	}
	return l
}

// tidy forgets a line that has nothing.
func (s *steps) tidy(l *stepLine) {
	if len(l.steps) == 0 && l.hooks == 0 {
		delete(s.lines, l.share)
	}
}

// bring makes a worker come if there is a step for it.
func (s *steps) bring() {
	if s.waiting > 0 && s.running < s.max {
		s.running++
		go s.work()
	}
}

// waits returns how many steps wait.
func (s *steps) waits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

func (s *steps) work() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.waiting > 0 && s.running <= s.max {
		fn := s.next()
		s.mu.Unlock()
		fn()
		s.mu.Lock()
	}
	s.running--
	s.bring() // one that resumed may have been in its place
}

// next takes the first step of the share whose turn it is.
func (s *steps) next() func() {
	l := s.turns[0]
	s.turns = s.turns[1:]
	fn := l.steps[0]
	l.steps[0] = nil
	if l.steps = l.steps[1:]; len(l.steps) > 0 {
		s.turns = append(s.turns, l)
	}
	s.waiting--
	s.tidy(l)
	return fn
}

// mayPause reports whether a share may have one more question open.
func (s *steps) mayPause(share transport.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[share]
	return s.hooks < maxHooks && (l == nil || l.hooks < maxHooks/quotaDivisor)
}

// pause notes that a step asks the application something, and lets another worker come.
func (s *steps) pause(share transport.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks++
	s.line(share).hooks++
	s.running--
	s.bring()
}

// resume notes that a step goes on that has paused.
func (s *steps) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
}

// hookEnds notes that the application has answered.
func (s *steps) hookEnds(share transport.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks--
	l := s.line(share)
	l.hooks--
	s.tidy(l)
}

const (
	// restTimes is for how many times the length of a step a worker rests behind it, where sessions
	// are in use: handshakes have a sixth of its processor then.
	restTimes = 5
	// maxRest bounds that, since a step may have waited for the application or for a processor.
	maxRest = 2 * time.Millisecond
	// Sessions are in use where a datagram comes every usedEvery, beside those that come with a new
	// session anyway. Looks are lookEvery apart, at least.
	usedEvery  = 200 * time.Microsecond
	perOpening = 4
	lookEvery  = time.Millisecond
)

// usage tells whether the sessions of an endpoint are in use, beside handshakes.
type usage struct {
	opened int64 // sealed datagrams
	before int64 // of them at the last look, without those of new sessions
	at     monotime.Time
	used   bool
}

// look reports whether sessions have been in use since the last look. So many were opened so far.
func (u *usage) look(now monotime.Time, sessions uint64) bool {
	if d := now.Sub(u.at); d >= lookEvery {
		n := u.opened - perOpening*int64(sessions)
		u.used = n-u.before >= int64(d/usedEvery)
		u.before, u.at = n, now
	}
	return u.used
}

// rest returns how long a worker rests behind a step that took d.
func rest(d time.Duration) time.Duration { return min(restTimes*d, maxRest) }
