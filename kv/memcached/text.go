package memcached

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// get answers get, gets, gat and gats.
func (c *conn) get(keys [][]byte, h how) error {
	if len(keys) == 0 {
		c.say("ERROR")
		return nil
	}
	for _, key := range keys {
		if len(key) > maxKey {
			c.say(badFormat)
			return nil
		}
	}
	for len(keys) > 0 {
		n := min(len(keys), batch)
		if err := c.getSome(keys[:n], h); err != nil {
			return err
		}
		keys = keys[n:]
	}
	c.say("END")
	return nil
}

// single answers a get or gets of one key, and those like it that are in the buffer behind it: as
// each visit to a partition can wait for its owner, they share one.
func (c *conn) single(name string) error {
	b, _ := c.r.Peek(c.r.Buffered()) // nothing is read
	used := 0
	for len(c.words) <= batch {
		end := bytes.IndexByte(b[used:], '\n')
		if end <= len(name) {
			break
		}
		line := b[used : used+end]
		if line[end-1] == '\r' {
			line = line[:end-1]
		}
		key := line[len(name):]
		if string(line[:len(name)]) != name || len(key) < 2 || len(key) > maxKey+1 ||
			bytes.LastIndexByte(key, ' ') != 0 {
			break
		}
		c.words = append(c.words, key[1:])
		used += end + 1
	}
	_, _ = c.r.Discard(used) // they are in the buffer
	return c.getSome(c.words[1:], how{withCAS: name == "gets", end: "END\r\n"})
}

func (c *conn) gat(withCAS bool) error {
	if len(c.words) < 3 {
		if len(c.words) == 2 {
			c.say("END") // as memcached says
		} else {
			c.say("ERROR")
		}
		return nil
	}
	exptime, ok := signed(c.words[1])
	if !ok {
		c.say("CLIENT_ERROR invalid exptime argument")
		return nil
	}
	return c.get(c.words[2:], how{withCAS: withCAS, touch: true, exptime: exptime})
}

// write is a command that brings a value.
type write struct {
	key     []byte
	flags   uint32
	exptime int64
	cas     uint64
	size    int
}

// parse reads the line of a write; ok is false if it is none.
func (c *conn) parse(name string) (w write, ok bool) {
	words := 5
	if name == "cas" {
		words = 6
	}
	c.noreply(5)
	if len(c.words) != words || len(c.words[1]) > maxKey {
		return w, false
	}
	flags, ok1 := number(c.words[2])
	exptime, ok2 := signed(c.words[3])
	size, ok3 := c.length(4)
	if name == "cas" {
		if w.cas, ok = number(c.words[5]); !ok {
			return w, false
		}
	}
	w.key = c.key[:copy(c.key[:], c.words[1])]
	w.flags, w.exptime, w.size = uint32(flags), exptime, size
	return w, ok1 && ok2 && ok3 && flags < 1<<32
}

// store answers set, add, replace, append, prepend and cas.
func (c *conn) store(name string) error {
	if len(c.words) < 5 {
		return c.refuse("ERROR", 4)
	}
	w, ok := c.parse(name)
	if !ok {
		return c.refuse(badFormat, 4)
	}
	if w.size > mica.MaxValue {
		return c.refuse(tooLarge, 4)
	}
	value, ok, err := c.value(w.size)
	if err != nil {
		return err
	}
	if !ok {
		c.say(badChunk)
		return nil
	}
	var result error
	err = c.do(w.key, func(p *mica.Partition, hash uint64) {
		x := mica.Write{Hash: hash, Key: w.key, Value: value, Flags: w.flags,
			Expires: expires(p.Now(), w.exptime), Version: w.cas}
		switch name {
		case "add":
			x.If = mica.IfAbsent
		case "replace":
			x.If = mica.IfPresent
		case "cas":
			x.If = mica.IfVersion
		case "append", "prepend":
			_, result = p.Concat(hash, w.key, value, name == "prepend", 0)
			return
		}
		_, result = p.Write(&x)
	})
	if err != nil {
		return err
	}
	switch {
	case result == nil:
		c.say("STORED")
	case result == mica.ErrVersion:
		c.say("EXISTS")
	case result == mica.ErrNotFound && name == "cas":
		c.say("NOT_FOUND")
	case result == mica.ErrExists || result == mica.ErrNotFound:
		c.say("NOT_STORED")
	default:
		c.say(problem(result))
	}
	return nil
}

