package grpcerpc

import "sync"

// serial runs functions one after the other, in the order in which they came, in a goroutine that
// is there while there are some. Balancers and resolvers ask for that.
type serial struct {
	mu      sync.Mutex
	queue   []func()
	running bool
	closed  bool
	wg      sync.WaitGroup
}

// do has f run. It reports false, and f does not run, after close.
func (s *serial) do(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.add(f)
	}
	return !s.closed
}

// add puts f behind the others. The lock is held.
func (s *serial) add(f func()) {
	s.queue = append(s.queue, f)
	if !s.running {
		s.running = true
		s.wg.Go(s.drain)
	}
}

func (s *serial) drain() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		f := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		f()
	}
}

// close has last run behind all others, and waits.
func (s *serial) close(last func()) {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.add(last)
	}
	s.mu.Unlock()
	s.wg.Wait()
}
