package memcached

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
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
		c.sayUnless(quiet, badFormat)
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

// stats answers with counters. It reports false if the store is closed.
func (c *conn) stats() bool {
	w := &c.w.words
	sub := ""
	if w.n > 1 {
		sub = string(w.list[1])
	}
	var b strings.Builder
	switch sub {
	case "":
		if !c.s.general(&b) {
			return false
		}
	case "settings":
		c.s.settings(&b)
	case "items", "slabs":
		if !c.s.class(&b, sub) {
			return false
		}
	case "conns":
		stat(&b, "count", c.s.open())
	case "sizes":
		stat(&b, "sizes_status", "disabled")
	case "reset":
		for i := range c.s.totals {
			c.s.totals[i].Store(0)
		}
		c.say("RESET")
		return true
	default:
		c.say("CLIENT_ERROR no statistics of that name are kept")
		return true
	}
	c.say(b.String() + "END")
	return true
}

func stat(b *strings.Builder, name string, value any) { fmt.Fprintf(b, "STAT %s %v\r\n", name, value) }

// general writes the counters of the server.
func (s *Server) general(b *strings.Builder) bool {
	t, err := s.sum()
	if err != nil {
		return false
	}
	now := time.Now()
	stat(b, "pid", os.Getpid())
	stat(b, "uptime", int64(now.Sub(s.start)/time.Second))
	stat(b, "time", now.Unix())
	stat(b, "version", s.cfg.Version)
	stat(b, "pointer_size", strconv.IntSize)
	stat(b, "threads", runtime.GOMAXPROCS(0))
	stat(b, "curr_connections", s.open())
	stat(b, "total_connections", s.total.Load())
	stat(b, "rejected_connections", s.rejected.Load())
	stat(b, "max_connections", s.cfg.MaxConns)
	for i, name := range counterNames {
		stat(b, name, s.totals[i].Load())
	}
	stat(b, "get_expired", t.Expired)
	stat(b, "curr_items", t.Items)
	stat(b, "total_items", t.Puts)
	stat(b, "bytes", t.Bytes)
	stat(b, "limit_maxbytes", t.Memory)
	stat(b, "evictions", t.Evictions)
	stat(b, "buffer_bytes", s.lines.used()+s.values.used()+s.answers.used())
	stat(b, "accepting_conns", 1)
	stat(b, "partitions", s.parts)
	return true
}

// settings writes how the server was set up.
func (s *Server) settings(b *strings.Builder) {
	t, _ := s.sum() // of a store that is closed: 0
	stat(b, "maxbytes", t.Memory)
	stat(b, "maxconns", s.cfg.MaxConns)
	stat(b, "item_size_max", s.cfg.MaxItemSize)
	stat(b, "idle_timeout", int64(s.cfg.IdleTimeout/time.Second))
	stat(b, "cas_enabled", yes(true))
	stat(b, "flush_enabled", yes(true))
	stat(b, "auth_enabled_ascii", yes(s.cfg.Auth != nil))
	stat(b, "ssl_enabled", yes(s.cfg.TLS != nil))
	stat(b, "num_threads", runtime.GOMAXPROCS(0))
	stat(b, "binding_protocol", "ascii")
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// class writes counters of items, all of which are of one class.
func (s *Server) class(b *strings.Builder, sub string) bool {
	t, err := s.sum()
	if err != nil {
		return false
	}
	if sub == "items" {
		stat(b, "items:1:number", t.Items)
		stat(b, "items:1:evicted", t.Evictions)
		stat(b, "items:1:outofmemory", t.Fulls)
		stat(b, "items:1:mem_requested", t.Bytes)
		return true
	}
	stat(b, "1:used_chunks", t.Items)
	stat(b, "1:mem_requested", t.Bytes)
	stat(b, "1:get_hits", s.totals[getHits].Load())
	stat(b, "1:cmd_set", s.totals[cmdSet].Load())
	stat(b, "active_slabs", 1)
	stat(b, "total_malloced", t.Memory)
	return true
}