// problem returns the answer to an error that is the server's, or that of a size.
func problem(err error) string {
	switch err {
	case mica.ErrFull:
		return noMemory
	case mica.ErrTooLarge, mica.ErrValue:
		return tooLarge
	case mica.ErrNumber:
		return "CLIENT_ERROR cannot increment or decrement non-numeric value"
	}
	return "SERVER_ERROR " + err.Error()
}

func (c *conn) delete() error {
	c.noreply(2)
	n := len(c.words)
	if n < 2 {
		c.say("ERROR")
		return nil
	}
	if n > 3 || n == 3 && string(c.words[2]) != "0" {
		c.say(badFormat + ".  Usage: delete <key> [noreply]")
		return nil
	}
	if len(c.words[1]) > maxKey {
		c.say(badFormat)
		return nil
	}
	var result error
	key := c.words[1]
	err := c.do(key, func(p *mica.Partition, hash uint64) { result = p.Delete(hash, key, 0) })
	if err != nil {
		return err
	}
	if result != nil {
		c.say("NOT_FOUND")
	} else {
		c.say("DELETED")
	}
	return nil
}

func (c *conn) increment(down bool) error {
	c.noreply(3)
	if len(c.words) != 3 {
		c.say("ERROR")
		return nil
	}
	delta, ok := number(c.words[2])
	switch {
	case len(c.words[1]) > maxKey:
		c.say(badFormat)
		return nil
	case !ok:
		c.say("CLIENT_ERROR invalid numeric delta argument")
		return nil
	}
	var result error
	var value uint64
	key := c.words[1]
	err := c.do(key, func(p *mica.Partition, hash uint64) {
		value, _, result = p.Increment(hash, key, delta, down, 0)
	})
	switch {
	case err != nil:
		return err
	case result == mica.ErrNotFound:
		c.say("NOT_FOUND")
	case result != nil:
		c.say(problem(result))
	default:
		c.say(strconv.FormatUint(value, 10))
	}
	return nil
}

func (c *conn) touch() error {
	c.noreply(3)
	if len(c.words) != 3 {
		c.say("ERROR")
		return nil
	}
	exptime, ok := signed(c.words[2])
	switch {
	case len(c.words[1]) > maxKey:
		c.say(badFormat)
		return nil
	case !ok:
		c.say("CLIENT_ERROR invalid exptime argument")
		return nil
	}
	key := c.words[1]
	err := c.do(key, func(p *mica.Partition, hash uint64) {
		_, ok = p.Touch(hash, key, expires(p.Now(), exptime))
	})
	if err != nil {
		return err
	}
	if ok {
		c.say("TOUCHED")
	} else {
		c.say("NOT_FOUND")
	}
	return nil
}

func (c *conn) flushAll() {
	c.noreply(1)
	delay, ok := int64(0), true
	if len(c.words) > 1 {
		delay, ok = signed(c.words[1])
	}
	switch {
	case !ok || delay > month:
		c.say("CLIENT_ERROR bad command line format")
		return
	case delay <= 0:
		c.s.clear()
	default:
		c.s.clearAfter(delay)
	}
	c.say("OK")
}

// stats answers with the general counters.
func (c *conn) stats() error {
	if len(c.words) > 1 {
		c.say("CLIENT_ERROR only the general statistics are kept")
		return nil
	}
	t, err := c.s.sum()
	if err != nil {
		return err
	}
	now := time.Now()
	for _, line := range []struct {
		name  string
		value any
	}{
		{"pid", os.Getpid()}, {"uptime", int64(now.Sub(c.s.start) / time.Second)},
		{"time", now.Unix()}, {"version", c.s.cfg.Version}, {"pointer_size", strconv.IntSize},
		{"threads", runtime.GOMAXPROCS(0)}, {"curr_connections", c.s.open()},
		{"total_connections", c.s.total.Load()}, {"max_connections", c.s.cfg.MaxConns},
		{"cmd_get", t.Hits + t.Misses}, {"cmd_set", t.Puts}, {"get_hits", t.Hits},
		{"get_misses", t.Misses}, {"get_expired", t.Expired}, {"curr_items", t.Items},
		{"total_items", t.Puts}, {"bytes", t.Bytes}, {"limit_maxbytes", t.Memory},
		{"evictions", t.Evictions}, {"partitions", c.s.cfg.Store.Partitions()},
	} {
		c.say(fmt.Sprint("STAT ", line.name, " ", line.value))
	}
	c.say("END")
	return nil
}
