package memcached

import (
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// statsRoom is the room in bytes for each answer to stats.
const statsRoom = 3 << 10

// statLines are lines of an answer to stats.
type statLines []byte

func (b *statLines) text(name, value string) {
	*b = append(append(append(append(append(*b, "STAT "...), name...), ' '), value...), "\r\n"...)
}

func (b *statLines) number(name string, n uint64) {
	*b = append(append(append(*b, "STAT "...), name...), ' ')
	*b = append(strconv.AppendUint(*b, n, 10), "\r\n"...)
}

func (b *statLines) whether(name string, yes bool) {
	if yes {
		b.text(name, "yes")
	} else {
		b.text(name, "no")
	}
}

// stats answers with counters. It reports false if the connection is to end.
func (c *conn) stats() bool {
	w := &c.w.words
	sub := ""
	if w.n > 1 {
		sub = string(w.list[1])
	}
	if !c.out.has(statsRoom) && c.out.makeRoom(statsRoom) != nil {
		return false
	}
	t, err := c.s.sum()
	if err != nil {
		return false
	}
	b := (*statLines)(&c.out.buf) // no command of a batch waits
	switch sub {
	case "":
		c.s.general(b, &t)
	case "settings":
		c.s.settings(b, &t)
	case "items":
		b.number("items:1:number", t.Items) // all are of one class
		b.number("items:1:evicted", t.Evictions)
		b.number("items:1:outofmemory", t.Fulls)
		b.number("items:1:mem_requested", t.Bytes)
	case "slabs":
		b.number("1:used_chunks", t.Items)
		b.number("1:mem_requested", t.Bytes)
		b.number("1:get_hits", c.s.totals[getHits].Load())
		b.number("1:cmd_set", c.s.totals[cmdSet].Load())
		b.number("active_slabs", 1)
		b.number("total_malloced", t.Memory)
	case "conns":
		b.number("count", uint64(c.s.open()))
	case "sizes":
		b.text("sizes_status", "disabled")
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
	c.say("END")
	return true
}

// general writes the counters of the server and of its items.
func (s *Server) general(b *statLines, t *mica.Stats) {
	now := time.Now()
	b.number("pid", uint64(os.Getpid()))
	b.number("uptime", uint64(now.Sub(s.start)/time.Second))
	b.number("time", uint64(now.Unix()))
	b.text("version", s.cfg.Version)
	b.number("pointer_size", strconv.IntSize)
	b.number("threads", uint64(runtime.GOMAXPROCS(0)))
	b.number("curr_connections", uint64(s.open()))
	b.number("total_connections", s.total.Load())
	b.number("rejected_connections", s.rejected.Load())
	b.number("max_connections", uint64(s.cfg.MaxConns))
	for i, name := range counterNames {
		b.number(name, s.totals[i].Load())
	}
	b.number("get_expired", t.Expired)
	b.number("curr_items", t.Items)
	b.number("total_items", t.Puts)
	b.number("bytes", t.Bytes)
	b.number("limit_maxbytes", t.Memory)
	b.number("evictions", t.Evictions)
	b.number("reclaimed", t.Expired)
	b.number("store_no_memory", t.Fulls)
	b.number("store_full_index", t.IndexFulls)
	b.number("index_bytes", t.Index)
	b.number("buffer_bytes", uint64(s.lines.used()+s.values.used()+s.answers.used()))
	b.number("accepting_conns", 1)
	b.number("partitions", uint64(s.parts))
}

// settings writes how the server was set up.
func (s *Server) settings(b *statLines, t *mica.Stats) {
	b.number("maxbytes", t.Memory)
	b.number("maxconns", uint64(s.cfg.MaxConns))
	b.number("item_size_max", uint64(s.cfg.MaxItemSize))
	b.number("idle_timeout", uint64(s.cfg.IdleTimeout/time.Second))
	b.whether("cas_enabled", true)
	b.whether("flush_enabled", true)
	b.whether("auth_enabled_ascii", s.cfg.Auth != nil)
	b.whether("ssl_enabled", s.cfg.TLS != nil)
	b.number("num_threads", uint64(runtime.GOMAXPROCS(0)))
	b.text("binding_protocol", "ascii")
}
