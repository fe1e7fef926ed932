package server

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// readers are those of a partition beside its loop.
type readers struct {
	pool         sync.Pool // of *mica.Reader
	hits, misses atomic.Uint64
}

// CanRead reports whether Read does what a lookup by Do would: Config.Store.Readers is set, and
// lookups move no items to the head.
func (s *Server) CanRead() bool {
	return s.cfg.Store.Readers && s.cfg.Store.MoveToHead == 0
}

// Read runs fn in the goroutine of the caller with a reader of a partition, whose loop goes on
// meanwhile (MICA's CREW mode). fn must not block, and keeps nothing of what it found. Errors:
// mica.ErrConfig without Config.Store.Readers, and erpc.ErrClosed: then fn has not run.
func (s *Server) Read(partition int, fn func(r *mica.Reader)) error {
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.closed.Load() {
		return erpc.ErrClosed
	}
	p := s.parts[partition]
	r, _ := p.readers.pool.Get().(*mica.Reader)
	if r == nil {
		var err error
		if r, err = p.store.NewReader(); err != nil {
			return fmt.Errorf("kv: partition %d: %w", partition, err)
		}
	}
	before := r.Stats()
	fn(r)
	after := r.Stats()
	p.readers.hits.Add(after.Hits - before.Hits)
	p.readers.misses.Add(after.Misses - before.Misses)
	p.readers.pool.Put(r)
	return nil
}

// counters returns those of the partition, and of its readers. The owner calls it.
func (p *part) counters() mica.Stats {
	st := p.store.Stats()
	st.Hits += p.readers.hits.Load()
	st.Misses += p.readers.misses.Load()
	return st
}
