package memcached

import (
	"bytes"
	"math"
	"strconv"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// Answers of several commands.
const (
	badFormat = "CLIENT_ERROR bad command line format"
	badChunk  = "CLIENT_ERROR bad data chunk"
	badDelta  = "CLIENT_ERROR invalid numeric delta argument"
	badTime   = "CLIENT_ERROR invalid exptime argument"
	tooLarge  = "SERVER_ERROR object too large for cache"
	noMemory  = "SERVER_ERROR out of memory storing object"
)

// First bytes of other protocols.
const (
	binaryMagic  = 0x80 // memcached's binary one
	tlsHandshake = 0x16
)

// maxWords is how many words of a line are kept: no command but those with lists has so many.
const maxWords = 8

// words are those of a line.
type words struct {
	list [maxWords][]byte
	n    int // may be more than are kept
}

// split finds the words of a line.
func (w *words) split(line []byte) {
	n := 0
	for i := 0; i < len(line); {
		if line[i] == ' ' {
			i++
			continue
		}
		from := i
		for i < len(line) && line[i] != ' ' {
			i++
		}
		if n < maxWords {
			w.list[n] = line[from:i]
		}
		n++
	}
	w.n = n
}

// noreply takes the word noreply off the end of a line of more than least words, and reports
// whether it was there.
func (w *words) noreply(least int) bool {
	if w.n <= least || w.n > maxWords || string(w.list[w.n-1]) != "noreply" {
		return false
	}
	w.n--
	return true
}

// command makes a command of a line, which ends before byte n of what is there.
func (c *conn) command(line []byte, n int) next {
	w := &c.w.words
	w.split(line)
	if !c.known {
		return c.authenticate(n)
	}
	if w.n == 0 {
		c.say("ERROR")
		return c.done(n)
	}
	name := w.list[0]
	switch string(name) {
	case "get", "gets":
		return c.get(line, n, 1, opGet)
	case "set":
		return c.store(opSet, n)
	case "mg", "md", "ma", "ms", "me":
		return c.meta(line, n)
	case "gat", "gats":
		return c.get(line, n, 2, opTouchGet)
	case "add":
		return c.store(opAdd, n)
	case "replace":
		return c.store(opReplace, n)
	case "append":
		return c.store(opAppend, n)
	case "prepend":
		return c.store(opPrepend, n)
	case "cas":
		return c.store(opCAS, n)
	case "delete":
		c.delete()
	case "incr":
		c.increment(opIncrement)
	case "decr":
		c.increment(opDecrement)
	case "touch":
		c.touch()
	case "mn":
		c.say("MN")
	default:
		return c.rare(n)
	}
	return c.done(n)
}

// rare does the commands that are not run in batches: those before them have run then.
func (c *conn) rare(n int) next {
	if c.w.n > 0 {
		return runThem
	}
	w := &c.w.words
	switch string(w.list[0]) {
	case "stats":
		if !c.stats() {
			return quit
		}
	case "version":
		c.say("VERSION " + c.s.cfg.Version)
	case "verbosity":
		c.verbosity()
	case "flush_all":
		c.flushAll()
	case "cache_memlimit":
		c.memoryLimit()
	case "shutdown":
		c.say("ERROR: shutdown not enabled")
	case "lru_crawler", "slabs", "lru", "watch", "misbehave", "extstore", "debugtime":
		c.say("CLIENT_ERROR " + string(w.list[0]) + " is not supported")
	case "quit":
		return quit
	default:
		if w.foreign() {
			return quit
		}
		c.say("ERROR")
	}
	return c.done(n)
}

// foreign reports whether a line, of no command, is of another protocol: HTTP, memcached's binary
// one, or TLS. What comes behind it may look like commands and be none of the client's: the body of
// a form that a browser was made to send, say.
func (w *words) foreign() bool {
	first, last := w.list[0], w.list[min(w.n, maxWords)-1]
	return first[0] == binaryMagic || first[0] == tlsHandshake || string(first) == "POST" ||
		string(first) == "Host:" || bytes.HasPrefix(last, []byte("HTTP/"))
}

// add makes a command on a key.
func (c *conn) add(kind opKind, key []byte, quiet bool) *op {
	o := c.w.add()
	o.kind, o.quiet, o.key = kind, quiet, key
	o.part = int32(mica.PartitionOf(mica.Hash(key), c.s.parts))
	return o
}

// sayUnless answers with a line if the client wants an answer.
func (c *conn) sayUnless(quiet bool, line string) {
	if !quiet {
		c.say(line)
	}
}

// store makes a set, add, replace, append, prepend or cas of a line and the value behind it.
func (c *conn) store(kind opKind, n int) next {
	w := &c.w.words
	count := 5
	if kind == opCAS {
		count = 6
	}
	if w.n < count {
		return c.refuse("ERROR", false, w.list[min(4, w.n):min(5, w.n)], n)
	}
	quiet := w.noreply(5)
	size, sized := w.length(4)
	flags, ok1 := number(w.list[2])
	life, ok2 := signed(w.list[3])
	compare, ok3 := uint64(0), true
	if kind == opCAS && w.n > 5 {
		compare, ok3 = number(w.list[5])
	}
	if w.n != count || len(w.list[1]) > maxKey || !sized || !ok1 || !ok2 || !ok3 ||
		flags > math.MaxUint32 {
		return c.refuse(badFormat, quiet, w.list[4:5], n)
	}
	replaced := w.list[1]
	if kind != opSet {
		replaced = nil
	}
	if size > c.s.cfg.MaxItemSize {
		return c.refuseLarge(size, n, quiet, replaced)
	}
	value, used, step := c.value(size, n, quiet, replaced)
	if step != goOn || used == 0 {
		return step
	}
	o := c.add(kind, w.list[1], quiet)
	o.value, o.client, o.life, o.compare = value, uint32(flags), life, compare
	return c.done(used)
}

// value returns the value of a command whose line has n bytes, and how many bytes both take. If
// used is 0 there is none: it was refused, or has to be waited for. It is to replace that of a key,
// or of none if that is nil.
func (c *conn) value(size, n int, quiet bool, replaced []byte) (b []byte, used int, step next) {
	total := n + size + 2
	switch {
	case c.full:
		c.full = false
		c.forget(replaced)
		return nil, 0, c.swallowValue(noMemory, quiet, size, n)
	case c.body != nil:
		if c.w.n > 0 {
			return nil, 0, runThem // one such value at a time, until it has been written
		}
		b, used = c.body, n
	case total > sizeOf(0):
		c.need = total
		return nil, 0, load
	case len(c.in.rest()) < total:
		c.need = total
		return nil, 0, wait
	default:
		b, used = c.in.rest()[n:total], total
	}
	if b[size] != '\r' || b[size+1] != '\n' {
		c.sayUnless(quiet, badChunk)
		c.drop()
		return nil, 0, c.done(used)
	}
	return b[:size], used, goOn
}

// forget has a cache forget the value of a key, unless it is nil, when a client could not set it
// anew: it is out of date. A store keeps it.
func (c *conn) forget(key []byte) {
	if key != nil {
		c.add(opForget, key, true)
	}
}

// drop gives the memory of a value back.
func (c *conn) drop() {
	c.s.values.give(c.body)
	c.body = nil
}

// length returns the length of a value, which is a word of the line; ok is false if it is none.
func (w *words) length(word int) (n int, ok bool) { return lengthOf(w.list[word]) }

func lengthOf(b []byte) (n int, ok bool) {
	size, ok := signed(b)
	return int(size), ok && size >= 0 && size <= math.MaxInt32-2 // as memcached
}

// refuse answers a command that brings a value, whose length is the first of some words, and
// swallows the value. If nobody knows the length the connection ends: the value could be run as
// commands.
func (c *conn) refuse(answer string, quiet bool, length [][]byte, n int) next {
	if len(length) > 0 {
		if size, ok := lengthOf(length[0]); ok {
			return c.swallowValue(answer, quiet, size, n)
		}
	}
	c.say(answer)
	return quit
}

// refuseLarge refuses a value that would replace that of a key, unless it is nil.
func (c *conn) refuseLarge(size, n int, quiet bool, replaced []byte) next {
	c.w.counts.add(storeTooLarge, 1)
	c.forget(replaced)
	return c.swallowValue(tooLarge, quiet, size, n)
}

func (c *conn) swallowValue(answer string, quiet bool, size, n int) next {
	c.sayUnless(quiet, answer)
	c.swallow = size + 2
	return c.done(n)
}

func (c *conn) delete() {
	w := &c.w.words
	quiet := w.noreply(2)
	switch {
	case w.n < 2:
		c.sayUnless(quiet, "ERROR")
	case w.n > 3 || w.n == 3 && string(w.list[2]) != "0":
		c.sayUnless(quiet, badFormat+".  Usage: delete <key> [noreply]")
	case len(w.list[1]) > maxKey:
		c.sayUnless(quiet, badFormat)
	default:
		c.add(opDelete, w.list[1], quiet)
	}
}

func (c *conn) increment(kind opKind) {
	w := &c.w.words
	quiet := w.noreply(3)
	if w.n != 3 {
		c.sayUnless(quiet, "ERROR")
		return
	}
	delta, ok := number(w.list[2])
	switch {
	case len(w.list[1]) > maxKey:
		c.sayUnless(quiet, badFormat)
	case !ok:
		c.sayUnless(quiet, badDelta)
	default:
		c.add(kind, w.list[1], quiet).compare = delta
	}
}

func (c *conn) touch() {
	w := &c.w.words
	quiet := w.noreply(3)
	if w.n != 3 {
		c.sayUnless(quiet, "ERROR")
		return
	}
	life, ok := signed(w.list[2])
	switch {
	case len(w.list[1]) > maxKey:
		c.sayUnless(quiet, badFormat)
	case !ok:
		c.sayUnless(quiet, badTime)
	default:
		c.add(opTouch, w.list[1], quiet).life = life
	}
}

// month is the largest time that counts from now, in seconds.
const month = 60 * 60 * 24 * 30

// expires returns the time on a partition's clock that an exptime means.
func expires(now uint32, exptime int64) uint32 {
	switch {
	case exptime == 0:
		return 0
	case exptime < 0:
		return 1 // long ago
	case exptime <= month:
		return uint32(min(int64(now)+exptime, 1<<32-1))
	}
	return uint32(min(exptime, 1<<32-1))
}

// number reads a decimal number. Most have few digits.
func number(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	if len(b) < 20 {
		n := uint64(0)
		for _, d := range b {
			if d -= '0'; d > 9 {
				return 0, false
			}
			n = n*10 + uint64(d)
		}
		return n, true
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	return n, err == nil && b[0] != '+'
}

func signed(b []byte) (int64, bool) {
	if len(b) > 0 && len(b) < 19 && b[0] != '-' && b[0] != '+' {
		n, ok := number(b)
		return int64(n), ok
	}
	if len(b) > 20 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}
