package load

import (
	"context"
	"sync"
	"time"
)

// End is the end of a call, after the start of the measurement.
type End struct {
	At  time.Duration
	Err error
}

// Steady makes calls that arrive at random, whatever becomes of those before, each in a goroutine
// of its own.
type Steady struct {
	Call  func(ctx context.Context, seq uint64) error
	Begun time.Time

	mu     sync.Mutex
	ends   []End
	flying int
	most   int
}

// Run makes the calls that arrive until ctx ends, and returns when all have ended: a call's context
// goes on for patience after its arrival.
func (s *Steady) Run(ctx context.Context, a Arrivals, patience time.Duration) error {
	sleep, err := newSleeper()
	if err != nil {
		return err
	}
	defer sleep.close()
	var calls sync.WaitGroup
	defer calls.Wait()
	gap := a.gaps()
	for at, seq := gap(), uint64(0); ctx.Err() == nil; at, seq = at+gap(), seq+1 {
		for left := time.Until(s.Begun.Add(at)); left > 0; left = time.Until(s.Begun.Add(at)) {
			if err := sleep.sleep(max(left, tick)); err != nil {
				return err
			}
		}
		calls.Go(func() {
			call, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			s.begin()
			s.end(s.Call(call, seq))
		})
	}
	return nil
}

func (s *Steady) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flying++
	s.most = max(s.most, s.flying)
}

func (s *Steady) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flying--
	s.ends = append(s.ends, End{time.Since(s.Begun), err})
}

// Ends returns the ends of all calls so far, in their order. It is the caller's when Run has
// returned.
func (s *Steady) Ends() []End {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends
}

// Most returns the most calls in flight since the last time.
func (s *Steady) Most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.most
	s.most = s.flying
	return most
}

// Lowest returns the fewest calls that ended without an error in a span that lies within from and
// to. The ends are in order.
func Lowest(ends []End, from, to, span time.Duration) int {
	var good []time.Duration
	for _, e := range ends {
		if e.Err == nil && e.At >= from && e.At < to {
			good = append(good, e.At)
		}
	}
	// The fewest are in a span that begins just after a call, or at from.
	lowest, next := len(good), 0
	for i := -1; i < len(good); i++ {
		begin := from
		if i >= 0 {
			begin = good[i] + 1
		}
		if begin+span > to {
			break
		}
		for next < len(good) && good[next] < begin+span {
			next++
		}
		lowest = min(lowest, next-(i+1))
	}
	return lowest
}
