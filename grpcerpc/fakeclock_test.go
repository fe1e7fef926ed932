package grpcerpc

import (
	"sync"
	"time"
)

// FakeClock is a clock that stands until Advance.
type FakeClock struct {
	mu     sync.Mutex
	time   time.Time
	timers map[*fakeTimer]time.Time // that are set, and when they are due
}

func NewFakeClock() *FakeClock {
	return &FakeClock{time: time.Unix(1e9, 0), timers: make(map[*fakeTimer]time.Time)}
}

// clock returns the clock as servers and ClientConns want it.
func (f *FakeClock) clock() clock {
	now := func() time.Time {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.time
	}
	return clock{now, func(d time.Duration, fn func()) timer {
		t := &fakeTimer{f, fn}
		t.Reset(d)
		return t
	}}
}

// Advance has time go on, and the timers ring that are due, one after the other.
func (f *FakeClock) Advance(d time.Duration) {
	f.mu.Lock()
	end := f.time.Add(d)
	for {
		var first *fakeTimer
		for t, at := range f.timers {
			if !at.After(end) && (first == nil || at.Before(f.timers[first])) {
				first = t
			}
		}
		if first == nil {
			break
		}
		f.time = f.timers[first]
		delete(f.timers, first)
		f.mu.Unlock()
		first.ring()
		f.mu.Lock()
	}
	f.time = end
	f.mu.Unlock()
}

type fakeTimer struct {
	of   *FakeClock
	ring func()
}

func (t *fakeTimer) Stop() bool {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	_, set := t.of.timers[t]
	delete(t.of.timers, t)
	return set
}

func (t *fakeTimer) Reset(d time.Duration) bool {
	set := t.Stop()
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.of.timers[t] = t.of.time.Add(d)
	return set
}

// ServerClock gives a server its time.
func ServerClock(f *FakeClock) ServerOption {
	return func(o *serverOptions) { o.clock = f.clock() }
}

// Conns returns how many connections the server has that have lived, those of them whose clients
// shall go elsewhere, and the calls that all have.
func (s *Server) Conns() (all, leaving, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.mu.Lock()
		if c.alive {
			all++
		}
		if c.leaving {
			leaving++
		}
		calls += c.calls
		c.mu.Unlock()
	}
	return all, leaving, calls
}

// ClientClock gives a ClientConn its time.
func ClientClock(f *FakeClock) DialOption {
	return func(o *dialOptions) error {
		o.clock = f.clock()
		return nil
	}
}
