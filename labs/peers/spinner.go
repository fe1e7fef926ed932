package main

import (
	"sync/atomic"
	"time"
)

// spinner is a goroutine that computes, as a program does beside its calls.
type spinner struct {
	over  atomic.Bool
	ended chan uint64 // how often it has computed
	alone float64     // how often in a second before there were calls
	begun time.Time
}

// begin starts it, measures it alone for d, and goes on.
func (s *spinner) begin(d time.Duration) {
	s.run()
	time.Sleep(d)
	s.alone = s.stop()
	s.run()
}

func (s *spinner) run() {
	s.over.Store(false)
	s.ended, s.begun = make(chan uint64), time.Now()
	go func() {
		var n, x uint64
		for x = 1; x != 0 && !s.over.Load(); n++ {
			for range 1000 {
				x ^= x << 13
				x ^= x >> 7
				x ^= x << 17
			}
		}
		s.ended <- n
	}()
}

// stop ends it, and returns how often it has computed in a second.
func (s *spinner) stop() float64 {
	s.over.Store(true)
	n := <-s.ended
	return float64(n) / time.Since(s.begun).Seconds()
}

// end ends it, and returns which part of its rate alone it had since begin; 0 if it never began.
func (s *spinner) end() float64 {
	if s.ended == nil {
		return 0
	}
	return s.stop() / s.alone
}
