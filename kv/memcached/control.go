package memcached

import (
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// verbosity answers as memcached does, and changes nothing.
func (c *conn) verbosity() {
	w := &c.w.words
	if w.n < 2 || w.n > 3 {
		c.say("ERROR")
		return
	}
	level := w.list[1]
	quiet := w.noreply(1)
	if _, ok := number(level); !ok {
		c.sayUnless(quiet, badFormat)
		return
	}
	c.sayUnless(quiet, "OK")
}

// memoryLimit answers cache_memlimit: a partition has its memory from its start to its end.
func (c *conn) memoryLimit() {
	w := &c.w.words
	quiet := w.noreply(1)
	if _, ok := number(w.list[1]); w.n != 2 || !ok {
		c.sayUnless(quiet, "ERROR")
		return
	}
	c.sayUnless(quiet, "CLIENT_ERROR the memory of partitions does not change")
}

// flush is a flush_all of a partition that is due later, on the partition's clock; 0: none.
type flush struct{ at atomic.Uint32 }

// due forgets the items of the partition if it is time. Its owner calls it.
func (f *flush) due(p *mica.Partition) {
	if at := f.at.Load(); at != 0 && at <= p.Now() {
		f.at.Store(0)
		p.Clear()
	}
}

// flushAll does a flush_all. The last one counts.
func (c *conn) flushAll() {
	w := &c.w.words
	quiet := w.noreply(1)
	delay, ok := int64(0), w.n <= 2
	if w.n == 2 {
		delay, ok = signed(w.list[1])
	}
	if !ok {
		c.sayUnless(quiet, badTime)
		return
	}
	c.w.counts.add(cmdFlush, 1)
	c.s.flushAfter(delay)
	c.sayUnless(quiet, "OK")
}

// flushAfter forgets all items at an exptime.
func (s *Server) flushAfter(exptime int64) {
	var left uint32
	for i := range s.parts {
		f := &s.flushes[i]
		_ = s.cfg.Store.Do(i, func(p *mica.Partition) { // a store that is closed has no items
			at := expires(p.Now(), exptime)
			if left = at - min(at, p.Now()); left > 0 {
				f.at.Store(at)
				return
			}
			f.at.Store(0)
			p.Clear()
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flush != nil {
		s.flush.Stop()
	}
	if left == 0 || s.ended {
		return
	}
	// Those who visit partitions look too. The clock of a partition may be a second behind.
	s.flush = time.AfterFunc(time.Duration(left+1)*time.Second, func() {
		for i := range s.parts {
			_ = s.cfg.Store.Do(i, s.flushes[i].due)
		}
	})
}
